import { describe, expect, test } from 'bun:test'
import { Elysia } from 'elysia'
import { makeApiKeys } from '../auth/api-keys.ts'
import { requestTo, testApp } from '../composition/test-app.ts'
import { ANONYMOUS } from '../core/identity.ts'
import { makeAuthenticate } from '../http/auth.ts'
import { makeBuckets, makeFailures, makeLimitRequest, networkOf } from './rate-limit.ts'
import type { Route } from './route-table.ts'

function clockAt() {
  const clock = { ms: 0, now: () => new Date(), elapsed: () => clock.ms }
  return clock
}

test('S3 requests count in a bucket of their own, twenty times as large', () => {
  const limitRequest = makeLimitRequest({ perSecond: 1, burst: 1 }, clockAt())
  const ask = (pattern: string) =>
    limitRequest({ method: 'GET', pattern } as Route, ANONYMOUS, () => '127.0.0.1')?.retryAfterSeconds === 0
  expect([ask('/api/v1/runs'), ask('/api/v1/runs')]).toEqual([true, false])
  const files = Array.from({ length: 21 }, () => ask('/s3/:bucket/*'))
  expect(files.filter(Boolean)).toHaveLength(20)
})

describe('buckets', () => {
  test('a bucket grants its burst, then its refill', () => {
    const clock = clockAt()
    const buckets = makeBuckets({ perSecond: 2, burst: 3 }, { clock })
    const consume = () => buckets.consume('a')
    expect([consume(), consume(), consume()].map(({ remaining }) => remaining)).toEqual([2, 1, 0])
    expect(consume()).toEqual({ limit: 3, remaining: 0, retryAfterSeconds: 1 })
    clock.ms = 499
    expect(consume().retryAfterSeconds).toBe(1)
    clock.ms = 500
    expect(consume().retryAfterSeconds).toBe(0)
    expect(consume().retryAfterSeconds).toBe(1)
    clock.ms = 1_000_000
    expect([consume(), consume(), consume(), consume()].map((one) => one.retryAfterSeconds > 0)).toEqual([
      false,
      false,
      false,
      true,
    ])
  })
  test('each client has its own bucket, and look takes no token', () => {
    const buckets = makeBuckets({ perSecond: 1, burst: 1 }, { clock: clockAt() })
    expect(buckets.look('a').retryAfterSeconds).toBe(0)
    expect(buckets.consume('a').retryAfterSeconds).toBe(0)
    expect(buckets.look('a').retryAfterSeconds).toBe(1)
    expect(buckets.consume('b').retryAfterSeconds).toBe(0)
  })
  test('a slow bucket reports a wait of many seconds', () => {
    const buckets = makeBuckets({ perSecond: 0.1, burst: 1 }, { clock: clockAt() })
    buckets.consume('a')
    expect(buckets.consume('a').retryAfterSeconds).toBe(10)
  })
  test('the least recently used bucket is evicted', () => {
    const buckets = makeBuckets({ perSecond: 1, burst: 1 }, { clock: clockAt(), kept: 2 })
    for (const client of ['a', 'b', 'a', 'c']) buckets.consume(client)
    expect([buckets.look('a'), buckets.look('b')].map((one) => one.retryAfterSeconds)).toEqual([1, 0])
  })
})

test('addresses of one IPv6 network are one client', () => {
  for (const [address, network] of Object.entries({
    '203.0.113.7': '203.0.113.7',
    '2001:db8:1:2:3:4:5:6': '2001:db8:1:2',
    '2001:db8::1': '2001:db8:0:0',
    '2001:db8:0:0:9::': '2001:db8:0:0',
    '::1': '0:0:0:0',
    '::': '0:0:0:0',
    '': '',
  }))
    expect([address, networkOf(address)]).toEqual([address, network])
})

