import type { RunId } from './ids.ts'

// Services throw these errors; only app/http maps them to HTTP. The status determines `type`, the constructor `code`.

export const TYPE_OF = {
  400: 'VALIDATION',
  401: 'AUTHENTICATION',
  403: 'AUTHORIZATION',
  404: 'NOT_FOUND',
  405: 'VALIDATION',
  409: 'CONFLICT',
  412: 'CONFLICT',
  413: 'VALIDATION',
  421: 'VALIDATION',
  422: 'VALIDATION',
  429: 'RATE_LIMIT',
  499: 'UNAVAILABLE',
  500: 'INTERNAL',
  501: 'UNAVAILABLE',
  503: 'UNAVAILABLE',
  507: 'UNAVAILABLE',
} as const

export type ErrorStatus = keyof typeof TYPE_OF
/** Statuses that depend on a route. 421 is decided before routing, and no client receives 499. */
export type RouteStatus = Exclude<ErrorStatus, 421 | 499>
export const ERROR_CODES = [
  'INVALID_ARGUMENT',
  'NOT_FOUND',
  'ALREADY_EXISTS',
  'FAILED_PRECONDITION',
  'INTERNAL',
  'UNAVAILABLE',
  'AUTHENTICATION',
  'AUTHORIZATION',
  'RATE_LIMITED',
] as const
export type ErrorCode = (typeof ERROR_CODES)[number]

export class AppError extends Error {
  constructor(
    readonly status: ErrorStatus,
    readonly code: ErrorCode,
    message: string,
    options?: ErrorOptions & { headers?: Record<string, string>; body?: Record<string, unknown> },
  ) {
    super(message, options)
    this.headers = options?.headers ?? {}
    this.body = options?.body ?? {}
  }
  readonly headers: Record<string, string>
  /** Fields of the response beside `error`. */
  readonly body: Record<string, unknown>
}

/** The message starts with `field`, so that a client sees the invalid field first. */
export const invalid = (field: string, why: string) =>
  new AppError(400, 'INVALID_ARGUMENT', `${field}: ${why}`)
export const notFound = (what: string) => new AppError(404, 'NOT_FOUND', `${what} not found`)
/** `hint` is the address of the route that the caller probably meant. */
export const routeNotFound = (hint: string | null) =>
  new AppError(404, 'NOT_FOUND', hint === null ? 'route not found' : `route not found: did you mean ${hint}?`)
export const alreadyExists = (what: string) => new AppError(409, 'ALREADY_EXISTS', `${what} already exists`)
/** The state does not allow the operation now. `body` has the fields beside `error`. */
export const failedPrecondition = (why: string, body?: Record<string, unknown>) =>
  new AppError(409, 'FAILED_PRECONDITION', why, { body })
export const alreadyEnded = (id: RunId) => new AppError(409, 'ALREADY_EXISTS', `run ${id} has already ended`)
/** `allowed`: the methods of the path. */
export const methodNotAllowed = (method: string, allowed: readonly string[]) =>
  new AppError(405, 'INVALID_ARGUMENT', `method ${method} is not allowed: use ${allowed.join(', ')}`, {
    headers: { allow: allowed.join(', ') },
  })
export const forbidden = (why: string) => new AppError(403, 'AUTHORIZATION', why)
/** `challenge` names the accepted credentials (RFC 9110, WWW-Authenticate). */
export const unauthenticated = (why: string, challenge: string) =>
  new AppError(401, 'AUTHENTICATION', why, { headers: { 'www-authenticate': challenge } })
export const tooLarge = (message = 'file too large (max 32MB)') =>
  new AppError(413, 'INVALID_ARGUMENT', message)
/** The client closed the connection before its answer. No client reads this error; the log and the metrics show its status. */
export const clientGone = (cause?: unknown) =>
  new AppError(499, 'UNAVAILABLE', 'client closed the connection before the answer', { cause })
/** Clients may retry after this time when a dependency is unavailable. */
export const RETRY_AFTER_SECONDS = 5
/** 503 for work that may succeed later without a change of the request. */
export const retryLater = (message: string, cause?: unknown) =>
  new AppError(503, 'UNAVAILABLE', message, {
    cause,
    headers: { 'retry-after': String(RETRY_AFTER_SECONDS) },
  })
export const unavailable = (what: string, cause?: unknown) =>
  new AppError(503, 'UNAVAILABLE', `${what} is not available`, { cause })
/** The disk lacks space for the request. `why` contains the free space when it is known. */
export const diskFull = (why: string, cause?: unknown) =>
  new AppError(
    507,
    'UNAVAILABLE',
    `not enough disk space: ${why}; free some space and send the request again`,
    {
      cause,
    },
  )
export const notConfigured = (what: string) => new AppError(500, 'INTERNAL', `${what} is not configured`)
