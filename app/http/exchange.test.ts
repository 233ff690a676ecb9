import { describe, expect, test } from 'bun:test'
import { Type as t } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { recordingLog, requestTo, testApp } from '../composition/test-app.ts'
import { AppError, notFound, unavailable } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import { makeMetrics } from '../core/metrics.ts'
import { Layer, NamespaceName, nullable } from '../core/names.ts'
import { decodePath } from '../wire/target.ts'
import { JSON_BODY_BYTES } from './body.ts'
import { exchangeOf } from './exchange.ts'

const Thing = t.Object({
  namespace: NamespaceName,
  layer: Layer,
  count: t.Optional(t.Integer({ minimum: 1 })),
  tags: t.Optional(t.Array(t.String())),
  note: t.Optional(nullable(t.String())),
})

const things = new Elysia({ prefix: '/things' })
  .get('', ({ query }) => ({ query }), { query: t.Object({ search: t.Optional(t.String()) }) })
  .post('', ({ body, status }) => status(201, body), { body: Thing, response: { 201: Thing } })
  .get('/:id', ({ params }) => params, { params: t.Object({ id: t.String({ pattern: '^[0-9]+$' }) }) })
  .delete('/:id', ({ status }) => status(204, undefined), { response: { 204: t.Void() } })
  .post('/:id/publish', ({ body }) => ({ message: body?.message ?? 'none' }), {
    body: t.Optional(t.Object({ message: t.Optional(t.String()) })),
  })
  .post('/:id/cancel', ({ params }) => ({ cancelled: params.id }))

const files = new Elysia({ prefix: '/files' })
  .get('/*', ({ params }) => ({ path: decodePath(params['*']) }), {
    response: { 200: t.Object({ path: t.String() }) },
  })
  .put('/*', ({ body }) => ({ size: body.content.length }), {
    body: t.Object({ content: t.String() }),
  })
  .post('/upload', () => ({ uploaded: true }))

const failures = new Elysia({ prefix: '/failures' })
  .get('/known', () => {
    throw notFound('run 1')
  })
  .get('/awaited', async () => {
    await Promise.resolve()
    throw new TypeError('secret /etc/passwd select * from run')
  })
  .get('/connection', () => {
    throw new Error('query failed', {
      cause: Object.assign(new Error('write CONNECTION_CLOSED db:5432'), { code: 'CONNECTION_CLOSED' }),
    })
  })
  .get('/out-of-range', () => {
    throw Object.assign(new Error('integer out of range'), { code: '22003' })
  })
  .get('/unavailable', () => {
    throw unavailable('runner')
  })
  .get('/wrong-answer', () => ({ x: 1 }) as never, { response: { 200: t.Object({ y: t.String() }) } })
  .get('/late', async ({ set }) => {
    set.headers['content-type'] = 'text/event-stream'
    set.status = 201
    throw new AppError(409, 'ALREADY_EXISTS', 'too late')
  })

const catalog = new Elysia({ prefix: '/catalog' })
  .onError(({ error, set }) => {
    set.status = error instanceof AppError ? error.status : 500
    return {
      error: {
        message: error instanceof Error ? error.message : 'unknown',
        type: 'Iceberg',
        code: set.status,
      },
    }
  })
  .get('/v1/config', () => ({ defaults: {} }))
  .get('/v1/absent', () => {
    throw notFound('table')
  })
  .post('/v1/tables', ({ body }) => body, { body: t.Object({ name: t.String() }) })
const objects = new Elysia({ prefix: '/lake/objects' }).put(
  '/*',
  async ({ request }) => ({
    size: (await request.arrayBuffer()).byteLength,
    identity: exchangeOf(request).identity,
  }),
  { parse: 'none' },
)

const app = testApp({ api: [things, files, failures], internal: [catalog, objects] })
const valid = { namespace: 'default', layer: 'gold' }

const call = (method: string, path: string, body?: object, headers?: Record<string, string>) =>
  requestTo(app, method, path, body, headers)
const send = (path: string, body: BodyInit | null, headers: Record<string, string> = {}, method = 'POST') =>
  app.fetch(new Request(`http://sluice.test${path}`, { method, body, headers }))
const json = { 'content-type': 'application/json' }

async function errorOf(response: Response) {
  const body = (await response.json()) as { error: { code: string; type: string; message: string } }
  expect(Object.keys(body)).toEqual(['error'])
  return body.error
}

