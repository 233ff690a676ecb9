// The connection between an API process that does not run on Bun and the process with its background work. Hints and requests
// go to the workers; counts and calls of the object store go to the API. The API opens the connection on loopback with a token
// that only children of the supervisor have. It reconnects when either end was restarted.
import { timingSafeEqual } from 'node:crypto'
import { connect, createServer, type Socket } from 'node:net'
import { type Static, Type as t } from '@sinclair/typebox'
import type { Config } from '../../app/config/config.ts'
import type { ProcessBackground } from '../../app/core/background.ts'
import type { Log } from '../../app/core/log.ts'
import type { Metrics } from '../../app/core/metrics.ts'
import { DryRunResult } from '../../app/core/removals.ts'
import type { ObjectStore } from '../../app/objects/port.ts'
import { backoffMs } from '../../ground/process/backoff.ts'
import { parseMessage } from '../messages/channel.ts'
import { Counted, countInto } from '../messages/counted.ts'
import { type AnswerObjectCall, ObjectAnswer, ObjectCall } from '../messages/object-calls.ts'
import { frameOf, makeFrameReader } from './frames.ts'
import { answerObjectCall } from './object-calls.ts'

export interface LinkSettings {
  port: number
  token: string
}

/** Reads the port and token that the supervisor has chosen. */
export function linkFrom(env: Record<string, string | undefined>): LinkSettings {
  const port = Number(env.WORKERS_PORT)
  const token = env.WORKERS_TOKEN ?? ''
  if (!Number.isInteger(port) || port < 1 || token === '')
    throw new Error(
      'WORKERS_PORT or WORKERS_TOKEN is missing: start this process through the supervisor (npm start)',
    )
  return { port, token }
}

const id = t.Integer()

const ToWorkers = t.Union([
  t.Object({ type: t.Literal('nudge'), about: t.Union([t.Literal('runRequested'), t.Literal('outbox')]) }),
  /** Perform a tick of the reaper, or a dry run, and answer when it is over. */
  t.Object({ type: t.Literal('reap'), id, isDry: t.Boolean() }),
  t.Object({ type: t.Literal('restart') }),
  t.Object({ type: t.Literal('objectAnswer'), id, answer: ObjectAnswer }),
])
type ToWorkers = Static<typeof ToWorkers>

const FromWorkers = t.Union([
  t.Object({ type: t.Literal('counted'), counted: Counted }),
  /** `error` is null when the tick succeeded. `result` is null except after a dry run. */
  t.Object({
    type: t.Literal('reaped'),
    id,
    error: t.Union([t.String(), t.Null()]),
    result: t.Union([DryRunResult, t.Null()]),
  }),
  t.Object({ type: t.Literal('objectCall'), id, call: ObjectCall }),
])
type FromWorkers = Static<typeof FromWorkers>

/** Maximum size of a message before authentication, and after it, when a message contains at most one object. */
const TOKEN_BYTES_MAX = 256
const MESSAGE_BYTES_MAX = 512 * 1_048_576
/** Maximum number of counts that wait for a restarting API process; beyond it, the oldest are dropped. */
const COUNTS_MAX = 10_000
/** Time that a store call waits for an API process that is starting. */
const CONNECT_WAIT_MS = 10_000

/** The operations of the background work for the API process. */
interface WorkersSide {
  nudge(about: 'runRequested' | 'outbox'): void
  reap(): Promise<void>
  dryRun(): Promise<DryRunResult>
  restart(): void
}

export interface WorkersLink {
  count(counted: Counted): void
  /** Sends the call to the API process, which has the store. Fails if the API process is missing or goes away meanwhile. */
  answerObjectCall: AnswerObjectCall
  close(): void
}

