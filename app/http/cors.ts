// Browsers of other origins: who may read answers, and what they may send. Credentials are headers, never cookies.

const REQUEST_HEADERS = [
  'Content-Type',
  'X-Api-Key',
  'Authorization',
  'X-Webhook-Token',
  'X-Request-ID',
  'Traceparent',
  'Tracestate',
  'Idempotency-Key',
  'If-Match',
  'If-None-Match',
  'Last-Event-ID',
].join(', ')
const RESPONSE_HEADERS =
  'X-Request-ID, Link, Location, ETag, Allow, RateLimit-Limit, RateLimit-Remaining, Retry-After'
const PREFLIGHT_SECONDS = '600'

export interface Cors {
  /** Adds what lets a listed origin read the answer. One that is not listed gets nothing, and its browser refuses. */
  allow(request: Request, headers: Headers): void
  /** A write that a page of another site makes its reader's browser send. An open service on loopback must not obey it. */
  isForgery(request: Request): boolean
}

const SAFE = new Set(['GET', 'HEAD', 'OPTIONS'])

/** `origins` are exact, or the one entry `*`. */
export function makeCors(origins: readonly string[]): Cors {
  const listed = new Set(origins)
  const isListed = (origin: string | null): origin is string =>
    origin !== null && (listed.has(origin) || listed.has('*'))
  return { allow, isForgery }

  function isForgery({ method, headers }: Request) {
    // Forms and empty bodies need no preflight. Every browser says where such a request comes from; other clients do not.
    return (
      !SAFE.has(method) && headers.get('sec-fetch-site') === 'cross-site' && !isListed(headers.get('origin'))
    )
  }

  function allow(request: Request, headers: Headers) {
    const origin = request.headers.get('origin')
    if (!isListed(origin)) return
    headers.set('access-control-allow-origin', origin)
    headers.set('access-control-expose-headers', RESPONSE_HEADERS)
    if (request.method !== 'OPTIONS') return
    headers.set('access-control-allow-methods', headers.get('allow') ?? '')
    headers.set('access-control-allow-headers', REQUEST_HEADERS)
    headers.set('access-control-max-age', PREFLIGHT_SECONDS)
  }
}
