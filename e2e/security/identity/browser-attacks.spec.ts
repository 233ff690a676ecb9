// Attack class: a page of another site uses the browser of a user who can reach an open service. The site's name resolves to
// our address (DNS rebinding). Or the page sends writes that need no preflight (cross-site request forgery).
import { expect } from '@playwright/test'
import { test } from '../../kit/own-service.ts'
import { rawRequest } from '../../kit/raw-request.ts'
import { getJson } from '../../kit/resources.ts'

const PORTAL = 'https://portal.example.com'
/** `127.0.0.1:<port>`, the host that clients of the service use. */
let own: string

test.use({
  serviceEnv: {
    RUNNER_URLS: 'none',
    QUERY_URLS: 'none',
    ALLOWED_HOSTS: 'sluice.example.com',
    CORS_ORIGINS: PORTAL,
    // The forwarded host must not decide, even if it comes from a trusted proxy.
    TRUSTED_PROXIES: '127.0.0.0/8',
  },
})
test.beforeAll(({ service }) => {
  own = new URL(service.url).host
})

const STRANGE = [
  'evil.test',
  'localhost.evil.test',
  'evil.test.',
  '127.0.0.1.nip.io',
  'sluice.example.com.evil.test',
  'x.sluice.example.com',
  '10.1.2.3',
  '[::ffff:10.1.2.3]',
  '0.0.0.0',
]

test('every request to a foreign host name is 421', async ({ service }) => {
  const lines = [
    'GET /api/v1/namespaces',
    'POST /api/v1/namespaces',
    'DELETE /api/v1/namespaces/default',
    'OPTIONS /api/v1/namespaces',
    'HEAD /api/v1/namespaces',
    'GET /nowhere',
    'GET /',
    'GET /metrics',
    'GET /swagger',
    'GET /inspector',
    'GET /catalog/v1/config',
    'GET /lake/objects/default/x',
    'POST /api/v1/webhooks',
  ]
  const port = new URL(service.url).port
  for (const host of STRANGE)
    for (const line of lines) {
      const head = [
        `${line} HTTP/1.1`,
        `Host: ${host}:${port}`,
        `X-Forwarded-Host: ${own}`,
        `Forwarded: host=${own}`,
      ]
      const { status, body } = await rawRequest(service.url, [...head, 'Content-Length: 0'])
      expect([host, line, status]).toEqual([host, line, 421])
      if (!line.startsWith('HEAD'))
        expect(JSON.parse(body).error).toEqual({
          code: 'INVALID_ARGUMENT',
          type: 'VALIDATION',
          message: expect.stringContaining('ALLOWED_HOSTS'),
        })
    }
})

test('own host names are accepted in every spelling, health under any name', async ({ service }) => {
  const port = new URL(service.url).port
  for (const host of [
    own,
    '127.0.0.1',
    `localhost:${port}`,
    'LocalHost',
    'localhost.',
    `[::1]:${port}`,
    'Sluice.Example.com:443',
    // A client may reach the service through a forwarded port.
    'localhost:9999',
  ]) {
    const { status } = await rawRequest(service.url, ['GET /api/v1/namespaces HTTP/1.1', `Host: ${host}`])
    expect([host, status]).toEqual([host, 200])
  }
  for (const path of ['/health', '/health/live', '/health/ready'])
    expect((await rawRequest(service.url, [`GET ${path} HTTP/1.1`, 'Host: 10.1.2.3:8080'])).status).toBe(200)
})

