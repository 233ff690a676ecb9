// Specification: Limits, those that no resource's own tests reach.
import { expect, test } from '@playwright/test'
import { expectError, fresh, newPipeline } from './resources.ts'

const KEPT = 50

test('the last 50 versions of a pipeline are kept, older ones go @limit.versions', async ({ request }) => {
  const { url } = await newPipeline(request)
  expect((await request.post(`${url}/publish`)).status()).toBe(200)
  for (let version = 2; version <= KEPT + 2; version++)
    expect((await request.post(`${url}/rollback`, { data: { version: version - 1 } })).status()).toBe(200)
  const { versions, total } = await (await request.get(`${url}/versions`, { params: { limit: 200 } })).json()
  expect([total, versions.length]).toEqual([KEPT, KEPT])
  const numbers = versions.map((version: { version_number: number }) => version.version_number)
  expect([numbers[0], numbers.at(-1)]).toEqual([KEPT + 2, 3])
  await expectError(await request.get(`${url}/versions/2`), 404)
  await expectError(await request.post(`${url}/rollback`, { data: { version: 2 } }), 404)
})

test('names as long as they may be, and of every character they may have, are taken and work @limit.names', async ({
  request,
}) => {
  const long = (text: string) => `${fresh('0')}-${text}`.padEnd(128, 'z')
  const namespace = fresh('long').padEnd(63, 'z')
  const made = async (path: string, data: object) =>
    expect([path, (await request.post(`/api/v1${path}`, { data })).status()]).toEqual([path, 201])
  await made('/namespaces', { name: namespace })
  const [pipeline, zone, test] = [long('a_b'), long('a-b'), long('a-b')]
  const [url, zoneUrl] = [`/pipelines/${namespace}/gold/${pipeline}`, `/landing-zones/${namespace}/${zone}`]
  await made('/pipelines', { namespace, layer: 'gold', name: pipeline })
  await made('/landing-zones', { namespace, name: zone })
  await made(`${url}/tests`, { name: test, sql: 'select 0', severity: 'error' })
  const file = { name: 'a.csv', mimeType: 'text/csv', buffer: Buffer.from('a\n1\n') }
  expect((await request.post(`/api/v1${zoneUrl}/files`, { multipart: { file } })).status()).toBe(201)
  const data = { content: `select * from read_csv_auto('{{ landing_zone("${zone}") }}')` }
  const source = `/api/v1/files/${namespace}/pipelines/gold/${pipeline}/pipeline.sql`
  expect((await request.put(source, { data })).status()).toBe(200)
  const asked = await request.post('/api/v1/runs', { data: { namespace, layer: 'gold', pipeline } })
  const run = `/api/v1/runs/${(await asked.json()).run_id}`
  await expect.poll(async () => (await (await request.get(run)).json()).status).toBe('success')
  const table = await request.get(`/api/v1/tables/${namespace}/gold/${pipeline}`)
  expect(await table.json()).toMatchObject({ row_count: 1 })
})

test('a text that is too long is 400 naming its field, wherever one may be sent @convention.text-limit', async ({
  request,
}) => {
  const { namespace, layer, name, url } = await newPipeline(request)
  const zone = fresh('zone')
  await request.post('/api/v1/landing-zones', { data: { namespace, name: zone } })
  const of = { namespace, layer, pipeline: name }
  const test = { name: 'some-test', sql: 'select 0', severity: 'warn' }
  for (const [method, path, field, limit, others] of [
    ['post', '/api/v1/namespaces', 'description', 10_000, { name: fresh('described') }],
    ['put', '/api/v1/namespaces/default', 'description', 10_000, {}],
    ['post', '/api/v1/pipelines', 'description', 10_000, { namespace, layer, name: fresh('p') }],
    ['post', '/api/v1/pipelines', 'source', 512, { namespace, layer, name: fresh('p') }],
    ['post', '/api/v1/pipelines', 'unique_key', 2_048, { namespace, layer, name: fresh('p') }],
    ['put', url, 'description', 10_000, {}],
    ['put', url, 'owner', 255, {}],
    ['post', `${url}/publish`, 'message', 10_000, {}],
    ['post', `${url}/rollback`, 'message', 10_000, { version: 1 }],
    ['post', '/api/v1/landing-zones', 'description', 10_000, { namespace, name: fresh('zone') }],
    ['put', `/api/v1/landing-zones/${namespace}/${zone}`, 'description', 10_000, {}],
    ['put', `/api/v1/landing-zones/${namespace}/${zone}`, 'owner', 255, {}],
    ['put', `/api/v1/landing-zones/${namespace}/${zone}`, 'expected_schema', 10_000, {}],
    ['post', `${url}/tests`, 'description', 10_000, test],
    ['post', '/api/v1/runs', 'trigger', 200, of],
    ['post', '/api/v1/schedules', 'cron', 200, of],
  ] as const) {
    const data = { ...others, [field]: 'x'.repeat(limit + 1) }
    await expectError(await request[method](path, { data }), 400, new RegExp(`^${field}: .*${limit}`))
  }
})
