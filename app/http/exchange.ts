// One request from its arrival to its response: everything that applies to every route. The steps, in order:
// 1. arrive: find the request id, the route and the client (core/route-table.ts, core/client-address.ts).
// 2. admit: check host, credential, rate limit, licence, route and origin; reserve an audit slot
// (admission.ts).
// 3. perform: read the body (body.ts, upload-form.ts), call the handler (once per key: idempotency.ts).
// 4. record the request in the audit log.
// 5. set the headers of every response (answer-headers.ts, cors.ts) and compress the body (compression.ts).
// 6. report: count the response, and write a line of the access log (access-log.ts).

import { span } from '../../ground/telemetry/spans.ts'
import { inTrace, requestIdIn, type Trace, traceNow, traceOf } from '../../ground/telemetry/trace.ts'
import type { AccessOf } from '../access/access.ts'
import { type Reader, readerOf } from '../access/code-visibility.ts'
import { type Access, UNLIMITED, type Visible } from '../core/access.ts'
import type { Clock } from '../core/clock.ts'
import { type AppError, clientGone } from '../core/errors.ts'
import { type Identity, nameOf } from '../core/identity.ts'
import type { NewId } from '../core/ids.ts'
import type { Peer, Sender, SenderOf } from '../wire/client-address.ts'
import { toAppError } from '../wire/error-response.ts'
import { setAllowanceHeaders } from '../wire/rate-limit.ts'
import type { Route } from '../wire/route-table.ts'
import { targetOf, withPlainHost } from '../wire/target.ts'
import { checkParameters } from '../wire/unknown-fields.ts'
import { isMonitoring, type Reporting, report } from './access-log.ts'
import { type Admission, type Arrival, admit } from './admission.ts'
import { setCommonHeaders } from './answer-headers.ts'
import { compressed } from './compression.ts'

interface ExchangeDeps extends Admission, Reporting {
  /** Runs the route through Elysia. Throws the error of the handler. */
  perform(request: Request): Promise<Response>
  accessOf: AccessOf
  newId: NewId
  clock: Clock
  senderOf: SenderOf
  /** The response to a refused request. Foreign interfaces have their own formats. */
  refusal(path: string, error: AppError, requestId: string): Response
}

interface Answered {
  response: Response
  failure?: AppError
}

/** Facts about a request that the request itself does not contain. */
interface Exchange {
  requestId: string
  route: Route
  /** The client reads only the headers. Elysia calls the handler of GET, and its body is cancelled. */
  isHead: boolean
  /** Null on open routes, and on routes that check their own credential. */
  identity: Identity | null
  /** Rights of the caller: everything in the community edition, and on routes that check their own credential. */
  access: Access
  /** The client's address; empty when it is unknown. */
  client(): string
  sender: Sender
}

const exchanges = new WeakMap<Request, Exchange>()

/** The exchange of a request, for its handler. */
export function exchangeOf(request: Request): Exchange {
  const exchange = exchanges.get(request)
  if (exchange === undefined)
    throw new Error('the request has no exchange: its handler was called outside of fetch')
  return exchange
}

/** The user or API key of a request, as commits name their authors; null without a credential. */
export function callerNameOf(request: Request): string | null {
  const { identity } = exchangeOf(request)
  return (identity && nameOf(identity)) || null
}

/** The client of an event stream: a user at all addresses, or the address of another caller. */
export function streamClientOf(request: Request): string {
  const { identity, client } = exchangeOf(request)
  return identity?.kind === 'user' ? `user ${identity.userId}` : client()
}

/** Gives a request of the service itself the exchange of `outer`: the same caller, at another route. */
export function continueExchange(outer: Request, inner: Request, route: Route): void {
  exchanges.set(inner, { ...exchangeOf(outer), route, isHead: false })
}

/** The resources that the caller of a request may see. */
export const visibleTo = (request: Request): Promise<Visible> => exchangeOf(request).access.visible()

/** The caller whose visibility limits the code that answers this request; null: the code sees everything. */
export function readerBehind(request: Request): Reader | null {
  const { access, identity } = exchangeOf(request)
  return readerOf(access, identity)
}