test('a request with a missing, repeated or conflicting host is refused', async ({ service }) => {
  const refusals = [
    ['GET /api/v1/namespaces HTTP/1.1', `Host: ${own}`, 'Host: evil.test'],
    ['GET /api/v1/namespaces HTTP/1.1', 'Host: evil.test', `Host: ${own}`],
    ['GET /api/v1/namespaces HTTP/1.1', `Host: ${own}, evil.test`],
    ['GET /api/v1/namespaces HTTP/1.1', `Host: evil.test@${own}`],
    ['GET /api/v1/namespaces HTTP/1.1', `Host: ${own}@evil.test`],
    ['GET /api/v1/namespaces HTTP/1.1', 'Host:'],
    ['GET /api/v1/namespaces HTTP/1.1'],
    ['GET /api/v1/namespaces HTTP/1.0'],
    ['GET http://evil.test/api/v1/namespaces HTTP/1.1', `Host: ${own}`],
    [`GET http://${own}/api/v1/namespaces HTTP/1.1`, 'Host: evil.test'],
    [`GET http://evil.test@${own}/api/v1/namespaces HTTP/1.1`, 'Host: evil.test'],
  ]
  for (const lines of refusals) {
    const { status, body } = await rawRequest(service.url, lines)
    expect([lines, [400, 421].includes(status)]).toEqual([lines, true])
    expect(body).not.toContain('default')
  }
})

/** Content types that a form, an image or a beacon sends without a preflight. An empty text means no type. */
const SIMPLE = [
  'text/plain',
  'application/x-www-form-urlencoded',
  'multipart/form-data; boundary=x',
  'application/json',
  '',
]
const WRITES = [
  'POST /api/v1/namespaces',
  'PUT /api/v1/files/default/forged.txt',
  'PATCH /api/v1/namespaces/default',
  'DELETE /api/v1/namespaces/forged',
  'POST /api/v1/webhooks',
  'POST /api/v1/admin/retention/run',
]
const FOREIGN = [
  'https://evil.test',
  'null',
  'http://localhost:1',
  'http://127.0.0.1',
  'file://',
  `${PORTAL}.evil.test`,
]

test('a cross-site write is 403 and changes nothing', async ({ request, service }) => {
  const body = '{"name":"forged","content":"x"}'
  for (const line of WRITES)
    for (const type of SIMPLE)
      for (const mark of [...FOREIGN.map((origin) => `Origin: ${origin}`), 'Sec-Fetch-Site: cross-site']) {
        const answer = await rawRequest(
          service.url,
          [
            `${line} HTTP/1.1`,
            `Host: ${own}`,
            mark,
            `Content-Length: ${body.length}`,
            ...(type === '' ? [] : [`Content-Type: ${type}`]),
          ],
          body,
        )
        // A path that does not support the method has nothing to forge.
        const isKnown = answer.status !== 405
        expect([line, type, mark, isKnown ? answer.status : 403]).toEqual([line, type, mark, 403])
        if (isKnown) expect(JSON.parse(answer.body).error).toMatchObject({ type: 'AUTHORIZATION' })
        expect(answer.head.toLowerCase()).not.toContain('access-control-allow-origin')
      }
  const { namespaces } = await getJson(request, '/api/v1/namespaces')
  expect(namespaces.map(({ name }: { name: string }) => name)).toEqual(['default'])
  expect((await request.get('/api/v1/files/default/forged.txt')).status()).toBe(404)
})

test('the own page, a listed portal and clients without Origin may write', async ({ request, service }) => {
  const senders: Record<string, string>[] = [
    { origin: service.url, 'sec-fetch-site': 'same-origin' },
    { origin: PORTAL, 'sec-fetch-site': 'cross-site' },
    {},
  ]
  for (const [index, headers] of senders.entries()) {
    const data = { name: `allowed-${index}` }
    const response = await request.post('/api/v1/namespaces', { data, headers })
    expect([headers, response.status()]).toEqual([headers, 201])
  }
})

test('a site outside CORS_ORIGINS may not read answers', async ({ request }) => {
  for (const origin of ['http://localhost:3000', 'http://localhost:5173', ...FOREIGN]) {
    const response = await request.get('/api/v1/namespaces', { headers: { origin } })
    expect([origin, response.headers()['access-control-allow-origin']]).toEqual([origin, undefined])
  }
})
