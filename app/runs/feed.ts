// Server-sent events of run logs: however many follow a run, its lines are read from the database once.
import { isTerminal } from '../../machines/run.ts'
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

type Tail = Awaited<ReturnType<RunService['tail']>>

export type RunFeeds = ReturnType<typeof makeRunFeeds>

export function makeRunFeeds(runs: Pick<RunService, 'tail'>) {
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
  function follow(id: string, position: number): ReadableStream<Uint8Array> | null {
    if (open >= limits.sseStreamsPerProcess) return null
    const runId = id.toLowerCase()
    let leave = () => {}
    return new ReadableStream<Uint8Array>(
      {
        start(controller) {
          const subscriber: Subscriber = { position, controller }
          const feed = feeds.get(runId) ?? { subscribers: new Set(), isReading: false, isStale: false }
          feeds.set(runId, feed)
          feed.subscribers.add(subscriber)
          open += 1
          leave = () => remove(runId, feed, subscriber)
          send(controller, 'retry: 2000\n\n')
        },
        pull: () => wake(runId),
        cancel: () => leave(),
      },
      new ByteLengthQueuingStrategy({ highWaterMark: STREAM_BUFFER_BYTES }),
    )
  }

  /** Takes a subscriber out, once, however many ways its end is noticed. */
  function remove(runId: string, feed: Feed, subscriber: Subscriber) {
    if (!feed.subscribers.delete(subscriber)) return
    open -= 1
    if (feed.subscribers.size === 0 && feeds.get(runId) === feed) feeds.delete(runId)
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
      while (feed.isStale) {
        feed.isStale = false
        // One that does not keep up is left alone until it asks for more.
        const ready = [...feed.subscribers].filter(({ controller }) => (controller.desiredSize ?? 0) > 0)
        if (ready.length === 0) return
        const tail = await runs.tail(runId, Math.min(...ready.map(({ position }) => position)))
        for (const subscriber of ready) pass(runId, feed, subscriber, tail)
      }
    } catch {
      for (const subscriber of feed.subscribers) {
        send(
          subscriber.controller,
          event('error', { message: 'the log could not be read; reconnect to go on' }),
        )
        end(runId, feed, subscriber)
      }
    } finally {
      feed.isReading = false
    }
  }

  function pass(runId: string, feed: Feed, subscriber: Subscriber, tail: Tail) {
    const { controller } = subscriber
    for (const { seq, ...entry } of tail?.lines ?? []) {
      if (seq <= subscriber.position) continue
      if ((controller.desiredSize ?? 0) <= 0) return
      send(controller, event('log', entry, seq))
      subscriber.position = seq
    }
    if (tail !== null && !isTerminal(tail.state.status)) return
    send(
      controller,
      tail === null ? event('error', { message: 'the run is gone' }) : event('status', tail.state),
    )
    end(runId, feed, subscriber)
  }

  function end(runId: string, feed: Feed, subscriber: Subscriber) {
    close(subscriber.controller)
    remove(runId, feed, subscriber)
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
