// Tests the auth plugin through the whole application and a real server. The tests cover which users it admits, how long its
// answers are cached, and where its tokens appear.
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { Elysia } from 'elysia'
import { recordingLog, requestTo, testApp } from '../composition/test-app.ts'
import type { Clock } from '../core/clock.ts'
import { limits } from '../core/limits.ts'
import { makeMetrics } from '../core/metrics.ts'
import { exchangeOf } from '../http/exchange.ts'
import { CACHE_SECONDS_MAX, makeAuthPlugin } from './auth.ts'
import { channelTo, PLUGIN_TOKEN, says, startTestPlugin, type TestPlugin } from './testing.ts'

const ALLOWED = { decision: 'DECISION_ALLOWED' }
const DENIED = { decision: 'DECISION_DENIED' }
const ANN = { ...ALLOWED, user: { id: 'ann', name: 'Ann', roles: ['author'] } }

let plugin: TestPlugin
/** The current answers of the plugin. */
let authenticate: object
let authorize: object
beforeAll(async () => {
  plugin = await startTestPlugin((response, asked) =>
    says(asked.method === 'AuthService/Authenticate' ? authenticate : authorize)(response, asked),
  )
})
afterAll(() => plugin.stop())
beforeEach(() => {
  plugin.asked.length = 0
  authenticate = ANN
  authorize = ALLOWED
})
const askedFor = (method: string) =>
  plugin.asked.filter((question) => question.method === `AuthService/${method}`)

/** The application behind the plugin; only `pass` advances its clock. */
function appBehind(settings: { url?: string; admins?: string[]; authFailures?: number } = {}) {
  const { url = plugin.url, admins = [], authFailures = null } = settings
  let elapsedMs = 0
  const clock: Clock = { now: () => new Date('2026-01-01T00:00:00Z'), elapsed: () => elapsedMs }
  const { log, entries: logged } = recordingLog()
  const metrics = makeMetrics()
  const audited: string[] = []
  const channel = channelTo(url, 'auth', { log, observe: metrics.rpcEnded, timeoutMs: 30_000 })
  const auth = makeAuthPlugin({ channel, clock, admins })
  const app = testApp({
    clock,
    log,
    metrics,
    audit: {
      reserve: () => true,
      record: ({ identity, path, method }) =>
        void audited.push(JSON.stringify({ userId: identity?.userId ?? '', path, method })),
    },
    config: { apiKey: 'a-key-of-a-machine', authFailures },
    plugins: { auth, describe: async () => ({}) },
    api: [
      new Elysia()
        .get('/me/:id', ({ request }) => ({ ...exchangeOf(request).identity }))
        .post('/me/:id', () => ({})),
    ],
  })
  return {
    authorized: auth.authorize,
    logged,
    audited,
    metrics,
    advance: (seconds: number) => {
      elapsedMs += seconds * 1_000
    },
    call: (token: string, method = 'GET', path = '/api/v1/me/7') =>
      requestTo(app, method, path, undefined, { authorization: `Bearer ${token}` }),
    withKey: (key: string) => requestTo(app, 'GET', '/api/v1/me/7', undefined, { 'x-api-key': key }),
  }
}

test("admits a user with the plugin's roles, and authenticates to the plugin", async () => {
  const { call } = appBehind()
  const response = await call('opaque.token~of+ann/1=')
  expect([response.status, await response.json()]).toEqual([
    200,
    { kind: 'user', userId: 'ann', name: 'Ann', roles: ['author'] },
  ])
  const [first, second] = plugin.asked
  expect(JSON.parse(first?.body ?? '')).toEqual({ token: 'opaque.token~of+ann/1=' })
  expect(JSON.parse(second?.body ?? '')).toEqual({
    user: { id: 'ann', name: 'Ann', roles: ['author'] },
    method: 'GET',
    route: '/api/v1/me/{id}',
  })
  for (const { headers } of plugin.asked) expect(headers.authorization).toBe(`Bearer ${PLUGIN_TOKEN}`)
})

test('limits names and roles, and adds administrators of the operator', async () => {
  authenticate = {
    ...ALLOWED,
    user: { id: 'ann', name: 'a\nb', roles: ['', 'x\u0000', ...Array(200).fill('r')] },
  }
  const { call } = appBehind({ admins: ['ann'] })
  const { name, roles } = await (await call('t')).json()
  expect([name, roles.length, roles.includes('admin')]).toEqual(['ann', limits.rolesMax - 2 + 1, true])
})

test('caches an answer only as long as the plugin allows', async () => {
  const { call, advance } = appBehind()
  await call('t')
  await call('t')
  expect(askedFor('Authenticate')).toHaveLength(2)
  authenticate = { ...ANN, cacheSeconds: 10 }
  await call('t')
  advance(9.9)
  await call('t')
  expect(askedFor('Authenticate')).toHaveLength(3)
  await call('another')
  expect(askedFor('Authenticate')).toHaveLength(4)
  authenticate = DENIED
  expect((await call('t')).status).toBe(200)
  advance(0.2)
  expect((await call('t')).status).toBe(401)
})