describe('unknown addresses', () => {
  test('an upload route beside a wildcard keeps the methods of both', async () => {
    expect((await call('PATCH', '/api/v1/files/upload')).headers.get('allow')).toBe(
      'GET, HEAD, OPTIONS, POST, PUT',
    )
    expect(await (await call('GET', '/api/v1/files/upload')).json()).toEqual({ path: 'upload' })
    expect((await call('POST', '/api/v1/files/upload')).status).toBe(200)
  })
  test('an impossible path parameter is 404 and named in the error', async () => {
    const response = await call('GET', '/api/v1/things/abc')
    expect(response.status).toBe(404)
    expect((await errorOf(response)).message).toBe('no such id: must match ^[0-9]+$')
  })
  test('broken percent-encoding and NUL are 400', async () => {
    for (const path of [
      '/api/v1/things/%ff',
      '/api/v1/things/%',
      '/api/v1/files/a%00b',
      '/api/v1/things?search=%00',
      '/api/v1/things?search=%e0%a4',
      '/api/v1/things?%00=1',
    ])
      expect([path, (await call('GET', path)).status]).toEqual([path, 400])
    expect((await errorOf(await call('GET', '/api/v1/things?search=a%00'))).message).toStartWith('search: ')
  })
  test('the path of a file may contain plain or encoded slashes', async () => {
    for (const path of ['a/b%20c/d.sql', 'a%2Fb%20c%2Fd.sql'])
      expect(await (await call('GET', `/api/v1/files/${path}`)).json()).toEqual({ path: 'a/b c/d.sql' })
  })
  test('a host of one letter, or none, does not shift the path', async () => {
    expect((await app.fetch(new Request('http://a/api/v1/things/7'))).status).toBe(200)
    expect((await app.fetch(new Request('http://a/x/api/v1/things/7'))).status).toBe(404)
    const request = new Request('http://sluice.test/ignored')
    Object.defineProperty(request, 'url', { value: '/api/v1/things/7' })
    expect((await app.fetch(request)).status).toBe(200)
  })
})

