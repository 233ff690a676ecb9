// One request from its arrival to its answer: everything that holds for every route, in the order in which it is decided.

import { inTrace, requestIdIn, traceIdOf, traceOf, traceparentIn } from '../../proto/trace.ts'
import type { AccessOf } from '../access/access.ts'
import type { AuditTrail } from '../audit/service.ts'
import { type Access, UNLIMITED, type Visible } from '../core/access.ts'
import type { Peer, Sender, SenderOf } from '../core/client-address.ts'
import type { Clock } from '../core/clock.ts'
import { errorResponse, toAppError } from '../core/error-response.ts'
import { AppError, clientGone, forbidden, methodNotAllowed, routeNotFound } from '../core/errors.ts'
import type { Identity } from '../core/identity.ts'
import type { NewId } from '../core/ids.ts'
import type { Log } from '../core/log.ts'
import type { Metrics } from '../core/metrics.ts'
import type { CheckHost } from '../core/own-host.ts'
import { type Allowance, type LimitRequest, tellAllowance, tooManyRequests } from '../core/rate-limit.ts'
import type { Route, RouteTable } from '../core/route-table.ts'
import { checkEncoding, targetOf, withPlainHost } from '../core/target.ts'
import type { AdmitUser, Authenticate, Authorize } from './auth.ts'
import { compressed } from './compression.ts'
import type { Cors } from './cors.ts'
import { hintFor } from './route-hint.ts'

export interface ExchangeDeps {
  routes: RouteTable
  /** Elysia: runs the route that the table found. Throws what the handler threw. */
  perform(request: Request): Promise<Response>
  authenticate: Authenticate
  /** A plugin's. Null: only what a route is called on decides. */
  authorize: Authorize | null
  accessOf: AccessOf
  /** Admits users by the licence; null in an edition without one. */
  admitUser: AdmitUser | null
  limitRequest: LimitRequest
  cors: Cors
  checkHost: CheckHost
  log: Log
  clock: Clock
  newId: NewId
  metrics: Metrics
  /** Decides which requests belong into the audit log. */
  audit: AuditTrail
  senderOf: SenderOf
}

/** What is known about a request besides itself. */
export interface Exchange {
  requestId: string
  route: Route
  /** Null on routes that are open or check a credential of their own. */
  identity: Identity | null
  /** What the caller may do; everything in the community edition, and on routes that check a credential of their own. */
  access: Access
  /** The client's address; empty when nobody knows it. */
  client(): string
  sender: Sender
}

const exchanges = new WeakMap<Request, Exchange>()

/** The exchange a handler is part of. */
export function exchangeOf(request: Request): Exchange {
  const exchange = exchanges.get(request)
  if (exchange === undefined) throw new Error('this request did not come through the server')
  return exchange
}

/** What the caller of a request may see. */
export const visibleTo = (request: Request): Promise<Visible> => exchangeOf(request).access.visible()

/** The handler of all requests. It answers always, and never throws; no promise where nobody has to be waited for. */
export function makeFetch(
  deps: ExchangeDeps,
): (request: Request, peer?: Peer) => Response | Promise<Response> {
  return (request, peer = NOBODY) => {
    const began = deps.clock.elapsed()
    const requestId = requestIdIn(request.headers) ?? deps.newId()
    const target = targetOf(request.url)
    const route = deps.routes.find(request.method, target.path)
    // A probe, thousands of which may come in a second: the same for all, and nothing about it is asked or recorded.
    if (
      route !== null &&
      route.constant !== null &&
      route.access === 'open' &&
      request.method === 'GET' &&
      target.query === ''
    )
      return finished(deps, {
        request,
        requestId,
        route,
        response: new Response(route.constant, CONSTANT),
        began,
      })
    return exchanged(deps, { request, requestId, target, route, began }, peer)
  }
}

async function exchanged(
  deps: ExchangeDeps,
  { request, requestId, target, route, began }: Found & Pick<Outcome, 'began'>,
  peer: Peer,
): Promise<Response> {
  const isConstant = route !== null && route.constant !== null
  // Whoever is answered later may be gone by then, and its address with it.
  const sender = deps.senderOf(request, peer)
  const client = () => sender.address
  const arrival: Arrival = {
    request,
    requestId,
    target,
    route,
    identity: null,
    hasPlace: false,
    allowance: null,
    client,
    sender,
  }
  // What is always the same asks nobody.
  const answered = isConstant
    ? answer(deps, arrival)
    : inTrace(
        () => traceOf(request.headers, requestId),
        () => answer(deps, arrival),
      )
  const { response, failure } = answered instanceof Promise ? await answered : answered
  deps.audit.record({
    method: request.method,
    path: target.path,
    identity: arrival.identity,
    status: response.status,
    ip: sender.address,
    peer: sender.peer,
    hasPlace: arrival.hasPlace,
  })
  if (failure !== undefined || !isConstant) setCommonHeaders(response.headers)
  if (arrival.allowance !== null) tellAllowance(response.headers, arrival.allowance)
  const sent = isConstant ? response : await compressed(request, route, response)
  return finished(deps, { request, requestId, route, began, ...received({ response: sent, failure }, peer) })
}

