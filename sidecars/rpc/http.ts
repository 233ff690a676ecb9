// Calls of a sidecar to the API. Every call has a deadline, and repeatable calls are retried while the API restarts.
import { backoffMs } from '../../ground/process/backoff.ts'
import { pause } from '../../lake/pause.ts'

export const httpLimits = {
  /** The deadline of one call with a small body. */
  timeoutMs: 10_000,
  /** A transfer that is slower than this counts as stuck. */
  transferBytesPerMs: 1_000,
  /** A restarting API or database returns long before this time is over. */
  patienceMs: 30_000,
  pause: { firstMs: 50, limitMs: 1_000 },
  /** The part of an error body that is read. */
  reasonCharacters: 2_000,
} as const

/** The API answered with an error status. */
export class HttpFailure extends Error {
  constructor(
    readonly status: number,
    /** The body of the answer, cut to `reasonCharacters`. */
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
 * Makes an idempotent call, and retries it for up to 30 s after no answer, 429 or 5xx. `call` gets a signal with the deadline
 * of one try. Throws the signal's reason when the signal is aborted.
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

/** Pauses between tries: 50 ms at first, then twice the pause before, at most 1 s. */
export function makeBackoff(signal?: AbortSignal) {
  const giveUpAt = performance.now() + httpLimits.patienceMs
  let failures = 1
  return {
    /** Whether the next pause would end after 30 s of tries. */
    isOver: () => performance.now() + backoffMs(failures, httpLimits.pause) > giveUpAt,
    /** Throws the signal's reason when the signal is aborted. */
    async pause(): Promise<void> {
      await pause(backoffMs(failures++, httpLimits.pause), signal)
    },
  }
}

/** Returns a response with a 2xx status, and throws HttpFailure for any other. `what` is the beginning of the error message. */
export async function accepted(response: Response, what: string): Promise<Response> {
  if (response.ok) return response
  const body = await response.text().catch(() => '')
  throw new HttpFailure(response.status, body.slice(0, httpLimits.reasonCharacters).trim(), what)
}

/** Whether a retry may help: no answer, a lost connection, a missed deadline, status 429 or 5xx. */
function isPassing(error: unknown): boolean {
  if (error instanceof HttpFailure) return error.status >= 500 || error.status === 429
  if (!(error instanceof Error)) return false
  return error.name === 'TimeoutError' || ('code' in error && typeof error.code === 'string')
}