describe('bodies', () => {
  test('accepts a valid body, also with a charset', async () => {
    expect((await call('POST', '/api/v1/things', valid)).status).toBe(201)
    const response = await send('/api/v1/things', JSON.stringify(valid), {
      'content-type': 'application/json; charset=utf-8',
    })
    expect(response.status).toBe(201)
  })
  test.each([
    [{ layer: 'gold' }, 'namespace: is required'],
    [{ ...valid, namespace: 'A' }, 'namespace: must match ^[a-z][a-z0-9-]{2,62}$ (Lowercase'],
    [{ ...valid, namespace: 7 }, 'namespace: must be a string'],
    [{ ...valid, layer: 'lead' }, 'layer: must be one of bronze, silver, gold'],
    [{ ...valid, count: 0 }, 'count: must be at least 1'],
    [{ ...valid, count: '1' }, 'count: must be an integer'],
    [{ ...valid, count: 1.5 }, 'count: must be an integer'],
    [{ ...valid, tags: ['a', 1] }, 'tags.1: must be a string'],
    [{ ...valid, note: 1 }, 'note: must be string or null'],
  ])('%j is refused: %s', async (body, message) => {
    const response = await call('POST', '/api/v1/things', body)
    expect(response.status).toBe(400)
    const error = await errorOf(response)
    expect(error).toMatchObject({ code: 'INVALID_ARGUMENT', type: 'VALIDATION' })
    expect(error.message).toStartWith(message)
    expect(error.message.length).toBeLessThan(410)
  })
  test.each([
    ['{"namespace"', 'body: is not valid JSON'],
    ['[]', 'body: must be a JSON object'],
    ['null', 'body: must be a JSON object'],
    ['"text"', 'body: must be a JSON object'],
    ['', 'layer: is required'],
    [new Uint8Array([0x7b, 0xff, 0x7d]), 'body: is not valid UTF-8'],
    ['['.repeat(200_000), 'body: is not valid JSON'],
    [`{"note":${'['.repeat(100)}${']'.repeat(100)}}`, 'body: is nested deeper than 100 levels'],
    [`{"note":${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}}`, 'body: is nested deeper than 100 levels'],
    [`{"note":[${'1,'.repeat(100_000)}1]}`, 'body: has more than 100000 values'],
    [`{"namespace":"default","layer":"gold","note":${'['.repeat(99)}${']'.repeat(99)}}`, 'note: must be'],
    ['{"namespace":"default","layer":"gold","note":"a\\u0000"}', 'note: must not contain a NUL'],
    ['{"namespace":"default","layer":"gold","tags":["\\ud800"]}', 'tags.0: must be valid Unicode'],
    ['{"namespace":"default","layer":"gold","a\\u0000":1}', 'body: must not contain a NUL'],
  ])('the text %# is refused', async (body, message) => {
    const response = await send('/api/v1/things', body, json)
    expect(response.status).toBe(400)
    expect((await errorOf(response)).message).toStartWith(message)
  })
  test('accepts a surrogate pair', async () => {
    const response = await send(
      '/api/v1/things',
      '{"namespace":"default","layer":"gold","note":"\\ud83d\\ude80"}',
      json,
    )
    expect(await response.json()).toMatchObject({ note: '🚀' })
  })
  test('refuses another content type and names the header', async () => {
    for (const type of [
      'text/plain',
      'application/x-www-form-urlencoded',
      'multipart/form-data; boundary=x',
      'nonsense',
    ]) {
      const response = await send('/api/v1/things', JSON.stringify(valid), { 'content-type': type })
      expect(response.status).toBe(400)
      expect((await errorOf(response)).message).toBe('Content-Type: must be application/json')
    }
  })
  test('an optional body may be absent, empty or {} under any content type', async () => {
    for (const headers of [{}, json, { 'content-type': 'text/plain' }])
      for (const body of [null, ''])
        expect(await (await send('/api/v1/things/1/publish', body, headers)).json()).toEqual({
          message: 'none',
        })
    expect(await (await send('/api/v1/things/1/publish', '{}', json)).json()).toEqual({ message: 'none' })
    expect(await (await send('/api/v1/things/1/publish', '{"message":"hi"}', json)).json()).toEqual({
      message: 'hi',
    })
    expect((await send('/api/v1/things/1/publish', '{"message":1}', json)).status).toBe(400)
  })
  test('a route without a body refuses JSON fields and ignores other bodies', async () => {
    const refused = await call('POST', '/api/v1/things/1/cancel', { force: true })
    expect((await errorOf(refused)).message).toBe('unknown field `force`. Known: none')
    expect((await call('POST', '/api/v1/things/1/cancel', {})).status).toBe(200)
    expect((await send('/api/v1/things/1/cancel', 'garbage', { 'content-type': 'nonsense' })).status).toBe(
      200,
    )
  })
  test('a 204 has no body', async () => {
    const response = await call('DELETE', '/api/v1/things/1')
    expect([response.status, await response.text()]).toEqual([204, ''])
  })
  test('accepts repeated query parameters, and refuses unknown ones', async () => {
    expect((await call('GET', '/api/v1/things?search=a&search=b&_other=1')).status).toBe(200)
    for (const method of ['GET', 'HEAD'])
      expect((await call(method, '/api/v1/things?search=a&other=1')).status).toBe(400)
  })
  test('an update may send back the fields of its resource, unchanged', async () => {
    expect((await call('PUT', '/api/v1/files/a', { content: 'x', path: 'a' })).status).toBe(200)
    const changed = await call('PUT', '/api/v1/files/a', { content: 'x', path: 'b' })
    expect((await errorOf(changed)).message).toBe(
      'path: this request cannot change the field: leave it out, or send its present value, "a"',
    )
  })
})

