// The common part of all streams of server-sent events.

import { AppError } from '../core/errors.ts'
import type { StreamSlots } from '../wire/stream-slots.ts'
import { prefers } from './accept.ts'

/** The response that carries a stream. Throws 429 for null: no slot was free. */
export function eventStream(stream: ReadableStream<Uint8Array> | null): Response {
  if (stream === null)
    throw new AppError(429, 'RATE_LIMITED', 'too many open event streams: close one, or retry in 5 s', {
      headers: { 'retry-after': '5' },
    })
  return new Response(stream, {
    headers: {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
    },
  })
}

/** `Last-Event-ID`: the number of the last event that a client has; 0 for any other text. */
export const lastEventId = (text: string | undefined) =>
  text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : 0

/** Whether a client prefers a stream of events to JSON. */
export const acceptsEvents = (accept: string | undefined) =>
  prefers(accept, 'text/event-stream', 'application/json')

const encoder = new TextEncoder()

export const eventBytes = (name: string, data: unknown, id?: number) =>
  encoder.encode(`${id === undefined ? '' : `id: ${id}\n`}event: ${name}\ndata: ${JSON.stringify(data)}\n\n`)

/** A comment that keeps a quiet connection open. */
export const HEARTBEAT = encoder.encode(': still here\n\n')
const RETRY = encoder.encode('retry: 2000\n\n')

interface ReaderOptions {
  /** Bytes that may be buffered for a slow client. */
  bufferBytes: number
  /** The client has read, and the buffer has space. */
  onRead?(): void
  /** The stream has ended, or its client has disconnected. May be called more than once. */
  onLeave(reader: EventReader): void
}

/** Null: too many streams are open, in total or for this client. */
export function openEventReader(slots: StreamSlots, client: string, options: ReaderOptions) {
  const releaseSlot = slots.acquire(client)
  return releaseSlot === null ? null : new EventReader(releaseSlot, options)
}

/** One open stream of events. */
export class EventReader {
  readonly stream: ReadableStream<Uint8Array>
  readonly #unsubscribe: () => void
  #controller!: ReadableStreamDefaultController<Uint8Array>

  constructor(releaseSlot: () => void, { bufferBytes, onRead = () => {}, onLeave }: ReaderOptions) {
    this.#unsubscribe = () => {
      releaseSlot()
      onLeave(this)
    }
    const start = (controller: ReadableStreamDefaultController<Uint8Array>) => {
      this.#controller = controller
    }
    const strategy = new ByteLengthQueuingStrategy({ highWaterMark: bufferBytes })
    this.stream = new ReadableStream({ start, pull: onRead, cancel: this.#unsubscribe }, strategy)
    this.send(RETRY)
  }

  /** Free bytes in the buffer. Zero or less: the client is slow or has disconnected. */
  get freeBytes(): number {
    return this.#controller.desiredSize ?? 0
  }

  send(bytes: Uint8Array) {
    try {
      this.#controller.enqueue(bytes)
    } catch {
      // The client has disconnected; `cancel` removes the reader.
    }
  }

  end(last?: Uint8Array) {
    if (last !== undefined) this.send(last)
    try {
      this.#controller.close()
    } catch {
      // The client has already closed the stream.
    }
    this.#unsubscribe()
  }
}
