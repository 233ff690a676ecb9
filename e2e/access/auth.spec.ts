// Specification: Authentication, rules 1 to 3 and 5, in API-key mode.
import { expect } from '@playwright/test'
import { test } from '../kit/own-service.ts'
import { rawRequest } from '../kit/raw-request.ts'

const KEY = 'e2e-key-0123456789'
test.use({ serviceEnv: { PLATFORM_API_KEY: KEY, RUNNER_URLS: 'none', QUERY_URLS: 'none' } })

const keyed = { headers: { 'x-api-key': KEY } }

test('a request with the key is accepted @runtime @auth.key', async ({ request }) => {
  const response = await request.get('/api/v1/features', keyed)
  expect(response.status()).toBe(200)
  expect((await response.json()).plugins.auth).toEqual({ enabled: true, type: 'api_key' })
  const created = await request.post('/api/v1/namespaces', { ...keyed, data: { name: 'keyed' } })
  expect(created.status()).toBe(201)
})

test('every API address answers 401 without the key, existing or not @auth.401 @auth.features', async ({
  request,
}) => {
  for (const path of ['features', 'namespaces', 'pipelines', 'runs', 'files/default/x', 'query', 'nope', ''])
    for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE']) {
      const response = await request.fetch(`/api/v1/${path}`, { method })
      expect([method, path, response.status()]).toEqual([method, path, 401])
      expect(response.headers()['www-authenticate']).toBe('ApiKey realm="sluice"')
      expect((await response.json()).error).toMatchObject({ code: 'AUTHENTICATION', type: 'AUTHENTICATION' })
    }
})

test('a request without the key gets no suggestion of a similar route', async ({ request }) => {
  for (const path of ['/runs', '/api/v1/runs/', '/nope']) {
    const answer = await request.get(path)
    expect([path, answer.status(), await answer.text()]).toEqual([
      path,
      401,
      expect.not.stringContaining('mean'),
    ])
  }
  const knownPath = await request.get('/runs', keyed)
  expect((await knownPath.json()).error.message).toContain('/api/v1/runs')
})

test('no spelling of the address bypasses the key @runtime', async ({ service }) => {
  for (const target of [
    '//api/v1/namespaces',
    '/api//v1/namespaces',
    '/api/v1/namespaces/.',
    '/api/v1/../v1/namespaces',
    '/api/v1/%2e%2e/v1/namespaces',
    '/api/v1%2fnamespaces',
    '/%61pi/v1/namespaces',
    '/api/v1/namespaces?path=/health',
    '/api/v1/namespaces;/health',
    '/api/v1/webhooks/',
    '/catalog/../api/v1/namespaces',
    '/health/../api/v1/namespaces',
    '/health/%2e%2e/api/v1/namespaces',
    '/health\\..\\api\\v1\\namespaces',
    '/api/v1/namespaces/',
    '/API/v1/namespaces',
    '/api%2fv1/namespaces',
    '/api/v1/webhooks/../namespaces',
    '/lake/objects/../../api/v1/namespaces',
    '/lake/objects/%2e%2e/%2e%2e/api/v1/namespaces',
    '/lake/objects/..\\..\\api\\v1\\namespaces',
    '/catalog/v1/sluice/namespaces/../../../../api/v1/namespaces',
    'http://sluice.test/api/v1/namespaces',
    '/api/v1/namespaces#/health',
  ])
    for (const host of ['sluice.test', 'a', '', 'a/health?'])
      for (const method of ['GET', 'POST']) {
        const { status } = await rawRequest(service.url, [
          `${method} ${target} HTTP/1.1`,
          `Host: ${host}`,
          'Content-Length: 0',
        ])
        expect([400, 401], `${method} ${target} of '${host}'`).toContain(status)
      }
})

test('health, metrics, the Swagger page and preflights need no key @auth.open', async ({ request }) => {
  for (const path of [
    '/',
    '/health',
    '/health/live',
    '/health/ready',
    '/metrics',
    '/swagger',
    '/swagger/json',
    '/swagger/page.js',
  ])
    expect([path, (await request.get(path)).status()]).toEqual([path, 200])
  const preflight = await request.fetch('/api/v1/namespaces', {
    method: 'OPTIONS',
    headers: { origin: 'http://localhost:3000', 'access-control-request-method': 'GET' },
  })
  expect(preflight.status()).toBe(204)
})

test('webhook calls need no key @auth.webhooks', async ({ request }) => {
  expect((await request.post('/api/v1/webhooks')).status()).not.toBe(401)
})
