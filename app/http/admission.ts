// Whether a request may reach its handler. The checks follow each other as `admit` lists them: the order is part of the interface.
import type { AuditTrail } from '../audit/service.ts'
import type { Sender } from '../core/client-address.ts'
import { AppError, forbidden, methodNotAllowed, routeNotFound } from '../core/errors.ts'
import type { Identity } from '../core/identity.ts'
import type { CheckHost } from '../core/own-host.ts'
import { type Allowance, type LimitRequest, tooManyRequests } from '../core/rate-limit.ts'
import type { Route, RouteTable } from '../core/route-table.ts'
import { checkEncoding, type targetOf } from '../core/target.ts'
import type { AdmitUser, Authenticate, Authorize } from './auth.ts'
import type { Cors } from './cors.ts'

export interface Admission {
  routes: RouteTable
  authenticate: Authenticate
  /** A plugin's. Null: only what a route is called on decides. */
  authorize: Authorize | null
  /** Admits users by the licence; null in an edition without one. */
  admitUser: AdmitUser | null
  limitRequest: LimitRequest
  cors: Cors
  checkHost: CheckHost
  /** Decides which requests belong into the audit log. */
  audit: AuditTrail
}

/** A request and what its admission finds out about it. */
export interface Arrival {
  request: Request
  requestId: string
  target: ReturnType<typeof targetOf>
  route: Route | null
  sender: Sender
  /** Null until it is known, and for a client that is not admitted. */
  identity: Identity | null
  /** The state of the client's bucket, where requests are counted. */
  allowance: Allowance | null
  /** Whether the queue of the audit log has a place reserved for this request. */
  hasPlace: boolean
}

/**
 * The route to perform, or the answer to a preflight. Fills in the arrival. Throws AppError for a refusal. Credentials come
 * before routes: an address that does not exist is 401 before it is 404.
 */
export async function admit(deps: Admission, arrival: Arrival): Promise<Route | Response> {
  const { request, target, route, sender } = arrival
  deps.checkHost(request, route?.pattern ?? null)
  if (request.method === 'OPTIONS' && route === null) {
    const methods = deps.routes.methods(target.path)
    if (methods.length > 0) return new Response(null, { status: 204, headers: { allow: methods.join(', ') } })
  }

  const identity = needsIdentity(route) ? await deps.authenticate(request, sender) : null
  if (identity instanceof AppError) throw identity
  arrival.identity = identity
  const allowance = deps.limitRequest(route, identity, () => sender.address)
  arrival.allowance = allowance
  if (allowance !== null && allowance.retryAfterSeconds > 0)
    throw tooManyRequests('too many requests', allowance.retryAfterSeconds)
  arrival.hasPlace = await deps.audit.reserve(request.method, target.path)
  if (identity?.kind === 'user') await deps.admitUser?.(identity)

  if (route === null) throw noRoute(deps.routes, arrival)
  if (deps.cors.isForgery(request))
    throw forbidden('Origin: pages of another site may not write; list the site in CORS_ORIGINS')
  checkEncoding(target)
  if (identity !== null && deps.authorize !== null && !(await deps.authorize(identity, route)))
    throw forbidden('this is not open to you')
  return route
}

/** Open routes are listed; all others need a credential, also addresses that do not exist. */
const needsIdentity = (route: Route | null) => route === null || route.access === 'identity'

function noRoute(routes: RouteTable, { request, target }: Arrival): AppError {
  const methods = routes.methods(target.path)
  return methods.length > 0
    ? methodNotAllowed(request.method, methods)
    : routeNotFound(hintFor(target.path, routes))
}

const API = '/api/v1'
/** Beginnings that callers write in place of `/api/v1`. */
const SHORTENED = /^(?:\/api\/v1|\/api|\/v1)?(?=\/)/

/**
 * The address that the caller of an unknown one probably meant: without a slash at its end, or with `/api/v1` before it.
 * Null: no route answers there either.
 */
export function hintFor(path: string, routes: Pick<RouteTable, 'methods'>): string | null {
  let end = path.length
  while (path[end - 1] === '/') end--
  const bare = path.slice(0, end)
  for (const candidate of [bare, bare.replace(SHORTENED, API)])
    if (candidate !== '' && candidate !== path && routes.methods(candidate).length > 0) return candidate
  return null
}
