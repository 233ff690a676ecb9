// Where a call belongs, from the client's request through the sidecars and back into the catalog: the request's id, and the
// client's own trace if it has one (W3C Trace Context). It follows the work by itself: nobody passes it on by hand.
import { AsyncLocalStorage } from 'node:async_hooks'
import type { Interceptor } from '@connectrpc/connect'

/** Both as headers carry them; null where there is none, or what came is none. */
export interface Trace extends ClientTrace {
  requestId: string | null
}

/** The client's own part of it. */
export interface ClientTrace {
  traceparent: string | null
  /** What tracing systems add for each other: opaque, and nothing without a `traceparent`. */
  tracestate: string | null
}

/** Of what begins by itself. */
export const NO_TRACE: ClientTrace = { traceparent: null, tracestate: null }

const current = new AsyncLocalStorage<() => Trace>()

/** Does work of a request. Its trace is looked for when somebody asks. */
export const inTrace = <T>(trace: () => Trace, work: () => T): T => current.run(trace, work)

/** What the headers of a call that belongs to the present work are to say. */
export function traceHeaders(): Record<string, string> {
  const trace = current.getStore()?.()
  if (trace === undefined) return {}
  const headers: Record<string, string> = {}
  if (trace.requestId !== null) headers['x-request-id'] = trace.requestId
  if (trace.traceparent !== null) headers.traceparent = trace.traceparent
  if (trace.tracestate !== null) headers.tracestate = trace.tracestate
  return headers
}

/** The client's trace that the present work belongs to, for what goes on later and elsewhere. */
export function clientTrace(): ClientTrace {
  const { traceparent = null, tracestate = null } = current.getStore()?.() ?? {}
  return { traceparent, tracestate }
}

/** `trace`, or where there is none one that begins with `id`, a UUID, and is found by it. Nobody records it here. */
export function begunTrace(id: string, trace: ClientTrace): ClientTrace {
  if (trace.traceparent !== null) return { traceparent: trace.traceparent, tracestate: trace.tracestate }
  const digits = id.replaceAll('-', '')
  return { traceparent: `00-${digits}-${digits.slice(16)}-00`, tracestate: null }
}

/** Does work that a message says the client's trace of. */
export const inClientTrace = <T>(said: { traceparent: string; tracestate: string }, work: () => T): T =>
  inTrace(() => {
    const traceparent = validTraceparent(said.traceparent)
    const tracestate = traceparent === null ? null : validTracestate(said.tracestate)
    return { requestId: null, traceparent, tracestate }
  }, work)

/** What a log line about the present work says of it. */
export function traceFields(): { request_id?: string; trace_id?: string } {
  const trace = current.getStore()?.()
  if (trace === undefined) return {}
  return {
    ...(trace.requestId !== null && { request_id: trace.requestId }),
    ...(trace.traceparent !== null && { trace_id: traceIdOf(trace.traceparent) }),
  }
}

/** What a request says of where it belongs; `requestId` where that has been decided already. */
export function traceOf(headers: Headers, requestId = requestIdIn(headers)): Trace {
  const traceparent = traceparentIn(headers)
  return {
    requestId,
    traceparent,
    tracestate: traceparent === null ? null : validTracestate(headers.get('tracestate') ?? ''),
  }
}

/** The id that whoever calls has given to the request; null when it is none. */
export function requestIdIn(headers: Headers): string | null {
  const given = headers.get('x-request-id')
  return given !== null && /^[\w.:-]{1,128}$/.test(given) ? given : null
}

/** The trace's own id, of a valid `traceparent`. */
export const traceIdOf = (traceparent: string) => traceparent.slice(3, 35)

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/
const ZEROS = /^0+$/

/**
 * Null for one that is no trace: then the request is as one that brought none. One of a later version is passed on as
 * what it says in this one.
 */
export const traceparentIn = (headers: Headers) => validTraceparent(headers.get('traceparent') ?? '')

function validTraceparent(given: string): string | null {
  const [, version, trace = '', parent = '', flags = '', rest] = TRACEPARENT.exec(given) ?? []
  if (version === undefined || version === 'ff' || ZEROS.test(trace) || ZEROS.test(parent)) return null
  if (version === '00') return rest === undefined ? given : null
  return `00-${trace}-${parent}-0${Number.parseInt(flags, 16) & 1}`
}

/** What systems are asked to carry at least; a longer one is left out rather than cut somewhere. */
const TRACESTATE_CHARACTERS_MAX = 512

function validTracestate(said: string): string | null {
  const given = said.trim()
  return given !== '' && given.length <= TRACESTATE_CHARACTERS_MAX && /^[\x20-\x7e]+$/.test(given)
    ? given
    : null
}

/** For clients: calls say where they belong. */
export const sendsTrace: Interceptor = (next) => (request) => {
  for (const [name, value] of Object.entries(traceHeaders())) request.header.set(name, value)
  return next(request)
}

/** For servers: what a handler does belongs to where its call does. */
export const takesTrace: Interceptor = (next) => (request) =>
  inTrace(
    () => traceOf(request.header),
    () => next(request),
  )
