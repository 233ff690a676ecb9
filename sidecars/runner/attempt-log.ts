import { limits } from './limits.ts'

// What an attempt says while it runs. Lines are numbered 1, 2, 3, ...; whoever follows can leave and come back with
// the number of the last line it has. Every phase entered is told again: entering one twice changes nothing.

export type Level = 'debug' | 'info' | 'warn' | 'error'
export type Phase = 'rendering' | 'executing' | 'testing'

export interface Line {
  seq: number
  at: Date
  level: Level
  message: string
}

export type Told = { kind: 'line'; line: Line } | { kind: 'phase'; phase: Phase } | { kind: 'heartbeat' }

export class AttemptLog {
  #told: Told[] = []
  #lines = 0
  #bytes = 0
  #dropped = 0
  #ended = false
  #changed = Promise.withResolvers<void>()

  write(level: Level, message: string): void {
    if (this.#ended) return
    const text = message.slice(0, limits.logMessageCharacters)
    // The last line is kept free for how many were dropped.
    if (this.#lines >= limits.logLines - 1 || this.#bytes + Buffer.byteLength(text) > limits.logBytes)
      this.#dropped += 1
    else this.#add(level, text)
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
    if (this.#dropped > 0)
      this.#add(
        'warn',
        `${this.#dropped} more log lines were dropped: a run keeps ${limits.logLines} lines or 8 MiB`,
      )
    this.#ended = true
    this.#wake()
  }

  /** What was told after line `afterSeq`, then what is told from now on, until the end. Throws the signal's reason. */
  async *follow(afterSeq: number, signal: AbortSignal): AsyncGenerator<Told> {
    const wake = () => this.#wake()
    signal.addEventListener('abort', wake, { once: true })
    try {
      for (let next = 0; ; ) {
        const changed = this.#changed.promise
        for (; next < this.#told.length; next += 1) {
          const told = this.#told[next]
          if (told !== undefined && (told.kind !== 'line' || told.line.seq > afterSeq)) yield told
        }
        signal.throwIfAborted()
        if (this.#ended) return
        if (!(await happensWithin(limits.heartbeatMs, changed))) yield { kind: 'heartbeat' }
      }
    } finally {
      signal.removeEventListener('abort', wake)
    }
  }

  #add(level: Level, message: string): void {
    this.#lines += 1
    this.#bytes += Buffer.byteLength(message)
    this.#told.push({ kind: 'line', line: { seq: this.#lines, at: new Date(), level, message } })
    this.#wake()
  }

  #wake(): void {
    this.#changed.resolve()
    this.#changed = Promise.withResolvers()
  }
}

async function happensWithin(ms: number, event: Promise<void>): Promise<boolean> {
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
