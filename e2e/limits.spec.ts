// Specification: Limits, those that no resource's own tests reach.
import { expect, test } from '@playwright/test'
import { expectError, fresh, newPipeline } from './resources.ts'

const KEPT = 50

test('the last 50 versions of a pipeline are kept, older ones go', async ({ request }) => {
  test.setTimeout(60_000)
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

test('a text that is too long is 400 naming its field, wherever one may be sent', async ({ request }) => {
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
