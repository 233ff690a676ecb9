import { limits } from '../core/limits.ts'
import { happensWithin, type Line, type Phase } from '../session/attempt-log.ts'
import type { Attempt, Attempts } from './attempts.ts'

// One stream carries the news of all attempts that a reader follows. Attempts take turns, so an attempt with many lines does
// not block the others. Each attempt sends a limited number of bytes before the reader confirms that they are stored. So
// neither a chatty attempt nor a slow reader fills memory, on either side or on the wire.

export const followLimits = {
  /** Bytes of one attempt's lines that were sent and not confirmed as stored. At least one line is always sent. */
  windowBytes: 262_144,
  /** Bytes that one attempt sends before the next attempt's turn. */
  turnBytes: 16_384,
  /** News within this time is sent together, and its reader stores it together. The end of an attempt is sent at once. */
  gatherMs: 15,
  /** Bytes of one message, which is encoded, sent and read as a whole. */
  messageBytes: 262_144,
  /** Streams of one process. Each replica of the service has one stream. */
  streams: 256,
  /** Attempts on one stream. A process hardly knows more attempts (`concurrency`, `finishedAttempts`). */
  attemptsPerStream: 20_000,
} as const

/** The events of one attempt since its last news. */
export interface EventBatch {
  handle: string
  lines: Line[]
  phases: Phase[]
  /** The attempt, when it has ended and all its events were sent. `unknown`: this process does not know the attempt. */
  end: Attempt | 'unknown' | null
}

/** The progress of a reader: it has every line of the attempt up to `afterSeq`. */
export interface Position {
  handle: string
  afterSeq: number
}

export function makeFollowings(attempts: Pick<Attempts, 'find'>) {
  const open = new Map<string, Following>()

  return {
    /**
     * Yields news of these attempts, and of attempts added later. Null is a heartbeat, and the first value always is null. The stream ends
     * when another stream replaces it. Throws TooMuch, and the signal's reason.
     */
    async *follow(
      streamId: string,
      positions: readonly Position[],
      { replaces, signal }: { replaces: string; signal: AbortSignal },
    ): AsyncGenerator<EventBatch[] | null> {
      open.get(replaces)?.end()
      open.get(streamId)?.end()
      if (open.size >= followLimits.streams)
        throw new TooMuch(`too many open streams: the limit is ${followLimits.streams}`)
      const following = new Following(attempts)
      open.set(streamId, following)
      try {
        following.add(positions)
        yield null
        yield* following.news(signal)
      } finally {
        following.end()
        if (open.get(streamId) === following) open.delete(streamId)
      }
    },

    /**
     * Adds attempts, and confirms stored lines of attempts already on the stream. False: the stream does not exist. Throws
     * TooMuch.
     */
    add(streamId: string, positions: readonly Position[]): boolean {
      const following = open.get(streamId)
      if (following === undefined) return false
      following.add(positions)
      return true
    },
  }
}

/** A reader wants more streams or attempts than a process allows. */
export class TooMuch extends Error {}

class Following {
  #followed = new Map<string, Followed>()
  #unknown = new Set<string>()
  /** Attempts that may have news, in the order of their turns. */
  #ready = new Set<Followed>()
  #changed = Promise.withResolvers<void>()
  /** Resolves when news must be sent without waiting for more. */
  #pressing = Promise.withResolvers<void>()
  #hasEnded = false

  constructor(readonly attempts: Pick<Attempts, 'find'>) {}

