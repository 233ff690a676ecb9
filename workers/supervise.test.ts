import { afterEach, expect, setDefaultTimeout, test } from 'bun:test'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Log } from '../app/log.ts'
import type { FromWorker, ToDispatcher } from './channel.ts'
import { type SupervisedWorker, superviseWorker } from './supervise.ts'

setDefaultTimeout(30_000)

const START: ToDispatcher = {
  type: 'start',
  settings: {
    processId: 'test',
    databaseUrl: 'postgres://nowhere',
    runnerUrls: [],
    publicUrl: 'http://127.0.0.1:1',
    logFormat: 'text',
  },
}

const folders: string[] = []
const workers: SupervisedWorker<ToDispatcher>[] = []
afterEach(async () => {
  for (const worker of workers.splice(0)) await worker.stop()
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true })
})

/** A thread with this behaviour at its start message; what it says and how often it is started again. */
async function supervised(onStart: string) {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-worker-'))
  folders.push(folder)
  const path = join(folder, 'thread.ts')
  await writeFile(
    path,
    `self.onmessage = ({ data }) => {
      if (data.type === 'stop') postMessage({ type: 'stopped' })
      if (data.type === 'start') { ${onStart} }
    }`,
  )
  const heard: FromWorker[] = []
  let restarts = 0
  let announce: () => void = () => {}
  const logged: string[] = []
  const log: Log = {
    info: () => {},
    warn: (message) => logged.push(message),
    error: (message) => logged.push(message),
    named: () => log,
  }
  const worker = superviseWorker({
    name: 'test',
    path: pathToFileURL(path),
    startMessage: START,
    log,
    onMessage(message) {
      heard.push(message)
      announce()
    },
    onRestart() {
      restarts += 1
      announce()
    },
  })
  workers.push(worker)
  const until = async (holds: () => boolean) => {
    while (!holds()) await new Promise<void>((resolve) => (announce = resolve))
  }
  return { worker, heard, logged, restarts: () => restarts, until }
}

test('a thread that works is heard, and stops when it is asked', async () => {
  const { worker, heard, until, restarts } = await supervised(`postMessage({ type: 'ready' })`)
  await until(() => heard.length > 0)
  await worker.stop()
  expect(heard.map(({ type }) => type)).toEqual(['ready', 'stopped'])
  expect(restarts()).toBe(0)
})

for (const [what, behaviour] of Object.entries({
  throws: `setTimeout(() => { throw new Error('bang') })`,
  rejects: `Promise.reject(new Error('bang'))`,
  'exits with 0': 'process.exit(0)',
  'exits with 7': 'process.exit(7)',
}))
  test(`a thread that ${what} is noticed and started again`, async () => {
    const { restarts, logged, until } = await supervised(behaviour)
    await until(() => restarts() >= 2)
    expect(logged.some((line) => line.includes('ended unasked'))).toBe(true)
  })

test('a thread that is terminated is started again and told to start', async () => {
  const { worker, heard, until, restarts } = await supervised(`postMessage({ type: 'ready' })`)
  await until(() => heard.length === 1)
  worker.restart()
  await until(() => heard.length === 2)
  expect(restarts()).toBe(1)
})

test('a message that is none is not passed on', async () => {
  const { heard, logged, until } = await supervised(
    `postMessage({ type: 'nonsense' }); postMessage({ type: 'ready' })`,
  )
  await until(() => heard.length > 0)
  expect(heard.map(({ type }) => type)).toEqual(['ready'])
  expect(logged.join()).toContain('nobody understands')
})
