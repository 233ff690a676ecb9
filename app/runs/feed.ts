// Server-sent events of run logs: however many follow a run, its lines are read from the database once.
import { isTerminal, type RunStatus } from '../../machines/run.ts'
import { limits } from '../limits.ts'
import type { RunService } from './service.ts'

/** Bytes a stream may have waiting for a slow reader before it is given no more. */
const STREAM_BUFFER_BYTES = 65_536

interface Subscriber {
  /** Number of the last line this reader has been given. */
  position: number
  controller: ReadableStreamDefaultController<Uint8Array>
}

interface Feed {
  subscribers: Set<Subscriber>
  isReading: boolean
  isStale: boolean
}

export type RunFeeds = ReturnType<typeof makeRunFeeds>

export function makeRunFeeds(runs: Pick<RunService, 'linesAfter' | 'statusOf'>) {
  const feeds = new Map<string, Feed>()
  let open = 0

  const poll = setInterval(() => wakeAll(), limits.ssePollMs)
  const heartbeat = setInterval(() => {
    for (const feed of feeds.values())
      for (const { controller } of feed.subscribers) send(controller, ': still here\n\n')
  }, limits.sseHeartbeatMs)
  poll.unref?.()
  heartbeat.unref?.()

  /** The lines after `position`, then live ones, then one `status` event, then the end. Null: too many streams. */
  function follow(runId: string, position: number): ReadableStream<Uint8Array> | null {
    if (open >= limits.sseStreamsPerProcess) return null
    open += 1
    let subscriber: Subscriber | null = null
    const leave = () => {
      if (subscriber === null) return
      open -= 1
      const feed = feeds.get(runId)
      feed?.subscribers.delete(subscriber)
      if (feed?.subscribers.size === 0) feeds.delete(runId)
      subscriber = null
    }
    return new ReadableStream<Uint8Array>(
      {
        start(controller) {
          subscriber = { position, controller }
          const feed = feeds.get(runId) ?? { subscribers: new Set(), isReading: false, isStale: false }
          feeds.set(runId, feed)
          feed.subscribers.add(subscriber)
          send(controller, 'retry: 2000\n\n')
        },
        pull: () => wake(runId),
        cancel: leave,
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
        // Status first: a run that has ended by then has all its lines.
        const status = await runs.statusOf(runId)
        const from = Math.min(...[...feed.subscribers].map((subscriber) => subscriber.position))
        const lines = await runs.linesAfter(runId, from)
        for (const subscriber of feed.subscribers) {
          if ((subscriber.controller.desiredSize ?? 0) <= 0) continue
          for (const line of lines) {
            if (line.seq <= subscriber.position) continue
            if ((subscriber.controller.desiredSize ?? 0) <= 0) break
            const { seq, ...entry } = line
            send(subscriber.controller, event('log', entry, seq))
            subscriber.position = seq
          }
          const isDone = lines.every((line) => line.seq <= subscriber.position)
          if (isDone && (status === null || isTerminal(status.status)))
            finish(runId, feed, subscriber, status)
        }
      }
    } catch {
      for (const { controller } of feed.subscribers) {
        send(controller, event('error', { message: 'the log could not be read; reconnect to go on' }))
        close(controller)
      }
      open -= feed.subscribers.size
      feeds.delete(runId)
    } finally {
      feed.isReading = false
    }
  }

  function finish(
    runId: string,
    feed: Feed,
    subscriber: Subscriber,
    status: { status: RunStatus; rows_written: number | null; duration_ms: number | null } | null,
  ) {
    send(
      subscriber.controller,
      status === null ? event('error', { message: 'the run is gone' }) : event('status', status),
    )
    close(subscriber.controller)
    feed.subscribers.delete(subscriber)
    open -= 1
    if (feed.subscribers.size === 0) feeds.delete(runId)
  }

  const wakeAll = () => {
    for (const runId of feeds.keys()) wake(runId)
  }

  function stop() {
    clearInterval(poll)
    clearInterval(heartbeat)
    for (const feed of feeds.values()) for (const { controller } of feed.subscribers) close(controller)
    feeds.clear()
  }

  return { follow, wake, wakeAll, stop }
}

const encoder = new TextEncoder()

function send(controller: ReadableStreamDefaultController<Uint8Array>, text: string) {
  try {
    controller.enqueue(encoder.encode(text))
  } catch {
    // The reader has gone; its cancel takes it out of the feed.
  }
}

function close(controller: ReadableStreamDefaultController<Uint8Array>) {
  try {
    controller.close()
  } catch {
    // Closed by its reader already.
  }
}

const event = (name: string, data: unknown, id?: number) =>
  `${id === undefined ? '' : `id: ${id}\n`}event: ${name}\ndata: ${JSON.stringify(data)}\n\n`
