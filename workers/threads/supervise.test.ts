import { afterEach, expect, setDefaultTimeout, test } from 'bun:test'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Log } from '../../app/core/log.ts'
import type { FromWorker, ToDispatcher } from '../messages/channel.ts'
import { runWorkerOnce } from './run-once.ts'
import { type RestartReason, type SupervisedWorker, superviseWorker } from './supervise.ts'

setDefaultTimeout(60_000)

const START: ToDispatcher = {
  type: 'start',
  settings: {
    processId: 'test',
    databaseUrl: 'postgres://nowhere',
    runnerUrls: [],
    publicUrl: 'http://127.0.0.1:1',
    lakeRoot: 's3://sluice/',
    sidecarToken: null,
    sidecarTokenUrls: null,
    includesInputs: true,
    namespaceLimit: null,
    logFormat: 'text',
    tracing: null,
  },
}
const HOUR = 3_600_000

const folders: string[] = []
const workers: SupervisedWorker<ToDispatcher>[] = []
afterEach(async () => {
  for (const worker of workers.splice(0)) await worker.stop()
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true })
})

/** A thread that runs `onStart` on the message `start` and `onStop` on `stop`. By default it stops when requested. */
async function threadThat(onStart: string, onStop = `postMessage({ type: 'stopped' })`) {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-worker-'))
  folders.push(folder)
  const path = join(folder, 'thread.ts')
  await writeFile(
    path,
    `self.onmessage = ({ data }) => {
      if (data.type === 'stop') { ${onStop} }
      if (data.type === 'start') { ${onStart} }
    }`,
  )
  return pathToFileURL(path)
}

/** Records messages, log lines and restarts, and waits for them. */
function makeRecorder() {
  const messages: FromWorker[] = []
  const logged: string[] = []
  const restarts: RestartReason[] = []
  let announce: () => void = () => {}
  const note = (line: string, fields?: object) => logged.push(`${line} ${JSON.stringify(fields)}`)
  const log: Log = { info: () => {}, warn: note, error: note, named: () => log }
  return {
    messages,
    logged,
    restarts,
    log,
    onMessage(message: FromWorker) {
      messages.push(message)
      announce()
    },
    onRestart(reason: RestartReason) {
      restarts.push(reason)
      announce()
    },
    async until(holds: () => boolean) {
      while (!holds()) await new Promise<void>((resolve) => (announce = resolve))
    },
  }
}

async function newWorker(onStart: string, options: { onStop?: string; times?: Times } = {}) {
  const recorder = makeRecorder()
  const worker = superviseWorker<ToDispatcher>({
    name: 'test',
    path: await threadThat(onStart, options.onStop),
    startMessage: START,
    times: options.times,
    ...recorder,
  })
  workers.push(worker)
  return { worker, ...recorder }
}

async function supervised(...parts: Parameters<typeof newWorker>) {
  const supervision = await newWorker(...parts)
  supervision.worker.start()
  return supervision
}

test('a worker has no thread before its start and drops earlier messages', async () => {
  const { worker, messages, until } = await newWorker(`postMessage({ type: 'ready' })`)
  worker.post({ type: 'stop' })
  worker.restart()
  await Bun.sleep(100)
  expect(messages).toEqual([])
  worker.start()
  await until(() => messages.length > 0)
  expect(messages).toEqual([{ type: 'ready' }])
})

test('messages of a thread are received, and it stops when requested', async () => {
  const { worker, messages, until, restarts } = await supervised(`postMessage({ type: 'ready' })`)
  await until(() => messages.length > 0)
  await worker.stop()
  expect(messages.map(({ type }) => type)).toEqual(['ready', 'stopped'])
  expect(restarts).toEqual([])
})

type Times = Parameters<typeof superviseWorker>[0]['times']

/** Only the tested times are short, because a thread may start slowly. */
const CRASHES: Record<string, { behaviour: string; reason: RestartReason; logged: string; times?: Times }> = {
  throws: {
    behaviour: `setTimeout(() => { throw new Error('bang') })`,
    reason: 'failed',
    logged: 'bang',
  },
  rejects: { behaviour: `Promise.reject(new Error('bang'))`, reason: 'failed', logged: 'bang' },
  'exits with code 0': { behaviour: 'process.exit(0)', reason: 'exited', logged: '"code":0' },
  'exits with code 7': { behaviour: 'process.exit(7)', reason: 'exited', logged: '"code":7' },
  'hangs in a loop': {
    behaviour: `postMessage({ type: 'ready' }); for (;;);`,
    reason: 'silent',
    logged: 'silent',
    times: { silenceMs: 200, watchMs: 20 },
  },
  'never becomes ready': {
    behaviour: `setInterval(() => postMessage({ type: 'alive' }), 5)`,
    reason: 'not_ready',
    logged: 'not_ready',
    times: { readyMs: 100, watchMs: 20 },
  },
}
for (const [what, { behaviour, reason, logged: line, times }] of Object.entries(CRASHES))
  test(`a thread that ${what} is logged, counted and restarted each time`, async () => {
    const { restarts, logged, until } = await supervised(behaviour, { times })
    await until(() => restarts.length >= 2)
    expect(restarts.slice(0, 2)).toEqual([reason, reason])
    expect(logged.some((text) => text.includes('ended unexpectedly') && text.includes(reason))).toBe(true)
    expect(logged.join()).toContain(line)
  })