test('caches no answer for more than a minute', async () => {
  for (const cacheSeconds of [61, 86_400, 2_147_483_647, -5]) {
    authenticate = { ...ANN, cacheSeconds }
    const { call, advance } = appBehind()
    await call('t')
    advance(cacheSeconds < 0 ? 0 : CACHE_SECONDS_MAX)
    authenticate = DENIED
    expect([cacheSeconds, (await call('t')).status]).toEqual([cacheSeconds, 401])
  }
})

test('does not cache a denial', async () => {
  authenticate = { ...DENIED, cacheSeconds: 60 }
  const { call } = appBehind()
  const response = await call('t')
  expect([response.status, response.headers.get('www-authenticate')]).toEqual([
    401,
    expect.stringContaining('error="invalid_token"'),
  ])
  expect(await response.json()).toMatchObject({ error: { type: 'AUTHENTICATION' } })
  authenticate = ANN
  expect((await call('t')).status).toBe(200)
})

test('a denied route is 403, and an allowed route is cached', async () => {
  authenticate = { ...ANN, cacheSeconds: 30 }
  authorize = DENIED
  const { call, advance } = appBehind()
  const denied = await call('t', 'POST')
  expect([denied.status, await denied.json()]).toMatchObject([403, { error: { type: 'AUTHORIZATION' } }])
  authorize = { ...ALLOWED, cacheSeconds: 60 }
  expect((await call('t', 'POST')).status).toBe(200)
  authorize = DENIED
  expect((await call('t', 'POST')).status).toBe(200)
  expect((await call('t', 'GET')).status).toBe(403)
  expect((await call('t', 'HEAD')).status).toBe(403)
  advance(30)
  expect((await call('t', 'POST')).status).toBe(403)
})

test('an allowed route of S3 credentials is cached as the plugin says', async () => {
  authorize = { ...ALLOWED, cacheSeconds: 5 }
  const { authorized, advance } = appBehind()
  // Each S3 request has a new identity with its own signature.
  const holder = (userId = 'ann', roles = ['reader']) =>
    ({ kind: 'user', userId, name: userId, roles, grant: {} }) as const
  const read = { method: 'GET', pattern: '/s3/:bucket/*' }
  for (let n = 0; n < 3; n++) expect(await authorized(holder(), read)).toBe(true)
  expect(askedFor('Authorize')).toHaveLength(1)
  authorize = DENIED
  expect(await authorized(holder('bob'), read)).toBe(false)
  expect(await authorized(holder('ann', ['admin']), read)).toBe(false)
  expect(await authorized(holder(), { ...read, method: 'PUT' })).toBe(false)
  expect(await authorized(holder(), read)).toBe(true)
  advance(5)
  expect(await authorized(holder(), read)).toBe(false)
})

test('authorizes neither refused callers nor unknown routes', async () => {
  const { call } = appBehind()
  expect((await call('t', 'GET', '/api/v1/nothing')).status).toBe(404)
  authenticate = DENIED
  expect((await call('t')).status).toBe(401)
  expect(askedFor('Authorize')).toHaveLength(0)
})

test('keys work while the plugin is unreachable, and tokens are 503', async () => {
  const { call, withKey } = appBehind({ url: 'http://127.0.0.1:1' })
  expect((await withKey('a-key-of-a-machine')).status).toBe(200)
  expect((await withKey('another-key')).status).toBe(401)
  const response = await call('t')
  expect([response.status, await response.json()]).toEqual([
    503,
    { error: { code: 'UNAVAILABLE', type: 'UNAVAILABLE', message: 'the auth plugin is not available' } },
  ])
})

test('refuses malformed tokens with 401, without a call to the plugin', async () => {
  const { call } = appBehind()
  for (const token of ['', 'a b', 'a,b', 'ü', 'x'.repeat(limits.accessTokenLength + 1)])
    expect([token.slice(0, 9), (await call(token)).status]).toEqual([token.slice(0, 9), 401])
  expect(plugin.asked).toEqual([])
})

test('stops guesses before a call to the plugin, but admits known tokens', async () => {
  authenticate = { ...ANN, cacheSeconds: 60 }
  const { call } = appBehind({ authFailures: 3 })
  await call('known')
  authenticate = DENIED
  for (const guess of ['1', '2', '3']) expect((await call(guess)).status).toBe(401)
  plugin.asked.length = 0
  authenticate = ANN
  expect((await call('4')).status).toBe(429)
  expect(askedFor('Authenticate')).toEqual([])
  expect((await call('known')).status).toBe(200)
})

test('tokens appear in no log, metric or audit entry', async () => {
  const { call, logged, audited, metrics, advance } = appBehind()
  for (const answer of [ANN, DENIED, {}, { ...DENIED, user: { id: 'canary-token' } }]) {
    authenticate = answer
    await call('canary-token', 'POST')
    advance(60)
  }
  const recorded = [JSON.stringify(logged), ...audited, await metrics.text()].join('\n')
  expect(recorded).toContain('AuthService/Authenticate')
  expect(audited).toHaveLength(4)
  expect(recorded).not.toContain('canary-token')
  expect(recorded).not.toContain(PLUGIN_TOKEN)
})
