// Browsers of other origins: who may read answers, and what they may send. Credentials are headers, never cookies.

const REQUEST_HEADERS = [
  'Content-Type',
  'X-Api-Key',
  'Authorization',
  'X-Webhook-Token',
  'X-Request-ID',
  'Idempotency-Key',
  'Last-Event-ID',
].join(', ')
const RESPONSE_HEADERS =
  'X-Request-ID, Link, Location, ETag, Allow, RateLimit-Limit, RateLimit-Remaining, Retry-After'
const PREFLIGHT_SECONDS = '600'

export type Cors = (request: Request, response: Headers) => void

/** `origins` are exact, or the one entry `*`. An origin that is not listed gets no header, and its browser refuses. */
export function makeCors(origins: readonly string[]): Cors {
  const listed = new Set(origins)
  return (request, headers) => {
    headers.append('vary', 'Origin')
    const origin = request.headers.get('origin')
    if (origin === null || !(listed.has(origin) || listed.has('*'))) return
    headers.set('access-control-allow-origin', origin)
    headers.set('access-control-expose-headers', RESPONSE_HEADERS)
    if (request.method !== 'OPTIONS') return
    headers.set('access-control-allow-methods', headers.get('allow') ?? '')
    headers.set('access-control-allow-headers', REQUEST_HEADERS)
    headers.set('access-control-max-age', PREFLIGHT_SECONDS)
  }
}