describe('sizes', () => {
  /** A body without a declared length. */
  const streamed = (bytes: number) => {
    let remaining = bytes
    return new ReadableStream<Uint8Array>({
      pull(controller) {
        if (remaining <= 0) return controller.close()
        // The reader of a chunk frees its memory, so every chunk is a new buffer.
        const size = Math.min(remaining, 65_536)
        controller.enqueue(new Uint8Array(size).fill(0x20))
        remaining -= size
      },
    })
  }
  test('a JSON body over 1 MiB is 413, with or without a length', async () => {
    const response = await send('/api/v1/things', ' '.repeat(JSON_BODY_BYTES + 1), json)
    expect(response.status).toBe(413)
    expect(await errorOf(response)).toEqual({
      code: 'INVALID_ARGUMENT',
      type: 'VALIDATION',
      message: 'body too large (max 1MiB)',
    })
    expect((await send('/api/v1/things', streamed(JSON_BODY_BYTES + 1), json)).status).toBe(413)
    expect((await send('/api/v1/things', streamed(JSON_BODY_BYTES), json)).status).toBe(400)
  })
  test('an interrupted body is 400, not a server error', async () => {
    const broken = new ReadableStream<Uint8Array>({
      pull(controller) {
        controller.error(new Error('socket hang up'))
      },
    })
    const response = await send('/api/v1/things', broken, json)
    expect(response.status).toBe(400)
    expect((await errorOf(response)).message).toBe('body: was not received completely')
  })
  test('a declared length over the limit is refused before the body', async () => {
    const headers = { ...json, 'content-length': String(JSON_BODY_BYTES + 1) }
    expect((await send('/api/v1/things', '{}', headers)).status).toBe(413)
  })
  test('the JSON of a pipeline file has a larger limit', async () => {
    const content = 'x'.repeat(JSON_BODY_BYTES * 2)
    const response = await call('PUT', '/api/v1/files/default/a.sql', { content })
    expect(await response.json()).toEqual({ size: content.length })
    expect((await send('/api/v1/files/a', streamed(limits.uploadBytes * 2 + 1), json, 'PUT')).status).toBe(
      413,
    )
  })
  test('a route that reads its own body receives it at any size', async () => {
    const response = await send('/lake/objects/a/b', new Uint8Array(JSON_BODY_BYTES * 2), {}, 'PUT')
    expect(await response.json()).toEqual({ size: JSON_BODY_BYTES * 2, identity: null })
  })
})

describe('failures', () => {
  const failure = (name: string) => call('GET', `/api/v1/failures/${name}`)
  test('an expected error is returned as it was thrown', async () => {
    const response = await failure('known')
    expect(response.status).toBe(404)
    expect(await errorOf(response)).toEqual({
      code: 'NOT_FOUND',
      type: 'NOT_FOUND',
      message: 'run 1 not found',
    })
    expect((await failure('unavailable')).status).toBe(503)
  })
  test('an unexpected error reveals no details', async () => {
    for (const name of ['awaited', 'wrong-answer']) {
      const response = await failure(name)
      expect(response.status).toBe(500)
      expect(await errorOf(response)).toEqual({
        code: 'INTERNAL',
        type: 'INTERNAL',
        message: 'internal error',
      })
    }
  })
  test('an unexpected error is logged with its cause and request id', async () => {
    const { log, entries } = recordingLog()
    await requestTo(testApp({ api: [failures], log }), 'GET', '/api/v1/failures/awaited', undefined, {
      'x-request-id': 'r-1',
    })
    const fields = { ms: expect.any(Number), request_id: 'r-1', error: expect.any(TypeError) }
    expect(entries).toEqual([{ level: 'error', message: 'GET /api/v1/failures/awaited 500', fields }])
  })
  test('a lost database connection is 503, an unstorable value is 400', async () => {
    const lost = await failure('connection')
    expect(lost.status).toBe(503)
    expect((await errorOf(lost)).code).toBe('UNAVAILABLE')
    expect((await failure('out-of-range')).status).toBe(400)
  })
  test('headers and status set before an error do not reach the envelope', async () => {
    const response = await failure('late')
    expect(response.status).toBe(409)
    expect(response.headers.get('content-type')).toStartWith('application/json')
  })
  test('a plugin with its own error format uses it for refused bodies', async () => {
    expect(await (await call('GET', '/catalog/v1/absent')).json()).toEqual({
      error: { message: 'table not found', type: 'Iceberg', code: 404 },
    })
    const refused = await call('POST', '/catalog/v1/tables', {})
    expect(((await refused.json()) as { error: { type: string } }).error.type).toBe('Iceberg')
  })
})

