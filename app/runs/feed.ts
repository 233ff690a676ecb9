// Server-sent events of run logs: however many follow a run, its new lines are read from the database once, encoded once, and
// kept for a while for those who come back.
import { isTerminal } from '../../machines/run.ts'
import { limits } from '../core/limits.ts'
import type { StreamPlaces } from '../core/stream-places.ts'
import { type EventReader, eventBytes, HEARTBEAT, openEventReader } from '../http/event-stream.ts'
import type { RunService } from './service.ts'

/** Bytes a stream may have waiting for a slow reader before it is given no more. */
const STREAM_BUFFER_BYTES = 32_768
/** One that has fallen behind asks for more when so much is free again, and not for each line that it reads. */
const ROOM_TO_ASK_BYTES = STREAM_BUFFER_BYTES / 2
/** Lines read at a time: what a slow reader has no room for is not read for it. */
const PAGE_LINES = 250
/** The last lines of a run are kept for readers whose connection was cut, up to these. */
const RECENT_LINES = 256
const RECENT_BYTES = 65_536

type Tail = Awaited<ReturnType<RunService['tail']>>

export type RunFeeds = ReturnType<typeof makeRunFeeds>

export function makeRunFeeds(runs: Pick<RunService, 'tail'>, places: StreamPlaces) {
  const feeds = new Map<string, RunFeed>()
  const wakeAll = () => {
    for (const feed of feeds.values()) feed.wake()
  }
  const poll = setInterval(wakeAll, limits.ssePollMs)
  const heartbeat = setInterval(() => {
    for (const feed of feeds.values()) feed.beat()
  }, limits.sseHeartbeatMs)
  poll.unref?.()
  heartbeat.unref?.()

  /**
   * The lines after `position`, then live ones, then one `status` event, then the end. Null: there are too many streams,
   * of all clients or of this one.
   */
  function follow(id: string, position: number, client: string): ReadableStream<Uint8Array> | null {
    const runId = id.toLowerCase()
    const reader = openEventReader(places, client, {
      bufferBytes: STREAM_BUFFER_BYTES,
      onRead: () => feed.hasRead(subscriber),
      onLeave() {
        feed.subscribers.delete(subscriber)
        if (feed.subscribers.size === 0 && feeds.get(runId) === feed) feeds.delete(runId)
      },
    })
    if (reader === null) return null
    const feed = feeds.get(runId) ?? new RunFeed((seq) => runs.tail(runId, seq, PAGE_LINES), position)
    const subscriber: Subscriber = { position, reader, isBehind: true, isWarm: true }
    feeds.set(runId, feed)
    feed.subscribers.add(subscriber)
    return reader.stream
  }

  function stop() {
    clearInterval(poll)
    clearInterval(heartbeat)
    for (const feed of feeds.values()) feed.end()
  }

  return {
    follow,
    /** Somebody follows it just now: there is such a run. */
    isFollowed: (id: string) => feeds.has(id.toLowerCase()),
    /** Hints that a run has new lines or another status. */
    wake: (runId: string) => feeds.get(runId)?.wake(),
    wakeAll,
    stop,
  }
}

interface Subscriber {
  /** Number of the last line this reader has been given. */
  position: number
  reader: EventReader
  /** There is, or may be, more for it than it has been given: it asks when it has room. */
  isBehind: boolean
  /** It has been given something since the last heartbeat. */
  isWarm: boolean
}

interface LogEvent {
  seq: number
  bytes: Uint8Array
}

/** The log of one run and those who follow it. */
class RunFeed {
  readonly subscribers = new Set<Subscriber>()
  readonly #tailAfter: (seq: number) => Promise<Tail>
  /** The last lines, without a gap: all that come after number `since`. */
  readonly #recent: LogEvent[] = []
  #recentBytes = 0
  #since: number
  #isReading = false
  #isStale = false

