// The trace of a call, from the client's request through the sidecars and back into the catalog. It consists of the request's
// id and of the client's own trace, if the client sent one (W3C Trace Context). An async context carries the trace, so no
// function passes it as an argument.
import { AsyncLocalStorage } from 'node:async_hooks'
import type { Interceptor } from '@connectrpc/connect'

/** A trace as headers carry it. A missing or invalid part is null. */
export interface Trace extends ClientTrace {
  requestId: string | null
}

/** The part of a trace that the client sent. */
export interface ClientTrace {
  traceparent: string | null
  /** Opaque data that tracing systems add for each other. Ignored without a `traceparent`. */
  tracestate: string | null
}

/** The trace of work that no client caused. */
export const NO_TRACE: ClientTrace = { traceparent: null, tracestate: null }

const current = new AsyncLocalStorage<() => Trace>()

/** Runs work of a request. `trace` is called only when the work needs its trace. */
export const inTrace = <T>(trace: () => Trace, work: () => T): T => current.run(trace, work)

/** The trace of the current work. */
export const traceNow = (): Trace | undefined => current.getStore()?.()

/** The headers that put an outgoing call into the trace of the current work. */
export function traceHeaders(): Record<string, string> {
  const trace = traceNow()
  if (trace === undefined) return {}
  const headers: Record<string, string> = {}
  if (trace.requestId !== null) headers['x-request-id'] = trace.requestId
  if (trace.traceparent !== null) headers.traceparent = trace.traceparent
  if (trace.tracestate !== null) headers.tracestate = trace.tracestate
  return headers
}

/** The client's trace of the current work, for work that continues later or elsewhere. */
export function clientTrace(): ClientTrace {
  const { traceparent = null, tracestate = null } = traceNow() ?? {}
  return { traceparent, tracestate }
}

let isRecorded: (traceId: string) => boolean = () => false

/** Sets which of the traces that this thread begins are recorded; none by default. */
export function begunAs(recorded: (traceId: string) => boolean): void {
  isRecorded = recorded
}

/** Returns `trace`, or without one a new trace whose id is `id`, a UUID. */
export function begunTrace(id: string, trace: ClientTrace): ClientTrace {
  if (trace.traceparent !== null) return { traceparent: trace.traceparent, tracestate: trace.tracestate }
  const digits = id.replaceAll('-', '')
  const flags = isRecorded(digits) ? '01' : '00'
  return { traceparent: `00-${digits}-${digits.slice(16)}-${flags}`, tracestate: null }
}

/** Runs work in the client's trace from a message. An invalid trace is ignored. */
export const inClientTrace = <T>(message: { traceparent: string; tracestate: string }, work: () => T): T =>
  inTrace(() => {
    const traceparent = validTraceparent(message.traceparent)
    const tracestate = traceparent === null ? null : validTracestate(message.tracestate)
    return { requestId: null, traceparent, tracestate }
  }, work)

/** Fields that a log line of the current work carries. */
export function traceFields(trace = traceNow()): {
  request_id?: string
  trace_id?: string
  span_id?: string
} {
  if (trace === undefined) return {}
  return {
    ...(trace.requestId !== null && { request_id: trace.requestId }),
    ...(trace.traceparent !== null && {
      trace_id: traceIdOf(trace.traceparent),
      span_id: spanIdOf(trace.traceparent),
    }),
  }
}

/** The trace in the headers of a request. `requestId` overrides the id in the headers. */
export function traceOf(headers: Headers, requestId = requestIdIn(headers)): Trace {
  const traceparent = traceparentIn(headers)
  return {
    requestId,
    traceparent,
    tracestate: traceparent === null ? null : validTracestate(headers.get('tracestate') ?? ''),
  }
}

/** The request id that the caller sent, or null if it is missing or invalid. */
export function requestIdIn(headers: Headers): string | null {
  const requestId = headers.get('x-request-id')
  return requestId !== null && /^[\w.:-]{1,128}$/.test(requestId) ? requestId : null
}

/** The trace id in a valid `traceparent`. */
export const traceIdOf = (traceparent: string) => traceparent.slice(3, 35)

/** The span id in a valid `traceparent`. */
const spanIdOf = (traceparent: string) => traceparent.slice(36, 52)

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/
const ZEROS = /^0+$/

/**
 * Returns null for an invalid `traceparent`, which is then ignored. A `traceparent` of a later version is converted to version
 * 00.
 */
const traceparentIn = (headers: Headers) => validTraceparent(headers.get('traceparent') ?? '')

function validTraceparent(text: string): string | null {
  const [, version, trace = '', parent = '', flags = '', extra] = TRACEPARENT.exec(text) ?? []
  if (version === undefined || version === 'ff' || ZEROS.test(trace) || ZEROS.test(parent)) return null
  if (version === '00') return extra === undefined ? text : null
  return `00-${trace}-${parent}-0${Number.parseInt(flags, 16) & 1}`
}

/** The length that every system must carry. A longer `tracestate` is dropped, because a truncated one would be invalid. */
const TRACESTATE_CHARACTERS_MAX = 512

function validTracestate(text: string): string | null {
  const trimmed = text.trim()
  return trimmed !== '' && trimmed.length <= TRACESTATE_CHARACTERS_MAX && /^[\x20-\x7e]+$/.test(trimmed)
    ? trimmed
    : null
}

/** For clients: adds the current trace to every call. */
export const sendsTrace: Interceptor = (next) => (request) => {
  for (const [name, value] of Object.entries(traceHeaders())) request.header.set(name, value)
  return next(request)
}