describe('headers', () => {
  test('echoes a valid request id and replaces any other', async () => {
    const idFor = async (given: string) =>
      (await call('GET', '/health', undefined, { 'x-request-id': given })).headers.get('x-request-id')
    expect(await idFor('abc-123.X:y_z')).toBe('abc-123.X:y_z')
    for (const bad of ['', 'a b', '<script>', 'x'.repeat(129)])
      expect(await idFor(bad)).toMatch(/^[0-9a-f-]{36}$/)
    expect(
      (await call('GET', '/nope', undefined, { 'x-request-id': 'kept' })).headers.get('x-request-id'),
    ).toBe('kept')
  })
  test('every response forbids sniffing, framing and caching', async () => {
    for (const path of ['/health', '/nope', '/api/v1/things', '/api/v1/failures/awaited']) {
      const { headers } = await call('GET', path)
      expect(headers.get('x-content-type-options')).toBe('nosniff')
      expect(headers.get('x-frame-options')).toBe('DENY')
      expect(headers.get('content-security-policy')).toContain("frame-ancestors 'none'")
      expect(headers.get('cache-control')).toBe('no-store')
    }
  })
  test('a listed origin may read responses and errors, another origin may not', async () => {
    for (const path of ['/api/v1/things', '/nope']) {
      const listed = await call('GET', path, undefined, { origin: 'http://localhost:3000' })
      expect(listed.headers.get('access-control-allow-origin')).toBe('http://localhost:3000')
      expect(listed.headers.get('vary')).toContain('Origin')
      const other = await call('GET', path, undefined, { origin: 'http://evil.example' })
      expect(other.headers.get('access-control-allow-origin')).toBeNull()
    }
  })
  test('a preflight returns the methods of the path', async () => {
    const headers = { origin: 'http://localhost:3000', 'access-control-request-method': 'DELETE' }
    const response = await call('OPTIONS', '/api/v1/things/1', undefined, headers)
    expect(response.status).toBe(204)
    expect(response.headers.get('access-control-allow-methods')).toContain('DELETE')
    expect(response.headers.get('access-control-allow-headers')).toContain('X-Api-Key')
    expect((await call('OPTIONS', '/nope', undefined, headers)).status).toBe(404)
  })
  test('refuses writes from pages of another site unless its origin is listed', async () => {
    const from = (headers: Record<string, string>) =>
      call('POST', '/api/v1/things/1/cancel', undefined, { host: 'sluice.test:8080', ...headers })
    const refused = await from({ origin: 'http://evil.example', 'sec-fetch-site': 'cross-site' })
    expect(refused.status).toBe(403)
    expect(await errorOf(refused)).toEqual({
      code: 'AUTHORIZATION',
      type: 'AUTHORIZATION',
      message: 'Origin: a page of another site sent this write: add its origin to CORS_ORIGINS',
    })
    for (const origin of [
      'null',
      'http://evil.example',
      'http://sluice.test:3000',
      'http://sluice.test:8080.evil.example',
      'http://evil.example/sluice.test:8080',
      'http://user@sluice.test:8080.evil.example',
      'file://sluice.test:8080',
      'http://localhost:3000 http://sluice.test:8080',
      'sluice.test:8080',
    ])
      expect([origin, (await from({ origin })).status]).toEqual([origin, 403])
    expect((await from({ 'sec-fetch-site': 'cross-site' })).status).toBe(403)
    for (const origin of ['http://localhost:3000', 'http://sluice.test:8080', 'https://sluice.test:8080'])
      expect([origin, (await from({ origin, 'sec-fetch-site': 'same-origin' })).status]).toEqual([
        origin,
        200,
      ])
    expect((await from({ origin: 'http://localhost:3000', 'sec-fetch-site': 'cross-site' })).status).toBe(200)
    expect((await from({})).status).toBe(200)
    const secure = { origin: 'https://sluice.test:8080' }
    expect((await from(secure)).status).toBe(403)
    expect((await from({ ...secure, 'x-forwarded-proto': 'https' })).status).toBe(200)
    expect((await from({ origin: 'http://sluice.test:8080', 'x-forwarded-proto': 'https' })).status).toBe(403)
    expect((await from({ host: 'sluice.test', origin: 'http://sluice.test:80' })).status).toBe(200)
    const read = { origin: 'http://evil.example', 'sec-fetch-site': 'cross-site' }
    expect((await call('GET', '/api/v1/things', undefined, read)).status).toBe(200)
  })
  test('the health probe has common headers, supports HEAD and checks its query', async () => {
    const { headers } = await call('GET', '/api/v1/things')
    const own = ['content-type', 'content-length', 'x-request-id', 'ratelimit-limit', 'ratelimit-remaining']
    const namesOf = (headers: Headers) => [...headers.keys()].filter((name) => !own.includes(name))
    for (const method of ['GET', 'HEAD']) {
      const probe = await call(method, '/health', undefined, { 'x-request-id': 'probe-1' })
      expect(probe.status).toBe(200)
      expect(await probe.text()).toBe(method === 'GET' ? '{"status":"healthy"}' : '')
      expect(probe.headers.get('content-type')).toBe('application/json')
      expect(probe.headers.get('x-request-id')).toBe('probe-1')
      expect(namesOf(probe.headers)).toEqual(namesOf(headers))
    }
    expect((await call('GET', '/health?_a=1')).status).toBe(200)
    expect((await call('GET', '/health?a=1')).status).toBe(400)
    expect((await call('GET', '/health?a=%zz')).status).toBe(400)
    expect((await call('POST', '/health')).status).toBe(405)
  })
  test('HEAD answers like GET, without the body', async () => {
    const response = await call('HEAD', '/api/v1/things')
    expect([response.status, await response.text()]).toEqual([200, ''])
    expect((await call('HEAD', '/api/v1/things/1/cancel')).status).toBe(405)
  })
})

