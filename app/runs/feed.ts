// Server-sent events of run logs: however many follow a run, its new lines are read from the database once, encoded once, and
// kept for a while for those who come back.
import { isTerminal } from '../../machines/run.ts'
import { limits } from '../core/limits.ts'
import type { StreamPlaces } from '../core/stream-places.ts'
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

interface Subscriber {
  /** Number of the last line this reader has been given. */
  position: number
  controller: ReadableStreamDefaultController<Uint8Array>
  /** Gives its place back. */
  leave(): void
  /** There is, or may be, more for it than it has been given: it asks when it has room. */
  isBehind: boolean
  /** It has been given something since the last heartbeat. */
  isWarm: boolean
}

interface LogEvent {
  seq: number
  bytes: Uint8Array
}

interface Feed {
  subscribers: Set<Subscriber>
  /** The last lines, without a gap: all that come after number `since`. */
  recent: LogEvent[]
  recentBytes: number
  since: number
  isReading: boolean
  isStale: boolean
}

type Tail = Awaited<ReturnType<RunService['tail']>>

export type RunFeeds = ReturnType<typeof makeRunFeeds>

export function makeRunFeeds(runs: Pick<RunService, 'tail'>, places: StreamPlaces) {
  const feeds = new Map<string, Feed>()
  const poll = setInterval(() => wakeAll(), limits.ssePollMs)
  const heartbeat = setInterval(beat, limits.sseHeartbeatMs)
  poll.unref?.()
  heartbeat.unref?.()

  /**
   * The lines after `position`, then live ones, then one `status` event, then the end. Null: there are too many streams,
   * of all clients or of this one.
   */
  function follow(id: string, position: number, client: string): ReadableStream<Uint8Array> | null {
    const giveBack = places.take(client)
    if (giveBack === null) return null
    const runId = id.toLowerCase()
    let subscriber: Subscriber
    return new ReadableStream<Uint8Array>(
      {
        start(controller) {
          const feed = feeds.get(runId) ?? newFeed(position)
          const leave = () => {
            giveBack()
            feed.subscribers.delete(subscriber)
            if (feed.subscribers.size === 0 && feeds.get(runId) === feed) feeds.delete(runId)
          }
          subscriber = { position, controller, leave, isBehind: true, isWarm: true }
          feeds.set(runId, feed)
          feed.subscribers.add(subscriber)
          give(subscriber, RETRY)
        },
        pull() {
          if (subscriber.isBehind && roomOf(subscriber) >= ROOM_TO_ASK_BYTES) wake(runId)
        },
        cancel: () => subscriber.leave(),
      },
      new ByteLengthQueuingStrategy({ highWaterMark: STREAM_BUFFER_BYTES }),
    )
  }

  /** Hints that a run has new lines or another status. */
  function wake(runId: string) {
    const feed = feeds.get(runId)
    if (feed === undefined) return
    feed.isStale = true
    if (!feed.isReading) void read(runId, feed)
  }

  async function read(runId: string, feed: Feed) {
    feed.isReading = true
    try {
      while (feed.isStale && feed.subscribers.size > 0) {
        feed.isStale = false
        const late: Subscriber[] = []
        const live: Subscriber[] = []
        // One that does not keep up is left alone until it asks for more.
        for (const subscriber of feed.subscribers)
          if (!hasRoom(subscriber)) subscriber.isBehind = true
          else if (subscriber.position < feed.since) late.push(subscriber)
          else live.push(subscriber)
        if (live.length > 0) await readOn(runId, feed, live)
        if (late.length > 0) await readFor(runId, feed, late)
      }
    } catch {
      const last = encoder.encode(event('error', UNREADABLE))
      for (const subscriber of feed.subscribers) end(subscriber, last)
    } finally {
      feed.isReading = false
    }
  }

  /** What is new, for all who have what was there; what they have not is kept here. */
  async function readOn(runId: string, feed: Feed, live: readonly Subscriber[]) {
    const tail = await runs.tail(runId, feed.recent.at(-1)?.seq ?? feed.since, PAGE_LINES)
    const events = eventsOf(tail)
    for (const one of events) {
      feed.recent.push(one)
      feed.recentBytes += one.bytes.byteLength
    }
    passOn(feed, live, feed.recent, tail)
    while (feed.recent.length > RECENT_LINES || feed.recentBytes > RECENT_BYTES) {
      const [oldest] = feed.recent.splice(0, 1) as [LogEvent]
      feed.recentBytes -= oldest.bytes.byteLength
      feed.since = oldest.seq
    }
  }

  /** A page for those who came with, or have fallen back to, lines that are kept no longer. */
  async function readFor(runId: string, feed: Feed, late: readonly Subscriber[]) {
    const tail = await runs.tail(runId, Math.min(...late.map(({ position }) => position)), PAGE_LINES)
    passOn(feed, late, eventsOf(tail), tail)
  }

  function passOn(feed: Feed, to: readonly Subscriber[], events: readonly LogEvent[], tail: Tail) {
    const isAll = (tail?.lines.length ?? 0) < PAGE_LINES
    if (!isAll) feed.isStale = true
    const last = isAll ? lastOf(tail) : null
    for (const subscriber of to) {
      pass(subscriber, events)
      if (last !== null && !subscriber.isBehind) end(subscriber, last)
    }
  }

  /** Keeps quiet connections open, and notices those that are gone. */
  function beat() {
    for (const { subscribers } of feeds.values())
      for (const subscriber of subscribers) {
        if (!subscriber.isWarm) give(subscriber, HEARTBEAT)
        subscriber.isWarm = false
      }
  }

  const wakeAll = () => {
    for (const runId of feeds.keys()) wake(runId)
  }

  function stop() {
    clearInterval(poll)
    clearInterval(heartbeat)
    for (const feed of [...feeds.values()]) for (const subscriber of feed.subscribers) end(subscriber, null)
  }

  return {
    follow,
    /** Somebody follows it just now: there is such a run. */
    isFollowed: (id: string) => feeds.has(id.toLowerCase()),
    wake,
    wakeAll,
    stop,
  }
}

