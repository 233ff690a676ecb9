// Attack class: resource exhaustion. Specification: Limits, rate limiting.
import { expect } from '@playwright/test'
import { test } from '../kit/own-service.ts'

const KEY = 'e2e-key-0123456789'
test.use({
  serviceEnv: {
    PLATFORM_API_KEY: KEY,
    RATE_LIMIT: '1',
    RATE_BURST: '20',
    RUNNER_URLS: 'none',
    QUERY_URLS: 'none',
  },
})

const keyed = { 'x-api-key': KEY }

test('a client over its rate limit gets 429 with Retry-After @limit.rate', async ({ request }) => {
  // All at once: a slow machine would send sequential requests so slowly that the limit is never reached.
  const responses = await Promise.all(
    Array.from({ length: 80 }, () => request.get('/api/v1/namespaces', { headers: keyed })),
  )
  for (const response of responses) {
    const { 'ratelimit-limit': limit, 'ratelimit-remaining': left, 'retry-after': after } = response.headers()
    expect([200, 429]).toContain(response.status())
    expect(limit).toBe('20')
    expect(Number(left)).toBeGreaterThanOrEqual(0)
    expect(after !== undefined).toBe(response.status() === 429)
    if (response.status() !== 429) continue
    expect(Number(after)).toBeGreaterThanOrEqual(1)
    expect((await response.json()).error).toMatchObject({ code: 'RATE_LIMITED', type: 'RATE_LIMIT' })
  }
  expect(responses.filter((one) => one.status() === 200).length).toBeGreaterThanOrEqual(20)
  expect(responses.some((one) => one.status() === 429)).toBe(true)
  for (const path of ['/health', '/metrics']) expect((await request.get(path)).status()).toBe(200)
})

test('every answer, including refusals and pages, has the security headers', async ({ request }) => {
  const requests: [string, object][] = [
    ['/health', {}],
    ['/metrics', {}],
    ['/nope', {}],
    ['/api/v1/namespaces', {}],
    ['/api/v1/namespaces', { headers: { 'x-api-key': 'wrong' } }],
    ['/api/v1/webhooks', { method: 'POST' }],
    ['/catalog/v1/config', {}],
    ['/lake/objects/x', {}],
    ['/swagger', {}],
    ['/swagger/page.js', {}],
    ['/swagger/nope.js', {}],
    ['/swagger/', { maxRedirects: 0 }],
    ['/inspector', { maxRedirects: 0 }],
    ['/console', {}],
    ['/inspector/nope.js', {}],
  ]
  for (const [path, options] of requests) {
    const headers = (await request.fetch(path, options)).headers()
    expect([path, headers['x-content-type-options'], headers['x-frame-options']]).toEqual([
      path,
      'nosniff',
      'DENY',
    ])
    expect(headers['referrer-policy']).toBe('no-referrer')
    const policy = headers['content-security-policy'] ?? ''
    expect([path, policy]).toEqual([path, expect.stringContaining("frame-ancestors 'none'")])
    expect(policy).toMatch(/default-src '(none|self)'/)
    expect(policy).not.toMatch(/unsafe-inline|unsafe-eval|\*/)
    expect(headers['x-powered-by'] ?? headers.server).toBeUndefined()
  }
})
