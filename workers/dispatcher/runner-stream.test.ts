import { afterEach, beforeEach, expect, setDefaultTimeout, test } from 'bun:test'
import { connect, createServer, type Socket } from 'node:net'
import { Code, ConnectError, type ServiceImpl } from '@connectrpc/connect'
import { newId, type RunId } from '../../app/core/ids.ts'
import { limits } from '../../app/core/limits.ts'
import type { EngineCost } from '../../app/core/metrics.ts'
import { runnerAt } from '../../app/rpc/clients.ts'
import type { Outcome } from '../../app/runs/outcome.ts'
import type { OpenAttempt } from '../../app/runs/store/attempts.ts'
import type { LogLine } from '../../app/runs/store/logs.ts'
import type { RunnerService } from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import type { ConnectServer } from '../../sidecars/rpc/connect.ts'
import { testAccess } from '../../sidecars/rpc/testing.ts'
import type { Execute, ExecutionContext } from '../../sidecars/runner/attempt/attempts.ts'
import { followLimits } from '../../sidecars/runner/attempt/followings.ts'
import { makeAttemptService } from '../../sidecars/runner/requests/attempt-service.ts'
import { until } from '../../tools/kit/until.ts'
import { AttemptReport } from './attempt-report.ts'
import { RunnerStream } from './runner-stream.ts'
import { attemptsThat, serveRunner } from './test-runner.ts'

// Tests use the runner's attempts and service over real HTTP, through a network that a test can break.

setDefaultTimeout(60_000)

let stopping: AbortController
let servers: ConnectServer[]
let network: Awaited<ReturnType<typeof startNetwork>>
let work: Map<string, { work: ExecutionContext; end(): void }>

beforeEach(async () => {
  stopping = new AbortController()
  servers = []
  work = new Map()
  network = await startNetwork()
  startRunner()
})
afterEach(async () => {
  stopping.abort()
  network.stop()
  for (const server of servers) await server.stop(0)
})

/** Starts a new runner process. The network leads to it from now on. */
function startRunner({ concurrency, ...changed }: { concurrency?: number } & Partial<Service> = {}) {
  const execute: Execute = (its) =>
    new Promise((resolve, reject) => {
      its.signal.addEventListener('abort', () => reject(its.signal.reason))
      const end = () => resolve({ gone: Promise.resolve() })
      work.set(`${its.request.runId}:${its.request.attempt}`, { work: its, end })
    })
  const service = makeAttemptService(attemptsThat(execute, concurrency))
  const server = serveRunner({ ...service, ...changed })
  servers.push(server)
  network.leadTo(server.port)
}
type Service = ServiceImpl<typeof RunnerService>

const streamOf = (stored = async () => {}) =>
  new RunnerStream({
    runner: runnerAt(network.url, () => {}, testAccess('http://127.0.0.1:1')),
    stored,
    signal: stopping.signal,
  })
const streamTo = (stored?: () => Promise<void>) => opened(streamOf(stored))

interface RecordedNews {
  handle: string
  outcomes: Outcome[]
  lines: LogLine[]
  costs: EngineCost[]
  came: Promise<void>
}

function follow(stream: RunnerStream): RecordedNews {
  const attempt: OpenAttempt = {
    runId: newId() as RunId,
    attempt: 1,
    branch: 'run',
    runnerUrl: network.url,
    runnerBoot: null,
    tableMetadata: '',
    status: 'pending',
    isAlone: false,
    namespace: 'default',
    layer: 'gold',
    pipeline: 'p',
    pipelineType: 'sql',
    trigger: 'manual',
    traceparent: null,
    tracestate: null,
    createdAt: new Date(0),
    pins: {},
    runStartedAt: new Date(0),
    lastSeq: 0,
    logLines: 0,
    logBytes: 0,
    landing: [],
  }
  const outcomes: Outcome[] = []
  const lines: LogLine[] = []
  const costs: EngineCost[] = []
  const report = new AttemptReport(attempt, {
    lake: { catalogUrl: '', objectsUrl: '', warehouse: '', token: '', catalogId: '' },
    report: (outcome) => outcomes.push(outcome),
    appendLine: (line) => lines.push(line),
    onAccepted() {},
    onRefused() {},
    onUnreachable() {},
    onCost: (cost) => costs.push(cost),
  })
  return { handle: report.handle, outcomes, lines, costs, came: stream.follow(report) }
}

