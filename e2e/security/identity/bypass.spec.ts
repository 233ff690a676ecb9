// Attack class: ways around authentication by the form of the address, the method and the headers. The tests use every route of
// the service's own document, so new routes are included. They add the routes of runners, which are not documented.
import { type APIRequestContext, expect, test } from '@playwright/test'
import { type RawResponse, rawRequest } from '../../kit/raw-request.ts'
import { getJson } from '../../kit/resources.ts'

const OPEN = ['/health', '/health/live', '/health/ready', '/metrics']
/** Routes that runners and query services call with tokens of attempts. */
const INTERNAL = [
  'GET /catalog/v1/config',
  'GET /catalog/v1/sluice/namespaces',
  'POST /catalog/v1/sluice/namespaces',
  'GET /catalog/v1/sluice/namespaces/default',
  'HEAD /catalog/v1/sluice/namespaces/default',
  'GET /catalog/v1/sluice/namespaces/default/tables',
  'POST /catalog/v1/sluice/namespaces/default/tables',
  'GET /catalog/v1/sluice/namespaces/default/tables/a',
  'POST /catalog/v1/sluice/namespaces/default/tables/a',
  'GET /catalog/sluice/v1/commits/1/tables',
  'GET /catalog/sluice/v1/landing/default/a',
  'GET /lake/objects/default/pipelines/bronze/a/pipeline.sql',
  'GET /lake/objects/_lake/a',
  'PUT /lake/objects/_lake/a',
].map((line) => {
  const [method = '', path = ''] = line.split(' ')
  return { method, path }
})

let anybody: APIRequestContext
let service: string
let operations: { method: string; path: string }[]
/** Paths that need a credential, without their methods. */
let closed: string[]

const isOpen = ({ method, path }: { method: string; path: string }) =>
  OPEN.includes(path) || (method === 'POST' && path === '/api/v1/webhooks')

test.describe.configure({ mode: 'serial' })
test.beforeAll(async ({ playwright, baseURL }) => {
  service = baseURL ?? ''
  anybody = await playwright.request.newContext({ baseURL, extraHTTPHeaders: {} })
  const document = await getJson(anybody, '/swagger/json')
  const documented = Object.entries<object>(document.paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => ({
      method: method.toUpperCase(),
      path: path.replace(/\{\w+\}/g, 'default'),
    })),
  )
  expect(documented.length).toBeGreaterThan(60)
  operations = [...documented, ...INTERNAL]
  closed = [...new Set(operations.filter((one) => !isOpen(one)).map(({ path }) => path))]
})
test.afterAll(() => anybody?.dispose())

test('control: the routes answer a caller with the key', async ({ request }) => {
  expect((await request.get('/api/v1/namespaces')).status()).toBe(200)
  expect((await anybody.get('/api/v1/namespaces')).status()).toBe(401)
})

test('every route except probes, metrics and webhooks requires a credential', async () => {
  for (const operation of operations) {
    const { method, path } = operation
    const response = await anybody.fetch(path, { method })
    expect([method, path, response.status() === 401]).toEqual([method, path, !isOpen(operation)])
  }
})

test('every S3 request requires a signature, and an API key is none', async ({ request }) => {
  for (const path of [
    '/s3',
    '/s3/',
    '/s3/sluice',
    '/s3/sluice/',
    '/s3/sluice/_lake/a',
    '/s3/sluice/_lake/a?uploads',
  ])
    for (const method of ['GET', 'HEAD', 'PUT', 'POST', 'DELETE', 'PATCH'])
      for (const caller of [anybody, request]) {
        const response = await caller.fetch(path, { method })
        expect([method, path, response.status()]).toEqual([method, path, 403])
      }
})

test('every unknown path requires a credential too', async () => {
  for (const path of ['/api', '/api/', '/api/v1', '/api/v1/', '/api/v2/namespaces', '/admin', '/.env'])
    expect([path, (await anybody.get(path)).status()]).toEqual([path, 401])
  for (const path of closed) {
    const beside = `${path.replace(/\/[^/]+$/, '')}/nothing-like-it/at/all`
    expect([beside, (await anybody.get(beside)).status()]).toEqual([beside, 401])
  }
})

