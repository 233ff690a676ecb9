import { beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { openDatabase } from '../../drizzle/client.ts'
import { useDatabase } from '../../tools/service/database.ts'
import type { App } from '../composition/server.ts'
import { requestTo, testApp } from '../composition/test-app.ts'
import { type Access, UNLIMITED } from '../core/access.ts'
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

describe('the protection of a namespace', () => {
  const as = (person: string | null, isAdmin = true): Access => ({
    ...UNLIMITED,
    person,
    may: async () => isAdmin,
  })
  const ref = { name: 'guarded' }
  const protect = (review: 'none' | 'any' | 'four-eyes', by: Access) =>
    namespaces.update(ref, { protection: { review } }, by)
  const present = async () =>
    (await namespaces.list({ limit: 200, offset: 0 })).namespaces.find(({ name }) => name === 'guarded')
      ?.protection
  beforeEach(async () => {
    await database.sql`delete from namespace where name = 'guarded'`
    await namespaces.create({ name: 'guarded' })
  })

  test('is none at first, and changes alone or with the description', async () => {
    expect(await present()).toEqual({ review: 'none' })
    const put = (body: object) => call('PUT', '/namespaces/guarded', body)
    expect((await put({ protection: { review: 'any' } })).status).toBe(204)
    expect((await put({ description: 'ours', protection: { review: 'any' } })).status).toBe(204)
    expect(await present()).toEqual({ review: 'any' })
    expect((await put({ protection: { review: 'two' } })).status).toBe(400)
    expect((await errorOf(await put({ protection: { review: 'four-eyes' } }))).message).toContain(
      'protection.review: four-eyes needs callers that can be told apart',
    )
  })

  test('is lowered from four eyes by two administrators', async () => {
    await protect('four-eyes', as('ann'))
    for (let times = 0; times < 2; times++)
      await expect(protect('none', as('ann'))).rejects.toThrow(
        'protection.review: four-eyes is lowered to none when another administrator',
      )
    expect(await present()).toEqual({ review: 'four-eyes', proposed: { review: 'none', by: 'ann' } })
    // Another wish is another change.
    await expect(protect('any', as('bob'))).rejects.toThrow('lowered to any')
    await expect(protect('none', as('ann'))).rejects.toThrow('lowered to none')
    await protect('none', as('bob'))
    expect(await present()).toEqual({ review: 'none' })
  })

  test('keeps the description when a lower rule is refused', async () => {
    await protect('four-eyes', as('ann'))
    const both = { description: 'new', protection: { review: 'any' } } as const
    await expect(namespaces.update(ref, both, as('ann'))).rejects.toThrow('four-eyes')
    const { namespaces: list } = await namespaces.list({ limit: 200, offset: 0 })
    expect(list.find(({ name }) => name === 'guarded')?.description).toBe('')
  })

  test('withdraws a wish when an administrator sends the present rule', async () => {
    await protect('four-eyes', as('ann'))
    await expect(protect('none', as('ann'))).rejects.toThrow('four-eyes')
    await protect('four-eyes', as('bob'))
    await expect(protect('none', as('bob'))).rejects.toThrow('four-eyes')
  })

  test('is changed by administrators only, and others send it back', async () => {
    await expect(protect('any', as('eve', false))).rejects.toThrow(
      'admin permission on the namespace required',
    )
    await protect('none', as('eve', false))
  })

  test('refuses the deletion of the namespace', async () => {
    await protect('four-eyes', as('ann'))
    await expect(namespaces.remove(ref)).rejects.toThrow('which needs two administrators')
    await expect(namespaces.removeEmpty(ref)).rejects.toThrow('which needs two administrators')
  })
})