  add(positions: readonly Position[]): void {
    // Positions of attempts already on the stream only confirm stored lines, so they count as no addition.
    const added = positions.filter(({ handle }) => !this.#followed.has(handle) && !this.#unknown.has(handle))
    if (
      added.length > 0 &&
      this.#followed.size + this.#unknown.size + added.length > followLimits.attemptsPerStream
    )
      throw new TooMuch(`too many attempts on one stream: the limit is ${followLimits.attemptsPerStream}`)
    for (const { handle, afterSeq } of positions) {
      let followed = this.#followed.get(handle)
      if (followed !== undefined) followed.stored(afterSeq)
      else {
        const attempt = this.attempts.find(handle)
        if (attempt === null) {
          this.#unknown.add(handle)
          continue
        }
        followed = this.#join(attempt, afterSeq)
      }
      this.#ready.add(followed)
    }
    this.#press()
  }

  async *news(signal: AbortSignal): AsyncGenerator<EventBatch[] | null> {
    const press = () => this.#press()
    signal.addEventListener('abort', press, { once: true })
    try {
      while (!this.#hasEnded) {
        signal.throwIfAborted()
        const [changed, pressing] = [this.#changed.promise, this.#pressing.promise]
        const news = this.#drain()
        if (news.length > 0) yield news
        else if (await happensWithin(limits.heartbeatMs, changed))
          await happensWithin(followLimits.gatherMs, pressing)
        else yield null
      }
    } finally {
      signal.removeEventListener('abort', press)
    }
  }

  end(): void {
    this.#hasEnded = true
    for (const followed of this.#followed.values()) followed.unsubscribe()
    this.#followed.clear()
    this.#press()
  }

  #join(attempt: Attempt, afterSeq: number): Followed {
    const followed = new Followed(attempt, afterSeq)
    followed.unsubscribe = attempt.log.onChange(() => {
      this.#ready.add(followed)
      if (attempt.log.hasEnded) this.#press()
      else this.#wake()
    })
    this.#followed.set(attempt.handle, followed)
    return followed
  }

  #drain(): EventBatch[] {
    const all: EventBatch[] = [...this.#unknown].map((handle) => ({
      handle,
      lines: [],
      phases: [],
      end: 'unknown',
    }))
    this.#unknown.clear()
    let bytesLeft: number = followLimits.messageBytes
    // An attempt with more lines is put back behind the others. This loop reaches it again.
    for (const followed of this.#ready) {
      if (bytesLeft <= 0) break
      this.#ready.delete(followed)
      const { news, bytes, hasMore } = followed.drain(Math.min(bytesLeft, followLimits.turnBytes))
      bytesLeft -= bytes
      if (news !== null) all.push(news)
      if (news !== null && news.end !== null) {
        followed.unsubscribe()
        this.#followed.delete(news.handle)
      } else if (hasMore) this.#ready.add(followed)
    }
    return all
  }

  #wake(): void {
    this.#changed.resolve()
    this.#changed = Promise.withResolvers()
  }

  #press(): void {
    this.#pressing.resolve()
    this.#pressing = Promise.withResolvers()
    this.#wake()
  }
}

/** One attempt on one stream. */
class Followed {
  unsubscribe: () => void = () => {}
  /** Index of the next event to send. */
  #next = 0
  /** Lines that were sent and not confirmed as stored. */
  #unstored: { seq: number; bytes: number }[] = []
  #unstoredBytes = 0

  constructor(
    readonly attempt: Attempt,
    readonly afterSeq: number,
  ) {}

  stored(seq: number): void {
    const unconfirmed = this.#unstored.filter((line) => line.seq > seq)
    this.#unstored = unconfirmed
    this.#unstoredBytes = unconfirmed.reduce((sum, { bytes }) => sum + bytes, 0)
  }

  /** Takes lines of at most `bytesMax` bytes, or one line. `news` is null when there is nothing to send. */
  drain(bytesMax: number): { news: EventBatch | null; bytes: number; hasMore: boolean } {
    const { handle, log } = this.attempt
    const news: EventBatch = { handle, lines: [], phases: [], end: null }
    let bytes = 0
    let isFull = false
    for (; this.#next < log.events.length; this.#next += 1) {
      const event = log.events[this.#next]
      if (event?.kind === 'phase') news.phases.push(event.phase)
      if (event?.kind !== 'line' || event.line.seq <= this.afterSeq) continue
      const size = event.line.bytes + LINE_OVERHEAD_BYTES
      const isTooMuch = this.#unstored.length > 0 && this.#unstoredBytes + size > followLimits.windowBytes
      isFull = bytes > 0 && bytes + size > bytesMax
      if (isTooMuch || isFull) break
      bytes += size
      news.lines.push(event.line)
      this.#unstored.push({ seq: event.line.seq, bytes: size })
      this.#unstoredBytes += size
    }
    if (log.hasEnded && this.#next === log.events.length) news.end = this.attempt
    const isNews = news.lines.length > 0 || news.phases.length > 0 || news.end !== null
    return { news: isNews ? news : null, bytes, hasMore: isFull }
  }
}

/** Bytes of a line on the wire in addition to its text. */
const LINE_OVERHEAD_BYTES = 32