const newFeed = (position: number): Feed => ({
  subscribers: new Set(),
  recent: [],
  recentBytes: 0,
  since: position,
  isReading: false,
  isStale: false,
})

/** Gives a reader what it has not had, as far as it has room. */
function pass(subscriber: Subscriber, events: readonly LogEvent[]) {
  subscriber.isBehind = false
  let next = events.length
  while (next > 0 && (events[next - 1]?.seq ?? 0) > subscriber.position) next -= 1
  for (const { seq, bytes } of events.slice(next)) {
    if (!hasRoom(subscriber)) {
      subscriber.isBehind = true
      return
    }
    give(subscriber, bytes)
    subscriber.position = seq
  }
}

const roomOf = ({ controller }: Subscriber) => controller.desiredSize ?? 0
const hasRoom = (subscriber: Subscriber) => roomOf(subscriber) > 0

function give(subscriber: Subscriber, bytes: Uint8Array) {
  subscriber.isWarm = true
  try {
    subscriber.controller.enqueue(bytes)
  } catch {
    // The reader has gone; its cancel takes it out of the feed.
  }
}

function end(subscriber: Subscriber, last: Uint8Array | null) {
  if (last !== null) give(subscriber, last)
  try {
    subscriber.controller.close()
  } catch {
    // Closed by its reader already.
  }
  subscriber.leave()
}

const encoder = new TextEncoder()

const event = (name: string, data: unknown, id?: number) =>
  `${id === undefined ? '' : `id: ${id}\n`}event: ${name}\ndata: ${JSON.stringify(data)}\n\n`

const eventsOf = (tail: Tail): LogEvent[] =>
  (tail?.lines ?? []).map(({ seq, ...entry }) => ({ seq, bytes: encoder.encode(event('log', entry, seq)) }))

/** What is said after the last line; null: there may be more lines. */
function lastOf(tail: Tail): Uint8Array | null {
  if (tail === null) return encoder.encode(event('error', { message: 'the run is gone' }))
  return isTerminal(tail.state.status) ? encoder.encode(event('status', tail.state)) : null
}

const RETRY = encoder.encode('retry: 2000\n\n')
const HEARTBEAT = encoder.encode(': still here\n\n')
const UNREADABLE = { message: 'the log could not be read; reconnect to go on' }