const SHAPES: ((path: string) => string)[] = [
  (path) => `${path}/`,
  (path) => `${path}//`,
  (path) => `${path}/.`,
  (path) => `${path}/..`,
  (path) => `${path}/..;/`,
  (path) => `${path}/health`,
  (path) => `${path}/../health/..`,
  (path) => `${path};x`,
  (path) => `${path};/health`,
  (path) => `${path}.json`,
  (path) => `${path}.css`,
  (path) => `${path}~`,
  (path) => `${path}*`,
  (path) => `${path}%20`,
  (path) => `${path}%09`,
  (path) => `${path}%00`,
  (path) => `${path}%0d%0aX-Api-Key:%20x`,
  (path) => `${path}%2f`,
  (path) => `${path}%252f`,
  (path) => `${path}%c0%af`,
  (path) => `${path}%23/health`,
  (path) => `${path}%3f/health`,
  (path) => `${path}?/health`,
  (path) => `${path}?x-api-key=anything&api_key=anything&access_token=anything`,
  (path) => `${path}#/health`,
  (path) => `/${path}`,
  (path) => `//health${path}`,
  (path) => `/.${path}`,
  (path) => `/;${path}`,
  (path) => `/health/..${path}`,
  (path) => `/health;/..${path}`,
  (path) => `/swagger/..${path}`,
  (path) => `/inspector/..${path}`,
  (path) => `/metrics/../.${path}`,
  (path) => `/health/%2e%2e${path}`,
  (path) => `/health/%252e%252e${path}`,
  (path) => `/health%2f..${path}`,
  (path) => `/swagger/%2e%2e%2f${path.slice(1)}`,
  (path) => `/api/v1/webhooks/../..${path}`,
  (path) => `/api/v1/webhooks/..%2f..${path}`,
  (path) => path.toUpperCase(),
  (path) => path.replace(/[a-z](?=[^/]*$)/, (letter) => letter.toUpperCase()),
  (path) => path.replace('/v1/', '/v1%2f'),
  (path) => path.replace('/v1/', '/v1//'),
  (path) => path.replace('/v1/', '/./v1/'),
  (path) => path.replace('/api/', '/%61pi/').replace('/catalog/', '/%63atalog/'),
  (path) => path.replaceAll('/', '\\'),
  (path) => path.replaceAll('/', '%5c'),
  (path) => path.replaceAll('/', '／'),
]

/** Statuses without data: no answer, malformed, unauthenticated, or not found below an open path. */
const REFUSED = [0, 400, 401, 404]

function expectNothingGiven(target: string, { status, body }: RawResponse): void {
  expect([target, REFUSED.includes(status)]).toEqual([target, true])
  expect([target, /"(namespaces|pipelines|runs|zones|files|tables|total|metadata)":/.test(body)]).toEqual([
    target,
    false,
  ])
}

test(`no suffix, prefix, case or encoding bypasses authentication: ${SHAPES.length} per route`, async () => {
  for (const path of closed) {
    const answers = await Promise.all(
      SHAPES.map(async (shape) => {
        const target = shape(path)
        return { target, answer: await rawRequest(service, [`GET ${target} HTTP/1.1`, 'Host: sluice.test']) }
      }),
    )
    for (const { target, answer } of answers) expectNothingGiven(target, answer)
    // By the rules of addresses, the other targets are open paths or no addresses at all.
    const unauthenticated = answers.filter(({ answer }) => answer.status === 401).length
    expect([path, unauthenticated > SHAPES.length * 0.75]).toEqual([path, true])
  }
})

test('another form of the request line reaches the same protected routes', async () => {
  for (const path of closed) {
    for (const target of [
      `http://sluice.test${path}`,
      `http://sluice.test/health/..${path}`,
      `https://health${path}`,
      `http://a${path}`,
      `http:${path}`,
      `*${path}`,
      path.slice(1),
      `?${path}`,
    ])
      expectNothingGiven(
        target,
        await rawRequest(service, [`GET ${target} HTTP/1.1`, 'Host: sluice.test']).catch(nothing),
      )
  }
})

test('a missing or path-like Host header does not change the route', async () => {
  const hosts = [
    'a',
    'x/health',
    'health',
    '/health',
    '127.0.0.1/health?',
    'sluice.test/health#',
    '@/health',
    '',
  ]
  for (const path of closed.slice(0, 12))
    for (const host of hosts) {
      const answer = await rawRequest(service, [`GET ${path} HTTP/1.1`, `Host: ${host}`]).catch(nothing)
      expectNothingGiven(`${host} ${path}`, answer)
      const without = await rawRequest(service, [`GET ${path} HTTP/1.0`]).catch(nothing)
      expectNothingGiven(`HTTP/1.0 ${path}`, without)
    }
})