  constructor(tailAfter: (seq: number) => Promise<Tail>, position: number) {
    this.#tailAfter = tailAfter
    this.#since = position
  }

  wake() {
    this.#isStale = true
    if (!this.#isReading) void this.#read()
  }

  hasRead({ isBehind, reader }: Subscriber) {
    if (isBehind && reader.room >= ROOM_TO_ASK_BYTES) this.wake()
  }

  /** Keeps quiet connections open, and notices those that are gone. */
  beat() {
    for (const subscriber of this.subscribers) {
      if (!subscriber.isWarm) subscriber.reader.send(HEARTBEAT)
      subscriber.isWarm = false
    }
  }

  end(last?: Uint8Array) {
    for (const { reader } of this.subscribers) reader.end(last)
  }

  async #read() {
    this.#isReading = true
    try {
      while (this.#isStale && this.subscribers.size > 0) {
        this.#isStale = false
        const late: Subscriber[] = []
        const live: Subscriber[] = []
        // One that does not keep up is left alone until it asks for more.
        for (const subscriber of this.subscribers)
          if (subscriber.reader.room <= 0) subscriber.isBehind = true
          else if (subscriber.position < this.#since) late.push(subscriber)
          else live.push(subscriber)
        if (live.length > 0) await this.#readOn(live)
        if (late.length > 0) await this.#readFor(late)
      }
    } catch {
      this.end(UNREADABLE)
    } finally {
      this.#isReading = false
    }
  }

  /** What is new, for all who have what was there; what they have not is kept here. */
  async #readOn(live: readonly Subscriber[]) {
    const tail = await this.#tailAfter(this.#recent.at(-1)?.seq ?? this.#since)
    for (const one of eventsOf(tail)) {
      this.#recent.push(one)
      this.#recentBytes += one.bytes.byteLength
    }
    this.#passOn(live, this.#recent, tail)
    while (this.#recent.length > RECENT_LINES || this.#recentBytes > RECENT_BYTES) {
      const [oldest] = this.#recent.splice(0, 1) as [LogEvent]
      this.#recentBytes -= oldest.bytes.byteLength
      this.#since = oldest.seq
    }
  }

  /** A page for those who came with, or have fallen back to, lines that are kept no longer. */
  async #readFor(late: readonly Subscriber[]) {
    const tail = await this.#tailAfter(Math.min(...late.map(({ position }) => position)))
    this.#passOn(late, eventsOf(tail), tail)
  }

  #passOn(to: readonly Subscriber[], events: readonly LogEvent[], tail: Tail) {
    const isAll = tail === null || tail.lines.length < PAGE_LINES
    if (!isAll) this.#isStale = true
    const last = isAll ? lastOf(tail) : null
    for (const subscriber of to) {
      pass(subscriber, events)
      if (last !== null && !subscriber.isBehind) subscriber.reader.end(last)
    }
  }
}

/** Gives a reader what it has not had, as far as it has room. */
function pass(subscriber: Subscriber, events: readonly LogEvent[]) {
  const { reader } = subscriber
  subscriber.isBehind = false
  const next = events.findLastIndex(({ seq }) => seq <= subscriber.position) + 1
  for (const { seq, bytes } of events.slice(next)) {
    if (reader.room <= 0) {
      subscriber.isBehind = true
      return
    }
    reader.send(bytes)
    subscriber.isWarm = true
    subscriber.position = seq
  }
}

const eventsOf = (tail: Tail): LogEvent[] =>
  (tail?.lines ?? []).map(({ seq, ...entry }) => ({ seq, bytes: eventBytes('log', entry, seq) }))

/** What is said after the last line; null: there may be more lines. */
function lastOf(tail: Tail): Uint8Array | null {
  if (tail === null) return eventBytes('error', { message: 'the run is gone' })
  return isTerminal(tail.state.status) ? eventBytes('status', tail.state) : null
}

const UNREADABLE = eventBytes('error', { message: 'the log could not be read; reconnect to go on' })
