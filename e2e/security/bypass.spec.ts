// Attack class: ways around authentication, by the shape of the address and the method. The routes are those that the service
// itself documents, so that a new one is among them.
import { expect, test } from '@playwright/test'
import { type OwnService, startOwnService } from '../own-service.ts'
import { rawRequest } from '../raw-request.ts'

const KEY = 'e2e-key-0123456789'
const OPEN = ['/health', '/health/live', '/health/ready', '/metrics']
let service: OwnService
let operations: { method: string; path: string }[]

test.describe.configure({ mode: 'serial' })
test.beforeAll(async ({ playwright }) => {
  service = await startOwnService({ PLATFORM_API_KEY: KEY, RUNNER_URLS: 'none', QUERY_URLS: 'none' })
  const request = await playwright.request.newContext()
  const document = await (await request.get(`${service.url}/swagger/json`)).json()
  operations = Object.entries<object>(document.paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => ({
      method: method.toUpperCase(),
      path: path.replace(/\{\w+\}/g, 'default'),
    })),
  )
  await request.dispose()
})
test.afterAll(() => service?.stop())

const isOpen = ({ method, path }: { method: string; path: string }) =>
  OPEN.includes(path) || (method === 'POST' && path === '/api/v1/webhooks')

test('every documented route asks for the key but probes, metrics and webhooks', async ({ request }) => {
  expect(operations.length).toBeGreaterThan(60)
  for (const operation of operations) {
    const { method, path } = operation
    const response = await request.fetch(service.url + path, { method })
    expect([method, path, response.status() === 401]).toEqual([method, path, !isOpen(operation)])
  }
})

test('no suffix, prefix, case or encoding of a route goes around it', async () => {
  const paths = [...new Set(operations.filter((one) => !isOpen(one)).map(({ path }) => path))]
  const shapes: ((path: string) => string)[] = [
    (path) => `${path}/`,
    (path) => `${path}//`,
    (path) => `${path}/.`,
    (path) => `${path}/..;/`,
    (path) => `${path};x`,
    (path) => `${path};/health`,
    (path) => `${path}.json`,
    (path) => `${path}%20`,
    (path) => `${path}%00`,
    (path) => `${path}%2f`,
    (path) => `${path}?/health`,
    (path) => `${path}#/health`,
    (path) => `/${path}`,
    (path) => `/.${path}`,
    (path) => `/health/..${path}`,
    (path) => `/swagger/..${path}`,
    (path) => `/health/%2e%2e${path}`,
    (path) => `/api/v1/webhooks/../..${path}`,
    (path) => path.toUpperCase(),
    (path) => path.replace('/v1/', '/v1%2f'),
    (path) => path.replace('/api/', '/%61pi/'),
    (path) => path.replaceAll('/', '\\'),
  ]
  for (const path of paths) {
    const answers = await Promise.all(
      shapes.map(async (shape) => {
        const target = shape(path)
        const { status } = await rawRequest(service.url, [`GET ${target} HTTP/1.1`, 'Host: sluice.test'])
        return { target, status }
      }),
    )
    // Some servers see in `\` another path; what matters is that no data comes back.
    for (const { target, status } of answers)
      expect([target, [400, 401, 404].includes(status)]).toEqual([target, true])
    const refused = answers.filter(({ status }) => status === 401).length
    expect([path, refused]).toEqual([path, expect.any(Number)])
    expect(refused).toBeGreaterThan(shapes.length - 4)
  }
})

test('no method goes around it, nor one that a header claims', async ({ request }) => {
  for (const path of [...new Set(operations.filter((one) => !isOpen(one)).map((one) => one.path))]) {
    for (const method of ['HEAD', 'PURGE', 'TRACE']) {
      const { status } = await rawRequest(service.url, [`${method} ${path} HTTP/1.1`, 'Host: sluice.test'])
      expect([method, path, [400, 401, 405, 501].includes(status)]).toEqual([method, path, true])
    }
    const options = await request.fetch(service.url + path, { method: 'OPTIONS' })
    expect([path, options.status(), await options.text()]).toEqual([path, 204, ''])
    for (const name of [
      'x-http-method-override',
      'x-http-method',
      'x-method-override',
      'x-original-url',
      'x-rewrite-url',
    ]) {
      const headers = { [name]: name.endsWith('url') ? '/health' : 'OPTIONS' }
      const response = await request.get(service.url + path, { headers })
      expect([path, name, response.status()]).toEqual([path, name, 401])
    }
  }
})
