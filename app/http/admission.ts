// Decides whether a request may reach its handler. `admit` checks in a fixed order, which is part of the interface.
import type { AuditTrail } from '../audit/service.ts'
import { AppError, forbidden, methodNotAllowed, routeNotFound } from '../core/errors.ts'
import type { Identity } from '../core/identity.ts'
import type { Sender } from '../wire/client-address.ts'
import type { CheckHost } from '../wire/own-host.ts'
import { type Allowance, type LimitRequest, tooManyRequests } from '../wire/rate-limit.ts'
import type { Route, RouteTable } from '../wire/route-table.ts'
import { checkEncoding, type targetOf } from '../wire/target.ts'
import type { AdmitUser, Authenticate, Authorize } from './auth.ts'
import type { Cors } from './cors.ts'

export interface Admission {
  routes: RouteTable
  authenticate: Authenticate
  /** Authorization by a plugin. Null: only the rights on the requested resource decide. */
  authorize: Authorize | null
  /** Admits users by the licence; null in an edition without a licence. */
  admitUser: AdmitUser | null
  limitRequest: LimitRequest
  cors: Cors
  checkHost: CheckHost
  /** Decides which requests the audit log records. */
  audit: AuditTrail
}

/** A request and the findings of its admission. */
export interface Arrival {
  request: Request
  requestId: string
  target: ReturnType<typeof targetOf>
  route: Route | null
  sender: Sender
  /** Null before authentication, and for a client that is refused. */
  identity: Identity | null
  /** The state of the client's bucket, if requests are limited. */
  allowance: Allowance | null
  /** Whether the queue of the audit log has a reserved slot for this request. */
  hasSlot: boolean
}

/**
 * Returns the route to perform, or the response to a preflight, and fills in the arrival. Throws AppError for a refusal.
 * Credentials are checked before routes: an unknown address is 401 before it is 404.
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
  arrival.hasSlot = await deps.audit.reserve(request.method, target.path)
  if (identity?.kind === 'user') await deps.admitUser?.(identity)

  if (route === null) throw noRoute(deps.routes, arrival)
  if (deps.cors.isForgery(request))
    throw forbidden('Origin: a page of another site sent this write: add its origin to CORS_ORIGINS')
  checkEncoding(target)
  if (identity !== null && deps.authorize !== null && !(await deps.authorize(identity, route)))
    throw forbidden('refused by the authentication plugin: ask the operator for access')
  return route
}

/** Open routes are listed. All other addresses need a credential, even those that do not exist. */
const needsIdentity = (route: Route | null) => route === null || route.access === 'identity'

function noRoute(routes: RouteTable, { request, target }: Arrival): AppError {
  const methods = routes.methods(target.path)
  return methods.length > 0
    ? methodNotAllowed(request.method, methods)
    : routeNotFound(hintFor(target.path, routes))
}

const API = '/api/v1'
/** Prefixes that callers write instead of `/api/v1`. */
const SHORTENED = /^(?:\/api\/v1|\/api|\/v1)?(?=\/)/

/**
 * The address that the caller of an unknown address probably meant: without trailing slashes, or with the prefix `/api/v1`.
 * Null: no route has that address either.
 */
export function hintFor(path: string, routes: Pick<RouteTable, 'methods'>): string | null {
  let end = path.length
  while (path[end - 1] === '/') end--
  const bare = path.slice(0, end)
  for (const candidate of [bare, bare.replace(SHORTENED, API)])
    if (candidate !== '' && candidate !== path && routes.methods(candidate).length > 0) return candidate
  return null
}