/** The answer, or 499 where the client has closed the connection: that is its end of the exchange and no fault of ours. */
function received(answered: Answered, peer: Peer): Answered {
  if (peer.isGone !== true) return answered
  void answered.response.body?.cancel().catch(() => {})
  return refusedWith(clientGone(answered.failure))
}

/** What every answer has, and what is told of it. */
function finished(deps: ExchangeDeps, outcome: Outcome): Response {
  const { request, response, requestId } = outcome
  response.headers.set('x-request-id', requestId)
  deps.cors.allow(request, response.headers)
  report(deps, outcome)
  return response
}

/** The server did not say who is at the other end. */
const NOBODY: Peer = { address: null }

interface Found {
  request: Request
  requestId: string
  target: ReturnType<typeof targetOf>
  route: Route | null
}

interface Arrival extends Found {
  /** Null until it is known, and for who may not come in. */
  identity: Identity | null
  /** Of the client's bucket, where requests are counted. */
  allowance: Allowance | null
  client: Exchange['client']
  sender: Sender
  /** In the queue of the audit log. */
  hasPlace: boolean
}

interface Answered {
  response: Response
  failure?: AppError
}

/** No promise unless somebody has to be waited for: probes and pages ask for constants all the time. */
function answer(deps: ExchangeDeps, arrival: Arrival): Answered | Promise<Answered> {
  try {
    const response = admit(deps, arrival)
    return response instanceof Promise
      ? response.then((response) => ({ response }), refusedWith)
      : { response }
  } catch (error) {
    return refusedWith(error)
  }
}

function refusedWith(error: unknown): Answered {
  const failure = toAppError(error)
  return { response: errorResponse(failure), failure }
}

/** Credentials come first: an address that does not exist is 401 before it is 404. */
function admit(deps: ExchangeDeps, arrival: Arrival): Response | Promise<Response> {
  const { request, target, route } = arrival
  deps.checkHost(request, route?.pattern ?? null)
  if (request.method === 'OPTIONS' && route === null) {
    const methods = deps.routes.methods(target.path)
    if (methods.length > 0) return new Response(null, { status: 204, headers: { allow: methods.join(', ') } })
  }
  const identity = needsIdentity(route) ? deps.authenticate(request, arrival.sender) : null
  return identity instanceof Promise
    ? identity.then((one) => enter(deps, arrival, one))
    : enter(deps, arrival, identity)
}

function enter(
  deps: ExchangeDeps,
  arrival: Arrival,
  identity: Identity | AppError | null,
): Response | Promise<Response> {
  const { request, target, route } = arrival
  if (identity instanceof AppError) throw identity
  arrival.identity = identity
  const allowance = deps.limitRequest(route, identity, arrival.client)
  arrival.allowance = allowance
  if (allowance !== null && allowance.retryAfterSeconds > 0)
    throw tooManyRequests('too many requests', allowance.retryAfterSeconds)
  const place = deps.audit.reserve(request.method, target.path)
  if (!(place instanceof Promise)) {
    arrival.hasPlace = place
    return recordable(deps, arrival, identity)
  }
  return place.then((hasPlace) => {
    arrival.hasPlace = hasPlace
    return recordable(deps, arrival, identity)
  })
}

/** From here on the audit queue has a place reserved for this request. */
function recordable(
  deps: ExchangeDeps,
  arrival: Arrival,
  identity: Identity | null,
): Response | Promise<Response> {
  if (deps.admitUser === null || identity?.kind !== 'user') return routed(deps, arrival, identity)
  const admitted = deps.admitUser(identity)
  return admitted instanceof Promise
    ? admitted.then(() => routed(deps, arrival, identity))
    : routed(deps, arrival, identity)
}

