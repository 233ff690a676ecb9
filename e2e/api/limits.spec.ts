// Specification: Limits that the tests of single resources do not reach.
import { expect, test } from '@playwright/test'
import {
  addTest,
  expectError,
  fresh,
  getJson,
  newPipeline,
  newZone,
  pipelineWith,
  publish,
} from '../kit/resources.ts'
import { runToSuccess } from '../kit/runs.ts'

const KEPT = 50

test('a pipeline keeps its last 50 versions and deletes older ones @limit.versions', async ({ request }) => {
  const { url } = await newPipeline(request)
  await publish(request, { url })
  for (let version = 2; version <= KEPT + 2; version++)
    expect((await request.post(`${url}/rollback`, { data: { version: version - 1 } })).status()).toBe(200)
  const { versions, total } = await getJson(request, `${url}/versions`, { limit: 200 })
  expect([total, versions.length]).toEqual([KEPT, KEPT])
  const numbers = versions.map((version: { version_number: number }) => version.version_number)
  expect([numbers[0], numbers.at(-1)]).toEqual([KEPT + 2, 3])
  await expectError(await request.get(`${url}/versions/2`), 404)
  await expectError(await request.post(`${url}/rollback`, { data: { version: 2 } }), 404)
})

test('names of maximum length with every allowed character work @limit.names', async ({ request }) => {
  const long = (text: string) => `${fresh('0')}-${text}`.padEnd(128, 'z')
  const namespace = fresh('long').padEnd(63, 'z')
  expect((await request.post('/api/v1/namespaces', { data: { name: namespace } })).status()).toBe(201)
  const [name, test] = [long('a_b'), long('a-b')]
  const zone = await newZone(request, namespace, long('a-b'))
  await zone.upload('a.csv')
  const sql = `select * from read_csv_auto('{{ landing_zone("${zone.name}") }}')`
  const pipeline = await pipelineWith(request, sql, { namespace, layer: 'gold', name })
  await addTest(request, pipeline, { name: test, sql: 'select 0', severity: 'error' })
  await runToSuccess(request, pipeline)
  const table = await getJson(request, `/api/v1/tables/${namespace}/gold/${name}`)
  expect(table).toMatchObject({ row_count: 1 })
})

test('a text that is too long is 400 naming its field @convention.text-limit', async ({ request }) => {
  const { namespace, layer, name, url } = await newPipeline(request)
  const zone = await newZone(request, namespace)
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
    ['put', zone.url, 'description', 10_000, {}],
    ['put', zone.url, 'owner', 255, {}],
    ['put', zone.url, 'expected_schema', 10_000, {}],
    ['post', `${url}/tests`, 'description', 10_000, test],
    ['post', '/api/v1/runs', 'trigger', 200, of],
    ['post', '/api/v1/schedules', 'cron', 200, of],
  ] as const) {
    const data = { ...others, [field]: 'x'.repeat(limit + 1) }
    await expectError(await request[method](path, { data }), 400, new RegExp(`^${field}: .*${limit}`))
  }
})
