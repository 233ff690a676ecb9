// A file of the lake that is gone, as after a wrong restore: each reader names the table and the file.
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { type APIRequestContext, expect, test } from '@playwright/test'
import { type OwnService, startOwnService } from '../kit/own-service.ts'
import { type MadePipeline, publishedPipeline } from '../kit/resources.ts'
import { runToEnd } from '../kit/runs.ts'

let service: OwnService
let request: APIRequestContext
test.beforeAll(async ({ playwright }) => {
  service = await startOwnService()
  request = await playwright.request.newContext({ baseURL: service.url })
})
test.afterAll(async () => {
  await service?.stop()
})

/** Removes the only file of a table whose key has this form, and returns the key. */
async function loseFile({ name }: MadePipeline, form: RegExp): Promise<string> {
  const root = join(service.dataDir, 'objects')
  const keys = (await readdir(root, { recursive: true })).filter((key) =>
    key.startsWith(`_lake/default/gold/${name}-`),
  )
  const [lost, ...others] = keys.filter((key) => form.test(key))
  if (lost === undefined || others.length > 0) throw new Error(`not one of ${keys.join(', ')}`)
  await rm(join(root, lost))
  return lost
}

for (const [kind, form] of [
  ['data file', /\/data\/[^/]+$/],
  ['manifest', /\/metadata\/[^/]+-m0\.avro$/],
  ['manifest list', /\/metadata\/snap-[^/]+$/],
] as const)
  test(`a run and a query name the table and its missing ${kind}`, async () => {
    const table = await publishedPipeline(request, 'select range as a from range(10)')
    expect((await runToEnd(request, table)).status).toBe('success')
    const reader = await publishedPipeline(request, `select * from {{ ref('gold.${table.name}') }}`)
    const key = await loseFile(table, form)
    const message = `table default.gold.${table.name} cannot be read: its file ${key} is missing from the store`
    expect(await runToEnd(request, reader)).toMatchObject({
      status: 'failed',
      error: expect.stringContaining(message),
    })
    const sql = `select sum(a) from gold."${table.name}"`
    for (const answer of [
      await request.post('/api/v1/query', { data: { sql } }),
      await request.get(`/api/v1/tables/default/gold/${table.name}/preview`),
      await request.post(`${reader.url}/preview`),
    ]) {
      const { error } = await answer.json()
      expect([answer.status(), error.message]).toEqual([400, expect.stringContaining(message)])
    }
  })
