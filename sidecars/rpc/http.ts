// How a sidecar calls the API: every call has a deadline, and what can be repeated is repeated while the API restarts.
import { setTimeout as pause } from 'node:timers/promises'
import { backoffMs } from '../../app/core/process/backoff.ts'

export const httpLimits = {
  /** One call without a body worth naming. */
  timeoutMs: 10_000,
  /** Slower than this a transfer counts as stuck. */
  transferBytesPerMs: 1_000,
  /** A restarting API or database is back long before. */
  patienceMs: 30_000,
  pause: { firstMs: 50, limitMs: 1_000 },
  /** What is read of an answer that says no. */
  reasonCharacters: 2_000,
} as const

/** The API answered, and said no. */
export class HttpFailure extends Error {
  constructor(
    readonly status: number,
    /** The answer's body, cut short. */
    readonly body: string,
    what: string,
  ) {
    super(`${what}: HTTP ${status}${body === '' ? '' : ` ${body}`}`)
  }
}

/** The deadline of a call that moves this many bytes. */
export const transferTimeoutMs = (bytes: number) =>
  httpLimits.timeoutMs + bytes / httpLimits.transferBytesPerMs

/**
 * Makes a call that may be repeated, again while there is no answer or one that says "not now" (5xx), for up to
 * 30 s. `call` gets a signal that carries the deadline of one try. Throws the signal's reason when it is aborted.
 */
export async function patiently<T>(
  call: (signal: AbortSignal) => Promise<T>,
  { signal, timeoutMs = httpLimits.timeoutMs }: { signal?: AbortSignal; timeoutMs?: number } = {},
): Promise<T> {
  const backoff = makeBackoff(signal)
  for (;;) {
    const deadline = AbortSignal.timeout(timeoutMs)
    try {
      return await call(signal === undefined ? deadline : AbortSignal.any([signal, deadline]))
    } catch (error) {
      signal?.throwIfAborted()
      if (!isPassing(error) || backoff.isOver()) throw error
    }
    await backoff.pause()
  }
}

/** Pauses between tries, from 50 ms on, each twice as long as the one before and at most 1 s. */
export function makeBackoff(signal?: AbortSignal) {
  const giveUpAt = performance.now() + httpLimits.patienceMs
  let failures = 1
  return {
    /** Whether the next pause would end after 30 s of tries. */
    isOver: () => performance.now() + backoffMs(failures, httpLimits.pause) > giveUpAt,
    /** Throws the signal's reason when it is aborted. */
    async pause(): Promise<void> {
      await pause(backoffMs(failures++, httpLimits.pause), undefined, { signal })
    },
  }
}

/** The response, or HttpFailure if its status is not of the 200s; `what` begins the message. */
export async function accepted(response: Response, what: string): Promise<Response> {
  if (response.ok) return response
  const body = await response.text().catch(() => '')
  throw new HttpFailure(response.status, body.slice(0, httpLimits.reasonCharacters).trim(), what)
}

/** No answer, a lost connection, a missed deadline, or a server that says that it is the one at fault. */
function isPassing(error: unknown): boolean {
  if (error instanceof HttpFailure) return error.status >= 500 || error.status === 429
  if (!(error instanceof Error)) return false
  return error.name === 'TimeoutError' || ('code' in error && typeof error.code === 'string')
}
