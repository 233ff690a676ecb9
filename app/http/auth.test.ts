import { describe, expect, test } from 'bun:test'
import { Elysia } from 'elysia'
import { requestTo, testApp } from '../composition/test-app.ts'
import { exchangeOf } from './exchange.ts'

const things = new Elysia({ prefix: '/things' })
  .get('', ({ request }) => exchangeOf(request).identity)
  .get('/:id', ({ params }) => params)
  .post('', () => ({}))
const catalog = new Elysia({ prefix: '/catalog' }).get('/v1/config', () => ({}))
const webhooks = new Elysia({ prefix: '/webhooks' }).post('', () => ({}))
const parts = { api: [things], ownCredential: [webhooks], internal: [catalog] }

const KEY = 'correct horse battery staple'
const locked = testApp({ ...parts, config: { apiKey: KEY } })
const open = testApp(parts)

const status = async (method: string, path: string, headers?: Record<string, string>) =>
  (await requestTo(locked, method, path, undefined, headers)).status

describe('without a key configured', () => {
  test('the API is open and callers are anonymous without a key', async () => {
    const response = await requestTo(open, 'GET', '/api/v1/things')
    expect(await response.json()).toEqual({ kind: 'anonymous', userId: '', name: '', roles: [] })
  })
})

describe('with a key configured', () => {
  test('the configured key opens the API', async () => {
    const response = await requestTo(locked, 'GET', '/api/v1/things', undefined, { 'x-api-key': KEY })
    expect(await response.json()).toEqual({ kind: 'api-key', userId: '', name: 'default', roles: [] })
  })

  test('a missing, wrong, partial or repeated key is 401 in the envelope', async () => {
    for (const key of [
      undefined,
      '',
      'wrong',
      KEY.slice(0, -1),
      `${KEY}x`,
      `${KEY}, ${KEY}`,
      'x'.repeat(10_000),
    ]) {
      const response = await requestTo(
        locked,
        'GET',
        '/api/v1/things',
        undefined,
        key === undefined ? {} : { 'x-api-key': key },
      )
      expect(response.status).toBe(401)
      expect(response.headers.get('www-authenticate')).toBe('ApiKey realm="sluice"')
      const { error } = (await response.json()) as { error: object }
      expect(error).toMatchObject({ code: 'AUTHENTICATION', type: 'AUTHENTICATION' })
    }
    expect(await status('GET', '/api/v1/things', { authorization: `Bearer ${KEY}` })).toBe(401)
    expect(await status('GET', `/api/v1/things?x-api-key=${encodeURIComponent(KEY)}`)).toBe(401)
  })

  test('every address under the prefix requires a key, existing or not', async () => {
    for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'PURGE'])
      for (const path of [
        '/api/v1/things',
        '/api/v1/things/1',
        '/api/v1/features',
        '/api/v1/nope',
        '/api/v1',
      ])
        expect([method, path, await status(method, path)]).toEqual([method, path, 401])
  })

  test('a one-letter host does not bypass authentication', async () => {
    for (const address of [
      'http://a/api/v1/things',
      'http://a/x/api/v1/things',
      'http://a/health/api/v1/things',
    ])
      expect([address, (await locked.fetch(new Request(address))).status]).toEqual([address, 401])
  })

  test('webhooks and the catalog check their own credential', async () => {
    expect(await status('GET', '/catalog/v1/config')).toBe(200)
    expect(await status('POST', '/api/v1/webhooks')).toBe(200)
    expect(await status('GET', '/api/v1/webhooks')).toBe(401)
  })
})

test('the Pro edition does not start without a method of authentication', () => {
  expect(() => testApp({ ...parts, config: { edition: 'pro' } })).toThrow(/requires API keys/)
})
