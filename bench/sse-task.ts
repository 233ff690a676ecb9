/** How often each run of the benchmark writes a line. */
export const LINE_MS = 1_000

/** What a client process is asked to do. */
export interface SseTask {
  host: string
  port: number
  runIds: string[]
  subscribers: number
  /** Milliseconds to follow after everybody is connected. */
  followMs: number
  /** Connections cut by the client, spread over that time; each comes back with `Last-Event-ID`. */
  reconnects: number
}

export interface SseResult {
  connectMs: number
  lines: number
  /** Sorted: from the writing of a line to the moment a subscriber has it, of lines that came live. */
  latencies: number[]
  /** Lines missing between two that came one after the other. */
  lost: number
  doubled: number
  reconnected: number
  /** Subscribers that have not got the last lines of their run. */
  silent: number
}
