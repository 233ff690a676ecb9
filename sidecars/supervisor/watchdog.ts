/** Asks a running process again and again whether it answers, and ends it when it misses three answers in a row. */
import { connect } from 'node:net'
import { bearerOf } from '../../proto/sidecar-token.ts'

/** Asks once over the process's own channel. Rejects when there is no answer; an answer that reports an error is an answer. */
export type Ask = (signal: AbortSignal) => Promise<unknown>

const TIMES = {
  /** Three of these are the 10 s after which a silent process is replaced. */
  answerMs: 3_300,
  /** A question that takes this much longer than its limit says nothing: the asker was paused itself. */
  lateMs: 1_000,
}
const MISSES_MAX = 3

type Watched = {
  ask: Ask
  /** Called once, with the time without an answer. */
  onSilent: (seconds: number) => void
  /** Milliseconds; tests may shorten them. */
  times?: Partial<typeof TIMES>
}

/** Starts to ask. A process may take its time until its first answer. Returns the function that ends the questions. */
export function watch({ ask, onSilent, times }: Watched): () => void {
  const { answerMs, lateMs } = { ...TIMES, ...times }
  let isOver = false
  let misses: number | null = null

  async function askOnce() {
    const started = performance.now()
    const next = Promise.withResolvers<void>()
    const timer = setTimeout(next.resolve, answerMs)
    const hasAnswered = await ask(AbortSignal.timeout(answerMs)).then(
      () => true,
      () => false,
    )
    const isPaused = performance.now() - started > answerMs + lateMs
    if (hasAnswered) misses = 0
    else if (misses !== null && !isPaused) misses += 1
    if (misses === MISSES_MAX && !isOver) {
      isOver = true
      onSilent(Math.round((MISSES_MAX * answerMs) / 1_000))
    }
    if (isOver) clearTimeout(timer)
    else await next.promise
  }

  void (async () => {
    while (!isOver) await askOnce()
  })()
  return () => {
    isOver = true
  }
}

/** Asks an HTTP server. */
export const askHttp =
  (url: string, request?: RequestInit): Ask =>
  async (signal) => {
    const response = await fetch(url, { ...request, signal })
    await response.text()
  }

/** Asks a sidecar with the standard health service. */
export const askSidecar = (port: number, token: string): Ask =>
  askHttp(`http://127.0.0.1:${port}/grpc.health.v1.Health/Check`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: bearerOf(token) },
    body: '{}',
  })

/** The request for encryption. Postgres answers it with one byte, before any login. Source: PostgreSQL, SSLRequest. */
const SSL_REQUEST = Uint8Array.of(0, 0, 0, 8, 4, 210, 22, 47)

/** Asks a Postgres server. */
export const askPostgres =
  (port: number): Ask =>
  (signal) =>
    new Promise<void>((resolve, reject) => {
      const socket = connect({ host: '127.0.0.1', port })
      const end = (settle: () => void) => {
        signal.removeEventListener('abort', abort)
        socket.destroy()
        settle()
      }
      const abort = () => end(() => reject(signal.reason))
      signal.addEventListener('abort', abort)
      socket.once('connect', () => socket.write(SSL_REQUEST))
      socket.once('data', () => end(resolve))
      socket.once('error', (error) => end(() => reject(error)))
      socket.once('close', () => end(() => reject(new Error('Postgres closed the connection'))))
    })
