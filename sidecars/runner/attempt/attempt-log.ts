import { limits } from '../limits.ts'

// What an attempt says while it runs. Lines are numbered 1, 2, 3, ...; whoever follows can leave and come back with
// the number of the last line it has. Every phase entered is told again: entering one twice changes nothing.

export type Level = 'debug' | 'info' | 'warn' | 'error'
export type Phase = 'rendering' | 'executing' | 'testing'

export interface Line {
  seq: number
  at: Date
  level: Level
  message: string
  /** Of the message, in UTF-8. */
  bytes: number
}

export type Told = { kind: 'line'; line: Line } | { kind: 'phase'; phase: Phase } | { kind: 'heartbeat' }

export class AttemptLog {
  #told: Told[] = []
  #lines = 0
  #bytes = 0
  #dropped = 0
  #ended = false
  #listeners = new Set<() => void>()

  /** All that has been told, in order; it only grows. */
  get told(): readonly Told[] {
    return this.#told
  }

  /** Nothing comes after what has been told. */
  get hasEnded(): boolean {
    return this.#ended
  }

  /** Calls back after every change, until the answer is called. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  write(level: Level, message: string): void {
    if (this.#ended) return
    const text = message.slice(0, limits.logMessageCharacters)
    // The last line is kept free for how many were dropped.
    const bytes = Buffer.byteLength(text)
    if (this.#lines >= limits.logLines - 1 || this.#bytes + bytes > limits.logBytes) this.#dropped += 1
    else this.#add(level, text, bytes)
  }

  /** So many lines were not even written: there would have been no room. */
  drop(lines: number): void {
    this.#dropped += lines
  }

  enter(phase: Phase): void {
    this.#told.push({ kind: 'phase', phase })
    this.#wake()
  }

  /** No line comes after; followers read to here and leave. */
  end(): void {
    if (this.#ended) return
    if (this.#dropped > 0) {
      const text = `${this.#dropped} more log lines were dropped: a run keeps ${limits.logLines} lines or 8 MiB`
      this.#add('warn', text, text.length)
    }
    this.#ended = true
    this.#wake()
  }

  /** What was told after line `afterSeq`, then what is told from now on, until the end. Throws the signal's reason. */
  async *follow(afterSeq: number, signal: AbortSignal): AsyncGenerator<Told> {
    let changed = Promise.withResolvers<void>()
    const wake = () => {
      changed.resolve()
      changed = Promise.withResolvers()
    }
    const leave = this.onChange(wake)
    signal.addEventListener('abort', wake, { once: true })
    try {
      for (let next = 0; ; ) {
        const news = changed.promise
        for (; next < this.#told.length; next += 1) {
          const told = this.#told[next]
          if (told !== undefined && (told.kind !== 'line' || told.line.seq > afterSeq)) yield told
        }
        signal.throwIfAborted()
        if (this.#ended) return
        if (!(await happensWithin(limits.heartbeatMs, news))) yield { kind: 'heartbeat' }
      }
    } finally {
      leave()
      signal.removeEventListener('abort', wake)
    }
  }

  #add(level: Level, message: string, bytes: number): void {
    this.#lines += 1
    this.#bytes += bytes
    this.#told.push({ kind: 'line', line: { seq: this.#lines, at: new Date(), level, message, bytes } })
    this.#wake()
  }

  #wake(): void {
    for (const listener of this.#listeners) listener()
  }
}

/** False: so much time has passed without the event. */
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