describe('request limits', () => {
  const things = new Elysia({ prefix: '/things' }).get('', () => ({}))
  const query = new Elysia({ prefix: '/query' }).post('', () => ({}))
  const webhooks = new Elysia({ prefix: '/webhooks' }).post('', () => ({}))
  const appOf = (config: Parameters<typeof testApp>[0]['config'], clock = clockAt()) =>
    testApp({ api: [things, query], ownCredential: [webhooks], config, clock })
  const limitHeadersOf = (response: Response) => [
    response.status,
    ...['ratelimit-limit', 'ratelimit-remaining', 'retry-after'].map((name) => response.headers.get(name)),
  ]

  test('responses without a limit have no rate limit headers', async () => {
    expect(limitHeadersOf(await requestTo(appOf({}), 'GET', '/api/v1/things'))).toEqual([
      200,
      null,
      null,
      null,
    ])
  })

  test('answers 429 with Retry-After beyond the limit, and reports the remainder', async () => {
    const clock = clockAt()
    const app = appOf({ rateLimit: { perSecond: 1, burst: 2 } }, clock)
    expect(limitHeadersOf(await requestTo(app, 'GET', '/api/v1/things'))).toEqual([200, '2', '1', null])
    expect(limitHeadersOf(await requestTo(app, 'GET', '/api/v1/nope'))).toEqual([404, '2', '0', null])
    const refused = await requestTo(app, 'GET', '/api/v1/things')
    expect(limitHeadersOf(refused)).toEqual([429, '2', '0', '1'])
    expect(await refused.json()).toEqual({
      error: { code: 'RATE_LIMITED', type: 'RATE_LIMIT', message: 'too many requests' },
    })
    clock.ms += 1_000
    expect(limitHeadersOf(await requestTo(app, 'GET', '/api/v1/things'))).toEqual([200, '2', '0', null])
  })

  test('probes, pages, preflights and webhooks are not counted', async () => {
    const app = appOf({ rateLimit: { perSecond: 0.001, burst: 1 } })
    await requestTo(app, 'GET', '/api/v1/things')
    const preflight = { origin: 'http://localhost:3000', 'access-control-request-method': 'GET' }
    expect((await requestTo(app, 'OPTIONS', '/api/v1/things', undefined, preflight)).status).toBe(204)
    for (const path of ['/health', '/metrics', '/swagger'])
      expect(limitHeadersOf(await requestTo(app, 'GET', path))).toEqual([200, null, null, null])
    expect(limitHeadersOf(await requestTo(app, 'POST', '/api/v1/webhooks'))[0]).toBe(200)
    expect(limitHeadersOf(await requestTo(app, 'GET', '/api/v1/things'))[0]).toBe(429)
  })

  test('requests that occupy an engine have a fifth of the limit', async () => {
    const app = appOf({ rateLimit: { perSecond: 0.001, burst: 10 } })
    const ask = async () => limitHeadersOf(await requestTo(app, 'POST', '/api/v1/query'))
    expect([await ask(), await ask(), (await ask())[0]]).toEqual([
      [200, '2', '1', null],
      [200, '2', '0', null],
      429,
    ])
    expect(limitHeadersOf(await requestTo(app, 'GET', '/api/v1/things'))).toEqual([200, '10', '6', null])
  })

  test('requests are counted per address or per key', async () => {
    const from = async (app: ReturnType<typeof appOf>, address: string, key?: string) => {
      const headers: Record<string, string> = key ? { 'x-api-key': key } : {}
      return (await app.fetch(new Request('http://x.test/api/v1/things', { headers }), { address })).status
    }
    const rateLimit = { perSecond: 0.001, burst: 1 }
    const open = appOf({ rateLimit })
    expect([await from(open, '203.0.113.7'), await from(open, '203.0.113.7')]).toEqual([200, 429])
    expect([await from(open, '203.0.113.8'), await from(open, '2001:db8::1')]).toEqual([200, 200])
    expect(await from(open, '2001:db8::2')).toBe(429)
    const keyed = appOf({
      rateLimit,
      apiKeys: [
        { name: 'a', key: 'key-a' },
        { name: 'b', key: 'key-b' },
      ],
    })
    expect([await from(keyed, '1.1.1.1', 'key-a'), await from(keyed, '1.1.1.2', 'key-a')]).toEqual([200, 429])
    expect(await from(keyed, '1.1.1.1', 'key-b')).toBe(200)
  })
})