function routed(
  deps: ExchangeDeps,
  arrival: Arrival,
  identity: Identity | null,
): Response | Promise<Response> {
  const { request, target, route } = arrival
  if (route === null) {
    const methods = deps.routes.methods(target.path)
    throw methods.length > 0
      ? methodNotAllowed(request.method, methods)
      : routeNotFound(hintFor(target.path, deps.routes))
  }
  if (deps.cors.isForgery(request))
    throw forbidden('Origin: pages of another site may not write; list the site in CORS_ORIGINS')
  checkEncoding(target)
  if (identity === null || deps.authorize === null) return served(deps, arrival, route)
  return authorized(deps.authorize(identity, route), () => served(deps, arrival, route))
}

async function authorized(mayCall: boolean | Promise<boolean>, serve: () => Response | Promise<Response>) {
  if (!(await mayCall)) throw forbidden('this is not open to you')
  return serve()
}

function served(deps: ExchangeDeps, arrival: Arrival, route: Route): Response | Promise<Response> {
  const { request } = arrival
  if (route.constant === null) return performed(deps, arrival, route)
  return new Response(request.method === 'HEAD' ? null : route.constant, CONSTANT)
}

async function performed(deps: ExchangeDeps, arrival: Arrival, route: Route): Promise<Response> {
  const { request, requestId, identity, client, sender } = arrival
  const routed = asRouted(request, route)
  const access = identity === null ? UNLIMITED : deps.accessOf(identity)
  exchanges.set(routed, { requestId, route, identity, access, client, sender })
  const response = await deps.perform(routed)
  return request.method === 'HEAD' ? headOf(response) : response
}

/** What is open is listed; all else needs a credential, also what does not exist. */
const needsIdentity = (route: Route | null) => route === null || route.access === 'identity'

/** Elysia would answer HEAD by reading the whole body of GET to measure it, an endless event stream too. */
const asRouted = (request: Request, route: Route) =>
  withPlainHost(
    request.method === 'HEAD' && route.method === 'GET' ? new Request(request, { method: 'GET' }) : request,
  )

async function headOf(response: Response) {
  await response.body?.cancel()
  return new Response(null, response)
}

const COMMON_HEADERS: Record<string, string> = {
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'cache-control': 'no-store',
  // An origin that is listed may read the answer, and is named in it.
  vary: 'Origin',
}

const COMMON = Object.entries(COMMON_HEADERS)
/** What always answers the same has them from the beginning. As `Headers`, they are copied and not looked at one by one. */
const CONSTANT = { headers: new Headers({ 'content-type': 'application/json', ...COMMON_HEADERS }) }

/** Security headers, unless the route set its own. */
function setCommonHeaders(headers: Headers) {
  for (const [name, value] of COMMON) {
    if (!headers.has(name)) headers.set(name, value)
  }
}

/** Metric labels and log lines carry patterns: what a client makes up must not become a time series. */
const UNMATCHED = 'unmatched'
const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])
/** Asked for every few seconds by machines; what `/health/ready` finds is logged where it is found. */
const MONITORING = /^\/(health|metrics)(\/|$)/
/** A run of ours asks for dozens of tables and files; its own log says what came of it. */
const INTERNAL = /^\/(catalog|lake\/objects)\//
/** An internal answer that takes longer holds up a run, and is worth a line. */
const SLOW_INTERNAL_MS = 1_000

interface Outcome {
  request: Request
  requestId: string
  route: Route | null
  response: Response
  failure?: AppError
  /** By the clock that runs on. */
  began: number
}

function report(
  { log, metrics, clock }: ExchangeDeps,
  { request, requestId, route, response, failure, began }: Outcome,
) {
  const ms = clock.elapsed() - began
  const method = METHODS.has(request.method) ? request.method : 'OTHER'
  const path = route?.pattern ?? UNMATCHED
  metrics.httpAnswered({ method, path, status: response.status, seconds: ms / 1000 })
  const isFault = failure?.status === 500
  if (!isFault && !isWorthALine(path, response.status, ms)) return
  const line = `${method} ${path} ${response.status}`
  const traceparent = traceparentIn(request.headers)
  const fields = {
    ms: Math.round(ms * 10) / 10,
    request_id: requestId,
    ...(traceparent !== null && { trace_id: traceIdOf(traceparent) }),
  }
  if (isFault) log.error(line, { ...fields, error: failure.cause ?? failure })
  else if (response.status < 500) log.info(line, fields)
  else log.warn(line, failure === undefined ? fields : { ...fields, error: failure.message })
}

function isWorthALine(path: string, status: number, ms: number) {
  if (MONITORING.test(path)) return false
  return !INTERNAL.test(path) || status >= 500 || ms > SLOW_INTERNAL_MS
}
