// Specification: Storage, error 500; Limits, lineage file reads. These tests need an object store that fails or is slow.
import { type APIRequestContext, expect, request as newRequest, test } from '@playwright/test'
import { eventually } from '../kit/eventually.ts'
import { startTestStore, type TestStore } from '../kit/object-store.ts'
import { type OwnService, startOwnService } from '../kit/own-service.ts'
import { expectError, getJson } from '../kit/resources.ts'

const READS_AT_ONCE = 20
const PIPELINES = 30

let store: TestStore
let service: OwnService
let api: APIRequestContext

test.describe.configure({ mode: 'serial' })
test.beforeAll(async () => {
  store = await startTestStore()
  service = await startOwnService({ ...store.env, RUNNER_URLS: 'none', QUERY_URLS: 'none' })
  api = await newRequest.newContext({ baseURL: service.url })
})
test.afterAll(async () => {
  await api?.dispose()
  await service?.stop()
  await store?.stop()
})

test('file requests are 500 INTERNAL while the store fails, then recover @files.500', async () => {
  const url = '/api/v1/files/default/pipelines/gold/stored/pipeline.sql'
  const body = { data: { content: 'select 1' } }
  expect((await api.put(url, body)).status()).toBe(200)
  store.fail(true)
  await expectError(await api.get(url), 500)
  await expectError(await api.put(url, { data: { content: 'select 2' } }), 500)
  await expectError(await api.delete(url), 500)
  store.fail(false)
  expect(await getJson(api, url)).toMatchObject({ content: 'select 1' })
  expect((await api.delete(url)).status()).toBe(204)
  await expectError(await api.get(url), 404)
})

test('lineage reads at most 20 files at once, each only once @limit.lineage-reads', async () => {
  for (let n = 0; n < PIPELINES; n++) {
    const created = await api.post('/api/v1/pipelines', {
      data: { namespace: 'default', layer: 'gold', name: `read_${n}` },
    })
    expect(created.status()).toBe(201)
  }
  const held = store.hold()
  const graph = api.get('/api/v1/lineage')
  for (let n = 0; n < PIPELINES; n++) {
    const left = Math.min(READS_AT_ONCE, PIPELINES - n)
    await eventually(held.waiting).toBe(left)
    held.releaseOne()
  }
  const { nodes } = await (await graph).json()
  expect(nodes.filter(({ type }: { type: string }) => type === 'pipeline')).toHaveLength(PIPELINES)
  expect(held.most()).toBe(READS_AT_ONCE)
  expect(held.waiting()).toBe(0)
  // This request does not wait for the store, because the contents are cached.
  expect((await api.get('/api/v1/lineage')).status()).toBe(200)
  held.release()
})
