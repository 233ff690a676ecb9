/** How often each run of the benchmark writes a line. */
export const LINE_MS = 1_000

/** The parameters of the thread with the subscribers. */
export interface SseTask {
  host: string
  port: number
  runIds: string[]
  subscribers: number
  /** Milliseconds to follow after all subscribers are connected. */
  followMs: number
  /** Number of connections that the client cuts, spread over `followMs`. Each reconnects with `Last-Event-ID`. */
  reconnects: number
}

export interface SseResult {
  connectMs: number
  lines: number
  /** Sorted milliseconds from the writing of a line to its arrival at a subscriber. Replayed lines are left out. */
  latencies: number[]
  /** Lines missing between two consecutive received lines. */
  lost: number
  doubled: number
  reconnected: number
  /** Subscribers that have not received the last lines of their run. */
  silent: number
}
