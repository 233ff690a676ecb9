// Security headers of every response.

const COMMON_HEADERS = Object.entries({
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'cache-control': 'no-store',
  // A listed origin may read the response, which then names that origin.
  vary: 'Origin',
})

/** Sets the security headers that the route did not set itself. */
export function setCommonHeaders(headers: Headers): void {
  for (const [name, value] of COMMON_HEADERS) {
    if (!headers.has(name)) headers.set(name, value)
  }
}
