// Rules for browsers of other origins: which of them may read responses, and what they may send. Credentials are headers, never
// cookies.

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
  /** Adds the headers that let a listed origin read the response. Without them, the browser of any other origin refuses. */
  allow(request: Request, headers: Headers): void
  /**
   * Whether a page of another site caused this write. Browsers send forms and simple content types without a preflight. Native
   * clients, sidecars and webhook senders have no `Origin` and pass.
   */
  isForgery(request: Request): boolean
}

const SAFE = new Set(['GET', 'HEAD', 'OPTIONS'])

interface CorsSettings {
  /** Exact origins, or the single entry `*`. */
  origins: readonly string[]
  /** The origin of this address is also an origin of the service, because a proxy may change `Host`. */
  publicUrl: string | null
  /** No request needs a credential, so a page of any site could write. Otherwise that page would need a credential. */
  isOpen: boolean
}

/** Our own origins are `publicUrl` and the host that the request names. `checkHost` decides which host names are accepted. */
export function makeCors({ origins, publicUrl, isOpen }: CorsSettings): Cors {
  const listed = new Set(origins)
  const publicOrigin = publicUrl === null ? null : new URL(publicUrl).origin
  const isListed = (origin: string | null): origin is string =>
    origin !== null && (listed.has(origin) || listed.has('*'))
  return { allow, isForgery }

  function isForgery(request: Request) {
    const { method, headers } = request
    const origin = headers.get('origin')
    if (SAFE.has(method) || isListed(origin)) return false
    const site = headers.get('sec-fetch-site')
    if (site === 'cross-site') return true
    // Browsers compare scheme, host and port as they know them, also behind a proxy that adds TLS.
    if (site === 'same-origin') return false
    return isOpen && origin !== null && origin !== publicOrigin && !isOwn(origin, request)
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

/**
 * Whether an origin has the scheme and the host of a request. A proxy that adds TLS names the scheme in `X-Forwarded-Proto`. No page
 * of another site can send that header without a preflight.
 */
function isOwn(origin: string, { url, headers }: Request) {
  const scheme = headers.get('x-forwarded-proto')?.split(',')[0]?.trim() ?? new URL(url).protocol.slice(0, -1)
  const own = `${scheme}://${headers.get('host') ?? ''}`
  return URL.canParse(own) && URL.canParse(origin) && new URL(own).origin === new URL(origin).origin
}
