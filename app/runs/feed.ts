// Server-sent events of run logs. New lines of a run are read and encoded once for all followers. Recent lines stay in memory
// for readers that reconnect.
import { isTerminal } from '../../machines/run.ts'
import { limits } from '../core/limits.ts'
import { type EventReader, eventBytes, HEARTBEAT, openEventReader } from '../http/event-stream.ts'
import type { StreamSlots } from '../wire/stream-slots.ts'
import type { RunService } from './service.ts'

/** Bytes that may wait for a slow reader before the feed sends no more to it. */
const STREAM_BUFFER_BYTES = 32_768
/** A reader that has fallen behind requests more only when this much buffer is free, not after each line. */
const REFILL_BYTES = STREAM_BUFFER_BYTES / 2
/** Lines per read. The limit avoids reading many lines for which a slow reader has no room. */
const PAGE_LINES = 250
/** Recent lines and bytes of a run in memory, for readers whose connection was cut. */
const RECENT_LINES = 256
const RECENT_BYTES = 65_536

type Tail = Awaited<ReturnType<RunService['tail']>>

export type RunFeeds = ReturnType<typeof makeRunFeeds>

export function makeRunFeeds(runs: Pick<RunService, 'tail'>, slots: StreamSlots) {
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
   * Streams the lines after `position`, then live lines, then one `status` event, then ends. Null: there are too many streams,
   * overall or of this client.
   */
  function follow(id: string, position: number, client: string): ReadableStream<Uint8Array> | null {
    const runId = id.toLowerCase()
    const reader = openEventReader(slots, client, {
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
    /** A client follows this run now, so the run exists. */
    isFollowed: (id: string) => feeds.has(id.toLowerCase()),
    /** Hints that a run has new lines or another status. */
    wake: (runId: string) => feeds.get(runId)?.wake(),
    wakeAll,
    stop,
  }
}

interface Subscriber {
  /** Number of the last line sent to this reader. */
  position: number
  reader: EventReader
  /** Unsent lines exist or may exist for this reader. The reader requests them when its buffer has room. */
  isBehind: boolean
  /** The reader got an event since the last heartbeat. */
  isWarm: boolean
}

interface LogEvent {
  seq: number
  bytes: Uint8Array
}

/** The log of one run and its followers. */
class RunFeed {
  readonly subscribers = new Set<Subscriber>()
  readonly #tailAfter: (seq: number) => Promise<Tail>
  /** The recent lines without a gap: all lines after number `#since`. */
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
    if (isBehind && reader.freeBytes >= REFILL_BYTES) this.wake()
  }

  /** Keeps idle connections open and detects closed connections. */
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
        // A reader without room is skipped until it requests more.
        for (const subscriber of this.subscribers)
          if (subscriber.reader.freeBytes <= 0) subscriber.isBehind = true
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

  /** Reads new lines into `#recent`, and sends them to readers whose next line is there. */
  async #readOn(live: readonly Subscriber[]) {
    const tail = await this.#tailAfter(this.#recent.at(-1)?.seq ?? this.#since)
    for (const event of eventsOf(tail)) {
      this.#recent.push(event)
      this.#recentBytes += event.bytes.byteLength
    }
    this.#forward(live, this.#recent, tail)
    while (this.#recent.length > RECENT_LINES || this.#recentBytes > RECENT_BYTES) {
      const [oldest] = this.#recent.splice(0, 1) as [LogEvent]
      this.#recentBytes -= oldest.bytes.byteLength
      this.#since = oldest.seq
    }
  }

  /** Reads a page for readers whose next line is no longer in `#recent`. */
  async #readFor(late: readonly Subscriber[]) {
    const tail = await this.#tailAfter(Math.min(...late.map(({ position }) => position)))
    this.#forward(late, eventsOf(tail), tail)
  }

  #forward(to: readonly Subscriber[], events: readonly LogEvent[], tail: Tail) {
    const isAll = tail === null || tail.lines.length < PAGE_LINES
    if (!isAll) this.#isStale = true
    const last = isAll ? lastOf(tail) : null
    for (const subscriber of to) {
      sendUnsent(subscriber, events)
      if (last !== null && !subscriber.isBehind) subscriber.reader.end(last)
    }
  }
}

/** Sends a reader its unsent events, as far as its buffer has room. */
function sendUnsent(subscriber: Subscriber, events: readonly LogEvent[]) {
  const { reader } = subscriber
  subscriber.isBehind = false
  const next = events.findLastIndex(({ seq }) => seq <= subscriber.position) + 1
  for (const { seq, bytes } of events.slice(next)) {
    if (reader.freeBytes <= 0) {
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

/** The event after the last line; null: more lines may follow. */
function lastOf(tail: Tail): Uint8Array | null {
  if (tail === null)
    return eventBytes('error', { message: 'the run no longer exists: the reaper has deleted it' })
  return isTerminal(tail.state.status) ? eventBytes('status', tail.state) : null
}

const UNREADABLE = eventBytes('error', { message: 'the log could not be read: reconnect to continue' })