/** Stands for a connection that was closed without an answer. */
const nothing = (): RawResponse => ({ status: 400, head: '', body: '' })

const FORGED_METHODS = ['HEAD', 'PURGE', 'TRACE', 'CONNECT', 'PROPFIND', 'get', 'GETX']
const OVERRIDES: Record<string, string>[] = [
  { 'x-http-method-override': 'OPTIONS' },
  { 'x-http-method': 'OPTIONS' },
  { 'x-method-override': 'HEAD' },
  { 'x-original-url': '/health' },
  { 'x-rewrite-url': '/health' },
  { 'x-original-host': 'localhost' },
  { 'x-forwarded-host': 'localhost' },
  { 'x-forwarded-prefix': '/health/..' },
  { 'x-forwarded-for': '127.0.0.1', 'x-real-ip': '127.0.0.1' },
  { 'x-forwarded-user': 'admin', 'x-remote-user': 'admin', 'x-user-id': 'admin' },
  { 'x-forwarded-client-cert': 'Subject="CN=admin"' },
  { authorization: 'Basic YWRtaW46YWRtaW4=' },
  { authorization: 'Bearer null' },
  { 'x-api-key': '' },
  { 'x-api-key': ' ' },
  { 'x-webhook-token': '0'.repeat(64) },
  { cookie: 'x-api-key=anything; session=admin' },
  { upgrade: 'websocket', connection: 'upgrade' },
  { expect: '200-ok' },
]

test('no method, method override or proxy header bypasses authentication', async () => {
  for (const path of closed) {
    const methods = await Promise.all(
      FORGED_METHODS.map(async (method) => ({
        method,
        ...(await rawRequest(service, [`${method} ${path} HTTP/1.1`, 'Host: sluice.test']).catch(nothing)),
      })),
    )
    for (const { method, status } of methods)
      expect([method, path, [0, 400, 401, 405, 501].includes(status)]).toEqual([method, path, true])
    const options = await anybody.fetch(path, { method: 'OPTIONS' })
    expect([path, options.status(), await options.text()]).toEqual([path, 204, ''])
  }
  // Only a few paths, because repeated wrong keys are answered with 429.
  for (const path of closed.slice(0, 12))
    for (const headers of OVERRIDES) {
      const response = await anybody.get(path, { headers })
      expect([path, headers, [401, 429].includes(response.status())]).toEqual([path, headers, true])
    }
})

test('a repeated or folded credential header is no credential', async () => {
  for (const lines of [
    ['X-Api-Key: wrong', 'X-Api-Key: also-wrong'],
    ['X-Api-Key: wrong,', ' folded'],
    ['X-Api-Key:', 'Authorization: Bearer a'],
    ['X-Api-Key\t: wrong'],
    ['X_Api_Key: wrong'],
  ]) {
    const answer = await rawRequest(service, [
      'GET /api/v1/namespaces HTTP/1.1',
      'Host: sluice.test',
      ...lines,
    ]).catch(nothing)
    expectNothingGiven(lines.join(' | '), answer)
  }
})

test('a second request cannot be smuggled behind the first', async () => {
  const inner = 'GET /api/v1/namespaces HTTP/1.1\r\nHost: sluice.test\r\n\r\n'
  for (const headers of [
    ['Content-Length: 5', 'Transfer-Encoding: chunked'],
    ['Transfer-Encoding: chunked', 'Transfer-Encoding: identity'],
    ['Transfer-Encoding: xchunked'],
    ['Transfer-Encoding : chunked'],
    ['Content-Length: 0', 'Content-Length: 60'],
    ['Content-Length: +0'],
    ['Content-Length: 0x10'],
  ]) {
    const lines = ['POST /api/v1/webhooks HTTP/1.1', 'Host: sluice.test', ...headers]
    const { head, body } = await rawRequest(service, lines, `0\r\n\r\n${inner}`).catch(nothing)
    // Two answers may come on one connection; neither contains data.
    expect([headers, /"namespaces":/.test(head + body)]).toEqual([headers, false])
  }
})
