import { beforeAll, expect, test } from 'bun:test'
import { openDatabase } from '../../drizzle/client.ts'
import { useDatabase } from '../../tools/test/database.ts'
import type { App } from '../server.ts'
import { requestTo, testApp } from '../test-app.ts'
import { namespaceRoutes } from './routes.ts'
import { makeNamespaceService, type NamespaceService } from './service.ts'

const database = useDatabase({ connections: 4, rawConnections: 1 })
let namespaces: NamespaceService
let app: App
beforeAll(async () => {
  namespaces = makeNamespaceService(database)
  app = testApp({ api: [namespaceRoutes(namespaces)] })
})

const call = (method: string, path: string, body?: object) => requestTo(app, method, `/api/v1${path}`, body)
const errorOf = async (response: Response) => {
  const { error } = (await response.json()) as { error: { code: string; type: string; message: string } }
  return error
}

test('a description is optional and empty by default', async () => {
  const created = await call('POST', '/namespaces', { name: 'bare' })
  expect(await created.json()).toMatchObject({ description: '' })
})

test('one of many concurrent creations of a name succeeds, the others conflict', async () => {
  const statuses = await Promise.all(
    Array.from({ length: 8 }, async () => (await call('POST', '/namespaces', { name: 'raced' })).status),
  )
  expect(statuses.sort()).toEqual([201, 409, 409, 409, 409, 409, 409, 409])
})

test('an update needs a description and an existing namespace', async () => {
  const refused = await errorOf(await call('PUT', '/namespaces/default', {}))
  expect(refused.message).toBe('description: is required')
  expect((await call('PUT', '/namespaces/absent', { description: '' })).status).toBe(404)
  expect((await call('PUT', '/namespaces/NOT-A-NAME', { description: '' })).status).toBe(404)
})

test('the description of a namespace is limited to 10,000 characters', async () => {
  const [fits, long] = ['d'.repeat(10_000), 'd'.repeat(10_001)]
  const why = 'description: its length must be at most 10000'
  for (const [method, path, name] of [
    ['POST', '/namespaces', 'described'],
    ['PUT', '/namespaces/described', undefined],
  ] as const) {
    const refused = await call(method, path, { name, description: long })
    expect(refused.status).toBe(400)
    expect((await errorOf(refused)).message).toBe(why)
    expect((await call(method, path, { name, description: fits })).ok).toBe(true)
  }
})

test('requireExisting refuses an absent namespace and names the field', async () => {
  await namespaces.requireExisting('default')
  await expect(namespaces.requireExisting('absent')).rejects.toThrow('namespace: absent does not exist')
})

test('an unreachable database is 503 without its address', async () => {
  const gone = openDatabase('postgres://127.0.0.1:1/sluice', {
    connections: 1,
    rawConnections: 1,
    application: 'test',
  })
  const lost = testApp({ api: [namespaceRoutes(makeNamespaceService(gone))] })
  const response = await requestTo(lost, 'GET', '/api/v1/namespaces')
  expect(response.status).toBe(503)
  expect(await errorOf(response)).toEqual({
    code: 'UNAVAILABLE',
    type: 'UNAVAILABLE',
    message: 'a dependency of the service is not available: retry in 5 s',
  })
  await gone.close()
})