/** The workers' side of the connection. */
export async function serveLink(
  { port, token }: LinkSettings,
  side: WorkersSide,
  onError: (error: unknown) => void,
): Promise<WorkersLink> {
  let api: Socket | null = null
  let nextConnection = Promise.withResolvers<void>()
  let counts: Counted[] = []
  let lastId = 0
  const calls = new Map<number, (answer: ObjectAnswer) => void>()
  const post = (message: FromWorkers) => api?.write(frameOf(message))

  function handle(message: ToWorkers) {
    switch (message.type) {
      case 'nudge':
        return side.nudge(message.about)
      case 'restart':
        return side.restart()
      case 'reap':
        return void (message.isDry ? side.dryRun() : side.reap()).then(
          (result) => post({ type: 'reaped', id: message.id, error: null, result: result ?? null }),
          (error) => post({ type: 'reaped', id: message.id, error: textOf(error), result: null }),
        )
      case 'objectAnswer':
        calls.get(message.id)?.(message.answer)
        return void calls.delete(message.id)
      default:
        return message satisfies never
    }
  }

  function connected(socket: Socket) {
    if (api !== null) {
      api.destroy()
      disconnected(api)
    }
    api = socket
    nextConnection.resolve()
    nextConnection = Promise.withResolvers<void>()
    for (const counted of counts) post({ type: 'counted', counted })
    counts = []
  }

  function disconnected(socket: Socket) {
    if (api !== socket) return
    api = null
    for (const answer of calls.values()) answer(NOT_CONNECTED)
    calls.clear()
  }

  const server = createServer((socket) => {
    let isAuthenticated = false
    const read = makeFrameReader((text) => {
      if (isAuthenticated) return handle(parseMessage(ToWorkers, text))
      isAuthenticated = isToken(text, token)
      if (!isAuthenticated) throw new Error('rejected connection: unknown worker token')
      connected(socket)
    })
    socket.on('data', (chunk: Uint8Array) => {
      try {
        read(chunk, isAuthenticated ? MESSAGE_BYTES_MAX : TOKEN_BYTES_MAX)
      } catch (error) {
        onError(error)
        socket.destroy()
      }
    })
    socket.on('error', () => {})
    socket.on('close', () => disconnected(socket))
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen({ host: '127.0.0.1', port }, resolve)
  })

  return {
    count(counted) {
      if (api !== null) return void post({ type: 'counted', counted })
      counts.push(counted)
      if (counts.length > COUNTS_MAX) counts.shift()
    },
    async answerObjectCall(call) {
      if (api === null) await Promise.race([nextConnection.promise, pause(CONNECT_WAIT_MS)])
      if (api === null) return NOT_CONNECTED
      const answer = Promise.withResolvers<ObjectAnswer>()
      calls.set(++lastId, answer.resolve)
      post({ type: 'objectCall', id: lastId, call })
      return answer.promise
    },
    close() {
      server.close()
      api?.destroy()
    },
  }
}

const NOT_CONNECTED: ObjectAnswer = { op: 'failed', message: 'no API process is connected' }

function isToken(candidate: unknown, token: string) {
  const [theirs, ours] = [Buffer.from(String(candidate)), Buffer.from(token)]
  return theirs.length === ours.length && timingSafeEqual(theirs, ours)
}

interface JoinOptions {
  config: Pick<Config, 'reaper'>
  /** The object store for the reaper's calls. */
  objects: ObjectStore
  log: Log
  metrics: Metrics
  link: LinkSettings
}

/** The API process's side of the connection. Connects whenever the workers run. */
export function joinWorkers({
  config,
  objects,
  log,
  metrics,
  link: { port, token },
}: JoinOptions): ProcessBackground {
  const count = countInto(metrics)
  const ticks = new Map<number, PromiseWithResolvers<DryRunResult | null>>()
  let lastId = 0
  let isStopping = false
  let workers: Socket | null = null
  let failures = 0
  let retry: ReturnType<typeof setTimeout> | undefined
  const post = (message: ToWorkers) => workers?.write(frameOf(message))

  function handle(message: FromWorkers) {
    switch (message.type) {
      case 'counted':
        return count(message.counted)
      case 'objectCall':
        return void answerObjectCall(objects, message.call).then((answer) =>
          post({ type: 'objectAnswer', id: message.id, answer }),
        )
      case 'reaped': {
        const tick = ticks.get(message.id)
        ticks.delete(message.id)
        return message.error === null ? tick?.resolve(message.result) : tick?.reject(new Error(message.error))
      }
      default:
        return message satisfies never
    }
  }

  function openSocket() {
    const socket = connect({ host: '127.0.0.1', port })
    const read = makeFrameReader((data) => handle(parseMessage(FromWorkers, data)))
    socket.on('connect', () => {
      socket.write(frameOf(token))
      workers = socket
      failures = 0
    })
    socket.on('data', (chunk: Uint8Array) => {
      try {
        read(chunk, MESSAGE_BYTES_MAX)
      } catch (error) {
        log.error('invalid message from the worker process: reconnecting', { error })
        socket.destroy()
      }
    })
    socket.on('error', () => {})
    socket.on('close', () => {
      workers = null
      for (const tick of ticks.values())
        tick.reject(new Error('reaper tick interrupted: connection to the worker process lost'))
      ticks.clear()
      if (!isStopping) retry = setTimeout(openSocket, backoffMs(++failures))
    })
  }

  function requestTick(isDry: boolean): Promise<DryRunResult | null> {
    if (workers === null)
      return Promise.reject(new Error('reaper tick not started: worker process not connected'))
    const tick = Promise.withResolvers<DryRunResult | null>()
    ticks.set(++lastId, tick)
    post({ type: 'reap', id: lastId, isDry })
    return tick.promise
  }

  return {
    start: openSocket,
    nudge: (about) => void post({ type: 'nudge', about }),
    // The trigger evaluator learns of the event through the announcement in Postgres instead.
    eventRecorded: () => false,
    reaper: config.reaper
      ? {
          async run() {
            await requestTick(false)
          },
          async dryRun() {
            const result = await requestTick(true)
            if (result === null)
              throw new Error('reaper dry run not completed: the worker process sent no result')
            return result
          },
        }
      : null,
    restart: () => void post({ type: 'restart' }),
    async stop() {
      isStopping = true
      clearTimeout(retry)
      workers?.destroy()
    },
  }
}

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))

const textOf = (error: unknown) => (error instanceof Error ? error.message : String(error))