const kindsOf = ({ outcomes }: RecordedNews) => outcomes.map(({ kind }) => kind)
const textsOf = ({ lines }: RecordedNews) => lines.map(({ message }) => message)
const accepted = (recorded: RecordedNews) => until(() => kindsOf(recorded).includes('accepted'))
const linesReceived = (recorded: RecordedNews, count: number) => until(() => recorded.lines.length >= count)
const of = ({ handle }: RecordedNews) => {
  const its = work.get(handle)
  if (its === undefined) throw new Error('the runner has not taken it')
  return its
}

test('a full runner refuses the surplus attempts of a batch only', async () => {
  startRunner({ concurrency: 2 })
  const stream = await streamTo()
  const [one, two, three] = [follow(stream), follow(stream), follow(stream)]
  await three.came
  expect(kindsOf(three)).toEqual(['refused'])
  of(one).work.log.write('info', 'hello')
  for (const recorded of [one, two]) of(recorded).end()
  await Promise.all([one.came, two.came])
  expect([kindsOf(one), kindsOf(two)]).toEqual([
    ['accepted', 'executed'],
    ['accepted', 'executed'],
  ])
  expect(textsOf(one)).toEqual(['hello'])
})

test('the cost of an attempt is reported once, also if the attempt is cancelled', async () => {
  const stream = await streamTo()
  const cost = { cpuSeconds: 0.12, bytesRead: 3_000, bytesWritten: 400, peakMemoryBytes: 88_000 }
  const [ends, isCancelled] = [follow(stream), follow(stream)]
  for (const recorded of [ends, isCancelled]) {
    await accepted(recorded)
    of(recorded).work.facts.cost = cost
  }
  of(ends).end()
  const runner = runnerAt(network.url, () => {}, testAccess('http://127.0.0.1:1'))
  await runner.service.cancelRun({ handle: isCancelled.handle })
  for (const { came } of [ends, isCancelled]) await came
  expect([ends.costs, isCancelled.costs]).toEqual([[cost], [cost]])
})

test('a reconnected stream loses no line, repeats none, and executes nothing again', async () => {
  const stream = await streamTo()
  const recorded = follow(stream)
  await accepted(recorded)
  const sentLines = Array.from({ length: 300 }, (_, n) => `line ${n}`)
  for (const [n, line] of sentLines.entries()) {
    of(recorded).work.log.write('info', line)
    if (n % 100 === 50) {
      await linesReceived(recorded, n - 20)
      network.cut()
    }
    if (n % 10 === 0) await new Promise(setImmediate)
  }
  of(recorded).end()
  await recorded.came
  expect(textsOf(recorded)).toEqual(sentLines)
  expect(kindsOf(recorded)).toEqual(['accepted', 'executed'])
  expect(work.size).toBe(1)
})

test('an attempt executes once if the answer to its submission is lost', async () => {
  const stream = await streamTo()
  const isLost = network.loseNextAnswerTo('SubmitPipelines')
  const recorded = follow(stream)
  await isLost
  // The attempt ends before the repeated submission is answered. The stream reports the end before and after the answer.
  of(recorded).end()
  await recorded.came
  expect(kindsOf(recorded)).toEqual(['accepted', 'executed'])
  expect(work.size).toBe(1)
})

test('news of an earlier runner process is ignored after a resubmission', async () => {
  const stream = await streamTo()
  const isLost = network.loseNextAnswerTo('SubmitPipelines')
  const recorded = follow(stream)
  await isLost
  const { log } = of(recorded).work
  // The stream of the earlier process is still open.
  startRunner()
  log.write('info', 'of the first start')
  await accepted(recorded)
  log.write('info', 'of the first start, late')
  of(recorded).work.log.write('info', 'of the second start')
  network.cut()
  await linesReceived(recorded, 1)
  of(recorded).end()
  await recorded.came
  expect(textsOf(recorded)).toEqual(['of the second start'])
  expect(kindsOf(recorded)).toEqual(['accepted', 'executed'])
})