test('a terminated thread is restarted and gets its start message', async () => {
  const { worker, messages, until, restarts } = await supervised(`postMessage({ type: 'ready' })`)
  await until(() => messages.length === 1)
  worker.restart()
  await until(() => messages.length === 2)
  expect(restarts).toEqual(['terminated'])
})

test('a thread that fails repeatedly restarts with growing delays', async () => {
  const { restarts, logged, until } = await supervised('process.exit(1)')
  await until(() => restarts.length >= 4)
  const delays = logged.flatMap((line) => /"delayMs":(\d+)/.exec(line)?.[1] ?? []).map(Number)
  expect(delays.slice(0, 4)).toEqual([100, 500, 1000, 2000])
})

test('a thread that lived long enough restarts without delay', async () => {
  const { worker, messages, logged, until } = await supervised(`postMessage({ type: 'ready' })`, {
    times: { steadyMs: -1 },
  })
  await until(() => messages.length === 1)
  worker.restart()
  await until(() => messages.length === 2)
  expect(logged.join()).toContain('"delayMs":0')
})

test('time in which the process was paused does not count as silence', async () => {
  const { messages, restarts, until } = await supervised(
    `postMessage({ type: 'ready' }); setInterval(() => postMessage({ type: 'alive' }), 20)`,
    { times: { silenceMs: 3_000, watchMs: 10 } },
  )
  await until(() => messages.length > 0)
  // Simulates a paused process: its timers fire before it receives the messages of the thread.
  Bun.sleepSync(3_500)
  const before = messages.length
  await until(() => messages.length > before + 3)
  expect(restarts).toEqual([])
})

test('an invalid message is logged and not forwarded', async () => {
  const { messages, logged, until } = await supervised(
    `postMessage({ type: 'nonsense' }); postMessage({ type: 'ready' })`,
  )
  await until(() => messages.length > 0)
  expect(messages.map(({ type }) => type)).toEqual(['ready'])
  expect(logged.join()).toContain('invalid message from worker')
})

test('a thread that ignores stop is terminated and not restarted', async () => {
  const { worker, messages, logged, restarts, until } = await supervised(`postMessage({ type: 'ready' })`, {
    onStop: '',
    times: { graceMs: 50 },
  })
  await until(() => messages.length > 0)
  await worker.stop()
  expect(logged.join()).toContain('did not stop')
  expect(restarts).toEqual([])
})

test('a thread that crashes while stopping is not awaited or restarted', async () => {
  const { worker, messages, restarts, until } = await supervised(`postMessage({ type: 'ready' })`, {
    onStop: 'process.exit(3)',
    times: { graceMs: HOUR },
  })
  await until(() => messages.length > 0)
  await worker.stop()
  expect(restarts).toEqual([])
})

/** Runs one task in a separate thread. */
async function once(
  onStart: string,
  options: { onStop?: string; timeoutMs?: number; graceMs?: number; signal?: AbortSignal } = {},
) {
  const recorder = makeRecorder()
  const { onStop, timeoutMs = HOUR, ...others } = options
  const path = await threadThat(onStart, onStop)
  const ended = runWorkerOnce<ToDispatcher>({
    name: 'task',
    path,
    startMessage: START,
    timeoutMs,
    ...recorder,
    ...others,
  })
  return { ended, ...recorder }
}

test('a task ends with stopped, and all its messages are received', async () => {
  const { ended, messages } = await once(
    `postMessage({ type: 'reaped', failures: ['logs'] }); postMessage({ type: 'stopped' })`,
  )
  await ended
  expect(messages).toEqual([{ type: 'reaped', failures: ['logs'] }, { type: 'stopped' }])
})

for (const [what, { behaviour, reason }] of Object.entries(CRASHES).slice(0, 4))
  test(`a task whose thread ${what} rejects`, async () => {
    const { ended } = await once(behaviour)
    await expect(ended).rejects.toThrow(`worker task ${reason}`)
  })

test('a task that exceeds its time gets stop and may end in order', async () => {
  const { ended, messages } = await once(`postMessage({ type: 'ready' })`, { timeoutMs: 20, graceMs: HOUR })
  await ended
  expect(messages.map(({ type }) => type)).toEqual(['ready', 'stopped'])
})

test('a task that hangs is terminated', async () => {
  const { ended } = await once('for (;;);', { timeoutMs: 20, graceMs: 50 })
  await expect(ended).rejects.toThrow('did not stop')
})

test('a task gets stop when the service ends, even before it begins', async () => {
  const ends = new AbortController()
  const { ended, messages, until } = await once(`postMessage({ type: 'ready' })`, { signal: ends.signal })
  await until(() => messages.length > 0)
  ends.abort()
  await ended
  await (await once('', { signal: AbortSignal.abort() })).ended
})
