// Specification: Limits, those that no resource's own tests reach.
import { expect, test } from '@playwright/test'
import { expectError, newPipeline } from './resources.ts'

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