test('a restarted runner has lost its attempts and accepts new ones', async () => {
  const stream = await streamTo()
  const lost = [follow(stream), follow(stream)]
  for (const recorded of lost) await accepted(recorded)
  startRunner()
  network.cut()
  for (const recorded of lost) await recorded.came
  expect(lost.map(kindsOf)).toEqual([
    ['accepted', 'lost'],
    ['accepted', 'lost'],
  ])
  const recorded = follow(await opened(stream))
  await accepted(recorded)
  of(recorded).end()
  await recorded.came
  expect(kindsOf(recorded)).toEqual(['accepted', 'executed'])
})

test('a silent network loses the attempts, and the stream reopens later', async () => {
  const stream = await streamTo()
  const recorded = follow(stream)
  await accepted(recorded)
  network.mute()
  await recorded.came
  expect(recorded.outcomes.at(-1)).toMatchObject({
    kind: 'lost',
    why: `no message from the runner for ${limits.runnerSilenceMs} ms`,
  })
  network.cut()
  await opened(stream)
})

test('backpressure on one attempt does not delay the lines of another', async () => {
  const gate = Promise.withResolvers<void>()
  const stream = await streamTo(() => gate.promise)
  const [chatty, quiet] = [follow(stream), follow(stream)]
  await accepted(chatty)
  const sentLines = Array.from({ length: 2_000 }, (_, n) => `${n} ${'x'.repeat(500)}`)
  for (const line of sentLines) of(chatty).work.log.write('info', line)
  of(chatty).end()
  const full = followLimits.windowBytes / 550
  await linesReceived(chatty, Math.floor(full * 0.9))
  of(quiet).work.log.write('info', 'I am here')
  await linesReceived(quiet, 1)
  expect(chatty.lines.length).toBeLessThanOrEqual(Math.ceil(full * 1.1))
  expect(kindsOf(chatty)).toEqual(['accepted'])
  gate.resolve()
  await chatty.came
  expect(textsOf(chatty)).toEqual(sentLines)
})

test('a runner without the batch calls refuses an attempt', async () => {
  const refuse = () => {
    throw new ConnectError('not here', Code.Unimplemented)
  }
  startRunner({ submitPipelines: refuse, updateFollowing: refuse, followRuns: refuse })
  const recorded = follow(streamOf())
  await recorded.came
  expect(kindsOf(recorded)).toEqual(['refused'])
})

const opened = async (stream: RunnerStream) => {
  await until(() => stream.isOpen())
  return stream
}

/** A TCP proxy between the stream and the runner. */
async function startNetwork() {
  const sockets = new Set<Socket>()
  let port = 0
  let isMute = false
  let losing: { call: string; lost(): void } | null = null
  const server = createServer((near) => {
    const far = connect({ port, host: '127.0.0.1' })
    let doomed: (() => void) | null = null
    for (const socket of [near, far]) {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => {
        sockets.delete(socket)
        near.destroy()
        far.destroy()
      })
    }
    near.on('data', (chunk) => {
      if (losing !== null && chunk.includes(losing.call)) {
        doomed = losing.lost
        losing = null
      }
      if (!isMute) far.write(chunk)
    })
    far.on('data', (chunk) => {
      if (doomed !== null) {
        doomed()
        near.destroy()
      } else if (!isMute) near.write(chunk)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  const cut = () => {
    isMute = false
    for (const socket of sockets) socket.destroy()
  }
  return {
    url: `http://127.0.0.1:${address.port}`,
    leadTo(to: number) {
      port = to
    },
    /** Breaks every connection. */
    cut,
    /** Drops all data. Connections stay open until `cut`. */
    mute() {
      isMute = true
    },
    /** Forwards the next request of this call, and closes the connection in place of its answer. */
    loseNextAnswerTo: (call: string) =>
      new Promise<void>((lost) => {
        losing = { call, lost }
      }),
    stop() {
      cut()
      server.close()
    },
  }
}
