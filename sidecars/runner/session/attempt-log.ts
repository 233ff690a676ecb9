import { limits } from '../core/limits.ts'

// The log of a running attempt. Lines are numbered 1, 2, 3, ... A follower can disconnect, and come back with the number of its
// last line. Every phase is sent again, because entering a phase twice changes nothing.

export type Level = 'debug' | 'info' | 'warn' | 'error'
export type Phase = 'rendering' | 'executing' | 'testing'

export interface Line {
  seq: number
  at: Date
  level: Level
  message: string
  /** Length of the message in UTF-8. */
  bytes: number
}

export type AttemptEvent =
  | { kind: 'line'; line: Line }
  | { kind: 'phase'; phase: Phase }
  | { kind: 'heartbeat' }

export class AttemptLog {
  #events: AttemptEvent[] = []
  #lines = 0
  #bytes = 0
  #dropped = 0
  #ended = false
  #listeners = new Set<() => void>()

  /** All events so far, in order. The list only grows. */
  get events(): readonly AttemptEvent[] {
    return this.#events
  }

  /** True when no more events will come. */
  get hasEnded(): boolean {
    return this.#ended
  }

  /** Calls `listener` after every change, until the returned function is called. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  write(level: Level, message: string): void {
    if (this.#ended) return
    const text = message.slice(0, limits.logMessageCharacters)
    // The last line is reserved for the number of dropped lines.
    const bytes = Buffer.byteLength(text)
    if (this.#lines >= limits.logLines - 1 || this.#bytes + bytes > limits.logBytes) this.#dropped += 1
    else this.#add(level, text, bytes)
  }

  /** Counts lines that the caller did not write because the log was full. */
  drop(lines: number): void {
    this.#dropped += lines
  }

  enter(phase: Phase): void {
    this.#events.push({ kind: 'phase', phase })
    this.#wake()
  }

  /** Adds no more lines. Followers read to the end and leave. */
  end(): void {
    if (this.#ended) return
    if (this.#dropped > 0) {
      const text = `${this.#dropped} more log lines were dropped: the log of a run is limited to ${limits.logLines} lines and 8 MiB`
      this.#add('warn', text, text.length)
    }
    this.#ended = true
    this.#wake()
  }

  /** Yields the lines after `afterSeq` and all phases, then new events until the log ends. Throws the signal's reason. */
  async *follow(afterSeq: number, signal: AbortSignal): AsyncGenerator<AttemptEvent> {
    let changed = Promise.withResolvers<void>()
    const wake = () => {
      changed.resolve()
      changed = Promise.withResolvers()
    }
    const unsubscribe = this.onChange(wake)
    signal.addEventListener('abort', wake, { once: true })
    try {
      for (let next = 0; ; ) {
        const nextChange = changed.promise
        for (; next < this.#events.length; next += 1) {
          const event = this.#events[next]
          if (event !== undefined && (event.kind !== 'line' || event.line.seq > afterSeq)) yield event
        }
        signal.throwIfAborted()
        if (this.#ended) return
        if (!(await happensWithin(limits.heartbeatMs, nextChange))) yield { kind: 'heartbeat' }
      }
    } finally {
      unsubscribe()
      signal.removeEventListener('abort', wake)
    }
  }

  #add(level: Level, message: string, bytes: number): void {
    this.#lines += 1
    this.#bytes += bytes
    this.#events.push({ kind: 'line', line: { seq: this.#lines, at: new Date(), level, message, bytes } })
    this.#wake()
  }

  #wake(): void {
    for (const listener of this.#listeners) listener()
  }
}

/** Resolves to false when `ms` have passed without the event. */
export async function happensWithin(ms: number, event: Promise<void>): Promise<boolean> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const late = new Promise<false>((resolve) => {
    timer = setTimeout(() => resolve(false), ms)
  })
  try {
    return await Promise.race([event.then(() => true), late])
  } finally {
    clearTimeout(timer)
  }
}
