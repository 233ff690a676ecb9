// What all streams of server-sent events have in common.

import { AppError } from '../core/errors.ts'
import { prefers } from './accept.ts'

/** The answer that carries a stream; 429 when there was no place for it (null). */
export function eventStream(stream: ReadableStream<Uint8Array> | null): Response {
  if (stream === null)
    throw new AppError(429, 'RATE_LIMITED', 'too many event streams are open', {
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

/** `Last-Event-ID`: the number of the last event a client has; 0 when it is none of ours. */
export const lastEventId = (text: string | undefined) =>
  text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : 0

/** Whether a client prefers a stream of events to JSON. */
export const acceptsEvents = (accept: string | undefined) =>
  prefers(accept, 'text/event-stream', 'application/json')