describe('wrong keys', () => {
  /** Too long to be guessed. */
  const LONG = 'key-of-16-letters'
  const PROXY = '127.0.0.1'
  const guard = () => {
    const clock = clockAt()
    const authenticate = makeAuthenticate({
      apiKeys: makeApiKeys([
        { name: 'a', key: 'key-a' },
        { name: 'b', key: 'key-b' },
        { name: 'long', key: LONG },
      ]),
      tokens: null,
      failures: makeFailures({ authFailures: 3 }, clock),
    })
    const statusOf = async (key: string | null, address = '203.0.113.7', peer = address) => {
      const request = new Request('http://x.test', { headers: key === null ? {} : { 'x-api-key': key } })
      const answer = await authenticate(request, { address, peer })
      return 'kind' in answer ? answer.name : answer.status
    }
    return { clock, statusOf }
  }

  test('too many wrong keys block their own address and no other', async () => {
    const { statusOf, clock } = guard()
    for (const answer of [401, 401, 401, 429, 429]) expect<unknown>(await statusOf('wrong')).toBe(answer)
    expect(await statusOf('wrong', '203.0.113.8')).toBe(401)
    clock.ms += 20_000
    expect([await statusOf('wrong'), await statusOf('wrong')]).toEqual([401, 429])
  })

  test('a blocked address may use only keys that were used before', async () => {
    const { statusOf, clock } = guard()
    expect(await statusOf('key-a', '198.51.100.1')).toBe('a')
    for (let n = 0; n < 5; n++) await statusOf('wrong')
    expect([await statusOf('key-a'), await statusOf('key-b'), await statusOf('wrong')]).toEqual([
      'a',
      429,
      429,
    ])
    expect(await statusOf('key-b', '203.0.113.8')).toBe('b')
    expect(await statusOf('key-b')).toBe('b')
    clock.ms += 60_000
    expect(await statusOf('wrong')).toBe(401)
  })

  test('wrong keys also count for the proxy that forwards them', async () => {
    const { statusOf } = guard()
    const answers: unknown[] = []
    for (let n = 0; n < 8; n++) answers.push(await statusOf('wrong', `203.0.113.${n}`, PROXY))
    expect(answers).toEqual([401, 401, 401, 401, 401, 401, 429, 429])
    expect(await statusOf('wrong', '198.51.100.1')).toBe(401)
  })

  test('wrong keys of one client do not exhaust the limit of its proxy', async () => {
    const { statusOf } = guard()
    for (let n = 0; n < 50; n++) await statusOf('wrong', '203.0.113.7', PROXY)
    expect(await statusOf('wrong', '203.0.113.8', PROXY)).toBe(401)
  })

  test('a blocked proxy still forwards known keys and long keys', async () => {
    const { statusOf } = guard()
    expect(await statusOf('key-a', '198.51.100.1')).toBe('a')
    for (let n = 0; n < 8; n++) await statusOf('wrong', `203.0.113.${n}`, PROXY)
    expect(await statusOf(LONG, '203.0.113.100', PROXY)).toBe('long')
    expect(await statusOf('key-a', '203.0.113.100', PROXY)).toBe('a')
    expect(await statusOf('key-b', '203.0.113.100', PROXY)).toBe(429)
  })

  test('missing keys do not count as wrong keys', async () => {
    const { statusOf } = guard()
    for (let n = 0; n < 10; n++) expect(await statusOf(null)).toBe(401)
    expect(await statusOf('key-a')).toBe('a')
  })
})