/** Handles every request. Always returns a response, never throws. */
export function makeFetch(deps: ExchangeDeps): (request: Request, peer?: Peer) => Promise<Response> {
  return async (request, peer = NOBODY) => {
    const began = deps.clock.elapsed()
    const arrival = arrive(deps, request, peer)
    const { requestId, route, sender, target } = arrival
    const { response, failure, trace } = await inTrace(
      () => traceOf(request.headers, requestId),
      () => inSpan(arrival, () => answer(deps, arrival)),
    )
    deps.audit.record({
      method: request.method,
      path: target.path,
      identity: arrival.identity,
      status: response.status,
      ip: sender.address,
      peer: sender.peer,
      hasSlot: arrival.hasSlot,
    })
    setCommonHeaders(response.headers)
    if (arrival.allowance !== null) setAllowanceHeaders(response.headers, arrival.allowance)
    const sent = received(
      deps,
      { response: await compressed(request, route, response), failure },
      arrival,
      peer,
    )
    sent.response.headers.set('x-request-id', requestId)
    deps.cors.allow(request, sent.response.headers)
    report(deps, { request, route, trace, ms: deps.clock.elapsed() - began, ...sent })
    return sent.response
  }
}

/** Answers a request in a span of its own, unless a monitor asks. Returns the trace, too, which names the span. */
async function inSpan(
  { request, route }: Arrival,
  work: () => Promise<Answered>,
): Promise<Answered & { trace: Trace | undefined }> {
  const traced = async () => ({ ...(await work()), trace: traceNow() })
  if (route === null || isMonitoring(route.pattern)) return traced()
  const { method } = request
  const attributes = { 'http.request.method': method, 'http.route': route.pattern }
  return span(
    `${method} ${route.pattern}`,
    attributes,
    async (active) => {
      const answered = await traced()
      active.set({ 'http.response.status_code': answered.response.status })
      if (answered.failure !== undefined && answered.response.status >= 500) active.fail(answered.failure)
      return answered
    },
    'server',
  )
}

/** For a server that does not know its client. */
const NOBODY: Peer = { address: null }

function arrive(deps: ExchangeDeps, request: Request, peer: Peer): Arrival {
  const target = targetOf(request.url)
  return {
    request,
    requestId: requestIdIn(request.headers) ?? deps.newId(),
    target,
    route: deps.routes.find(request.method, target.path),
    // The address is read on arrival, because it is unknown once the client has disconnected.
    sender: deps.senderOf(request, peer),
    identity: null,
    hasSlot: false,
    allowance: null,
  }
}

async function answer(deps: ExchangeDeps, arrival: Arrival): Promise<Answered> {
  try {
    const admitted = await admit(deps, arrival)
    return { response: admitted instanceof Response ? admitted : await performed(deps, arrival, admitted) }
  } catch (error) {
    return refusedWith(deps, arrival, error)
  }
}

function refusedWith({ refusal }: ExchangeDeps, { target, requestId }: Arrival, error: unknown): Answered {
  const failure = toAppError(error)
  return { response: refusal(target.path, failure, requestId), failure }
}

/** The response, or 499 if the client has closed the connection, which is no fault of the service. */
function received(deps: ExchangeDeps, answered: Answered, arrival: Arrival, peer: Peer): Answered {
  if (peer.isGone !== true) return answered
  void answered.response.body?.cancel().catch(() => {})
  return refusedWith(deps, arrival, clientGone(answered.failure))
}

async function performed(
  deps: ExchangeDeps,
  { request, requestId, identity, sender }: Arrival,
  route: Route,
): Promise<Response> {
  if (route.parameters !== null) checkParameters(targetOf(request.url).query, route.parameters)
  const routed = asRouted(request, route)
  const access = identity === null ? UNLIMITED : deps.accessOf(identity)
  const isHead = request.method === 'HEAD'
  exchanges.set(routed, { requestId, route, isHead, identity, access, client: () => sender.address, sender })
  const response = await deps.perform(routed)
  return isHead ? headOf(response) : response
}

/** For HEAD, Elysia would read the whole body of GET to measure it, even an endless event stream. */
const asRouted = (request: Request, route: Route) =>
  withPlainHost(
    request.method === 'HEAD' && route.method === 'GET' ? new Request(request, { method: 'GET' }) : request,
  )

/** srvx reads no status from a response that is passed as the init of another, so that such a 404 would become 200. */
async function headOf({ body, status, headers }: Response) {
  await body?.cancel()
  return new Response(null, { status, headers })
}
