import { afterEach, expect, setDefaultTimeout, test } from 'bun:test'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { until } from '../../tools/kit/until.ts'

setDefaultTimeout(60_000)

const SETTINGS = { processId: 'test', databaseUrl: 'postgres://nowhere', logFormat: 'text', tracing: null }

const ended: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const end of ended.splice(0)) await end()
})

/**
 * A real thread that serves the triggers' channel with these parts. It reports each received hint as a failure of that name.
 */
async function thread(parts: string, start = '') {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-thread-'))
  const path = join(folder, 'thread.ts')
  await writeFile(
    path,
    `import { ToTriggers } from '${import.meta.dir}/../messages/channel.ts'
     import { serveThread } from '${import.meta.dir}/serve-thread.ts'
     serveThread('test', ToTriggers, async (settings, { post }) => {
       const record = (what) => post({ type: 'reaped', failures: [what] })
       ${start}
       return { received: ({ about }) => record(about), stop: async () => record('ending'), ${parts} }
     })`,
  )
  const worker = new Worker(pathToFileURL(path).href)
  const posted: string[] = []
  worker.onmessage = ({ data }) => posted.push(data.type === 'reaped' ? data.failures[0] : data.type)
  worker.onerror = (event) => posted.push(`error: ${event.message}`)
  worker.addEventListener('close', () => posted.push('closed'))
  ended.push(async () => {
    worker.terminate()
    await rm(folder, { recursive: true })
  })
  const waitFor = (what: string) =>
    until(
      async () => posted,
      (all) => all.some((one) => one.includes(what)),
    )
  return { send: (message: unknown) => worker.postMessage(message), posted, waitFor }
}

test('a thread posts ready, receives hints, and stops in order', async () => {
  const { send, posted, waitFor } = await thread('')
  send({ type: 'start', settings: SETTINGS })
  await waitFor('ready')
  send({ type: 'nudge', about: 'eventRecorded' })
  await waitFor('eventRecorded')
  send({ type: 'stop' })
  send({ type: 'stop' })
  await waitFor('stopped')
  expect(posted.filter((one) => one !== 'alive')).toEqual(['ready', 'eventRecorded', 'ending', 'stopped'])
})

test('a thread posts alive before it is ready', async () => {
  const { send, posted, waitFor } = await thread('', 'await new Promise(() => {})')
  send({ type: 'start', settings: SETTINGS })
  await waitFor('alive')
  expect(posted).not.toContain('ready')
})

test('a running thread ignores invalid messages', async () => {
  const { send, waitFor } = await thread('')
  send({ type: 'start', settings: SETTINGS })
  await waitFor('ready')
  for (const nonsense of [null, 'stop', { type: 'nudge', about: 'lunch' }, { type: 'start' }]) send(nonsense)
  send({ type: 'nudge', about: 'triggersChanged' })
  await waitFor('triggersChanged')
})

test('a thread without settings, or that cannot start, fails', async () => {
  const without = await thread('')
  without.send({ type: 'start' })
  await without.waitFor('invalid message')
  await without.waitFor('closed')
  const unable = await thread('', `throw new Error('cannot start')`)
  unable.send({ type: 'start', settings: SETTINGS })
  await unable.waitFor('cannot start')
  await unable.waitFor('closed')
})

test('a thread for one task stops after it, and fails with it', async () => {
  const { send, posted, waitFor } = await thread(`done: Promise.resolve()`)
  send({ type: 'start', settings: SETTINGS })
  await waitFor('stopped')
  expect(posted.filter((one) => one !== 'alive')).toEqual(['ready', 'ending', 'stopped'])
  const failing = await thread(
    `done: new Promise((_, reject) => setTimeout(() => reject(new Error('of the task')), 1))`,
  )
  failing.send({ type: 'start', settings: SETTINGS })
  await failing.waitFor('of the task')
  await failing.waitFor('closed')
})
