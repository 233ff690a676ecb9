import { afterEach, expect, setDefaultTimeout, test } from 'bun:test'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { until } from '../../tools/test/until.ts'

setDefaultTimeout(60_000)

const SETTINGS = { processId: 'test', databaseUrl: 'postgres://nowhere', logFormat: 'text' }

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
    `import { ToTriggers } from '${import.meta.dir}/channel.ts'
     import { serveThread } from '${import.meta.dir}/serve-thread.ts'
     serveThread('test', ToTriggers, async (settings, { post }) => {
       const tell = (what) => post({ type: 'reaped', failures: [what] })
       ${start}
       return { heard: ({ about }) => tell(about), stop: async () => tell('ending'), ${parts} }
     })`,
  )
  const worker = new Worker(pathToFileURL(path).href)
  const said: string[] = []
  worker.onmessage = ({ data }) => said.push(data.type === 'reaped' ? data.failures[0] : data.type)
  worker.onerror = (event) => said.push(`error: ${event.message}`)
  worker.addEventListener('close', () => said.push('closed'))
  ended.push(async () => {
    worker.terminate()
    await rm(folder, { recursive: true })
  })
  const hears = (what: string) =>
    until(
      async () => said,
      (all) => all.some((one) => one.includes(what)),
    )
  return { say: (message: unknown) => worker.postMessage(message), said, hears }
}

test('a thread posts ready, receives hints, and stops in order', async () => {
  const { say, said, hears } = await thread('')
  say({ type: 'start', settings: SETTINGS })
  await hears('ready')
  say({ type: 'nudge', about: 'eventRecorded' })
  await hears('eventRecorded')
  say({ type: 'stop' })
  say({ type: 'stop' })
  await hears('stopped')
  expect(said.filter((one) => one !== 'alive')).toEqual(['ready', 'eventRecorded', 'ending', 'stopped'])
})

test('a thread posts alive before it is ready', async () => {
  const { say, said, hears } = await thread('', 'await new Promise(() => {})')
  say({ type: 'start', settings: SETTINGS })
  await hears('alive')
  expect(said).not.toContain('ready')
})

test('a running thread ignores invalid messages', async () => {
  const { say, hears } = await thread('')
  say({ type: 'start', settings: SETTINGS })
  await hears('ready')
  for (const nonsense of [null, 'stop', { type: 'nudge', about: 'lunch' }, { type: 'start' }]) say(nonsense)
  say({ type: 'nudge', about: 'triggersChanged' })
  await hears('triggersChanged')
})

test('a thread without settings, or that cannot start, fails', async () => {
  const without = await thread('')
  without.say({ type: 'start' })
  await without.hears('no such message')
  await without.hears('closed')
  const unable = await thread('', `throw new Error('cannot start')`)
  unable.say({ type: 'start', settings: SETTINGS })
  await unable.hears('cannot start')
  await unable.hears('closed')
})

test('a thread for one task stops after it, and fails with it', async () => {
  const { say, said, hears } = await thread(`done: Promise.resolve()`)
  say({ type: 'start', settings: SETTINGS })
  await hears('stopped')
  expect(said.filter((one) => one !== 'alive')).toEqual(['ready', 'ending', 'stopped'])
  const failing = await thread(
    `done: new Promise((_, reject) => setTimeout(() => reject(new Error('of the task')), 1))`,
  )
  failing.say({ type: 'start', settings: SETTINGS })
  await failing.hears('of the task')
  await failing.hears('closed')
})