describe('the access log', () => {
  /** Lines as `level method path status`, on a clock that advances by `ms` per request. */
  async function linesOf(requests: [method: string, path: string][], { ms = 1, brokenMetrics = false } = {}) {
    const { log, entries } = recordingLog()
    let now = 0
    const clock = {
      now: () => new Date(),
      elapsed: () => {
        now += ms
        return now
      },
    }
    const gateway = new Elysia({ prefix: '/lake/objects' }).get('/*', () => {
      throw unavailable('object store')
    })
    const metrics = makeMetrics()
    if (brokenMetrics) metrics.text = () => Promise.reject(new Error('no metrics'))
    const refuses = () => Promise.reject(new Error('down'))
    const readiness = { postgres: refuses, s3: refuses, runner: refuses, query: refuses }
    const logged = testApp({ api: [things], internal: [catalog, gateway], log, clock, metrics, readiness })
    for (const [method, path] of requests) await requestTo(logged, method, path)
    const lines = entries.map(({ level, message }) => `${level} ${message}`)
    return lines.filter((line) => !line.endsWith('is not ready'))
  }

  test('logs every request of a client, even refused and unknown ones', async () => {
    expect(
      await linesOf([
        ['GET', '/api/v1/things/1'],
        ['GET', '/api/v1/things/x'],
        ['GET', '/healthy'],
      ]),
    ).toEqual([
      'info GET /api/v1/things/:id 200',
      'info GET /api/v1/things/:id 404',
      'info GET unmatched 404',
    ])
  })
  test('does not log monitoring requests, whatever their result or duration', async () => {
    const asked: [string, string][] = [
      ['GET', '/health'],
      ['GET', '/health/live'],
      ['GET', '/health/ready'],
      ['GET', '/metrics'],
    ]
    expect(await linesOf(asked, { ms: 2_000 })).toEqual([])
  })
  test('logs a failure of monitoring itself', async () => {
    expect(await linesOf([['GET', '/metrics']], { brokenMetrics: true })).toEqual(['error GET /metrics 500'])
  })
  test('logs failed and slow requests to internal routes', async () => {
    const asked: [string, string][] = [
      ['GET', '/catalog/v1/config'],
      ['GET', '/catalog/v1/absent'],
    ]
    expect(await linesOf(asked)).toEqual([])
    expect(await linesOf(asked, { ms: 1_001 })).toEqual([
      'info GET /catalog/v1/config 200',
      'info GET /catalog/v1/absent 404',
    ])
    expect(await linesOf([['GET', '/lake/objects/a/b']])).toEqual(['warn GET /lake/objects/* 503'])
  })
})

test('counts requests by pattern; unknown paths and methods share one label', async () => {
  const metrics = makeMetrics()
  const counted = testApp({ api: [things], metrics })
  await requestTo(counted, 'GET', '/api/v1/things/1')
  await requestTo(counted, 'GET', '/api/v1/things/2')
  await requestTo(counted, 'GET', '/api/v1/nope/3')
  await requestTo(counted, 'PURGE', '/nope')
  const text = await metrics.text()
  expect(text).toContain('sluice_http_requests_total{method="GET",path="/api/v1/things/:id",status="200"} 2')
  expect(text).toContain('sluice_http_requests_total{method="GET",path="unmatched",status="404"} 1')
  expect(text).toContain('sluice_http_requests_total{method="OTHER",path="unmatched",status="404"} 1')
  expect(text).not.toContain('nope')
})
