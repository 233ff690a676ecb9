// The second contract: keep_failed_hours. Requested ticks of the reaper concern a whole service, so these tests use their own.
import { type APIRequestContext, expect } from '@playwright/test'
import { eventually } from '../kit/eventually.ts'
import { test } from '../kit/own-service.ts'
import { addTest, expectError, fresh, getJson, pipelineWith, publish, writeFile } from '../kit/resources.ts'
import { runToEnd, runToSuccess } from '../kit/runs.ts'

test.describe.configure({ mode: 'serial' })

const BLOCK = { name: 'strict', severity: 'error', sql: 'select * from {{ this }} where id > 1' } as const

/** A pipeline with one good row on main, and a run that its gate refused. */
async function refused(request: APIRequestContext, keepFailedHours: number | string) {
  const pipeline = await pipelineWith(request, 'select 1 as id', { layer: 'gold' })
  await addTest(request, pipeline, BLOCK)
  await writeFile(request, `${pipeline.prefix}config.yaml`, `keep_failed_hours: ${keepFailedHours}\n`)
  await publish(request, pipeline)
  await runToSuccess(request, pipeline)
  await writeFile(request, `${pipeline.prefix}pipeline.sql`, 'select unnest([1, 7, 8]) as id')
  await publish(request, pipeline)
  const run = await runToEnd(request, pipeline)
  expect(run.status).toBe('failed')
  const table = `${pipeline.namespace}/gold/${pipeline.name}`
  const sql = `select id from ${pipeline.namespace}.gold."${pipeline.name}" order by id`
  return { pipeline, run, table, sql, branch: `run-${run.id}-1` }
}
const query = (request: APIRequestContext, data: object) => request.post('/api/v1/query', { data })

test('refused rows are readable on the kept branch, and the diff shows them @kept.read', async ({
  request,
}) => {
  const { run, table, sql, branch, pipeline } = await refused(request, 1)
  const rows = async (data: object) => (await (await query(request, { sql, ...data })).json()).rows
  expect(await rows({ branch })).toEqual([{ id: 1 }, { id: 7 }, { id: 8 }])
  expect(await rows({})).toEqual([{ id: 1 }])
  expect(await getJson(request, `/api/v1/tables/${table}?branch=${branch}`)).toMatchObject({ row_count: 3 })
  const preview = await getJson(request, `/api/v1/tables/${table}/preview?branch=${branch}`)
  expect(preview.total_rows).toBe(3)
  const { tables } = await getJson(request, `/api/v1/tables?branch=${branch}&namespace=${pipeline.namespace}`)
  expect(tables).toMatchObject([{ name: pipeline.name, row_count: 3 }])
  expect((await request.get(`/api/v1/schema?branch=${branch}`)).status()).toBe(200)
  expect(await getJson(request, `/api/v1/runs/${run.id}/diff`)).toMatchObject({
    from: 'main',
    to: branch,
    tables: [{ name: pipeline.name, change: 'changed', rows_before: 1, rows_after: 3, conflict: false }],
    total: 1,
  })
  expect((await query(request, { sql, branch, as_of: 0 })).status()).toBe(400)
})

test('a kept branch is read-only, unlisted and no obstacle to the next run @kept.closed', async ({
  request,
}) => {
  const { branch, pipeline, sql } = await refused(request, 24)
  const path = `/api/v1/branches/${branch}`
  for (const status of ['open', 'merged', 'deleted'])
    expect((await getJson(request, `/api/v1/branches?status=${status}&search=run-`)).total).toBe(0)
  for (const answer of [
    await request.get(path),
    await request.delete(path),
    await request.post(`${path}/merge`),
    await request.post(`${path}/rebase`),
    await request.get(`${path}/diff`),
    await request.get(`${path}/commits`),
    await request.get(`/iceberg/v1/config?warehouse=sluice@${branch}`),
  ])
    expect([answer.url(), answer.status()]).toEqual([answer.url(), 404])
  const { namespace, layer, name } = pipeline
  const run = { namespace, layer, pipeline: name, branch }
  await expectError(await request.post('/api/v1/runs', { data: run }), 404)
  const from = { name: fresh('copy'), from: branch }
  await expectError(await request.post('/api/v1/branches', { data: from }), 404)
  await writeFile(request, `${pipeline.prefix}pipeline.sql`, 'select 0 as id')
  await publish(request, pipeline)
  await runToSuccess(request, pipeline)
  expect((await (await query(request, { sql, branch })).json()).rows).toHaveLength(3)
})

test('after its time a kept branch is 404, and the reaper deletes it @kept.expiry', async ({ request }) => {
  const { branch, sql, run } = await refused(request, 0.0003)
  const kept = await refused(request, 1)
  await eventually(async () => (await query(request, { sql, branch })).status()).toBe(404)
  const listed = async () => {
    const dryRun = await request.post('/api/v1/admin/retention/run?dry_run=true')
    const { would_remove } = await dryRun.json()
    return would_remove.flatMap((removal: { kind: string; items: string[] }) =>
      removal.kind === 'kept_branches' ? removal.items : [],
    )
  }
  expect(await listed()).toEqual([branch])
  await request.put('/api/v1/admin/retention/config', { data: { nessie_orphan_branch_max_age_hours: 0 } })
  expect((await request.post('/api/v1/admin/retention/run')).status()).toBe(202)
  expect(await listed()).toEqual([])
  expect((await query(request, { sql: kept.sql, branch: kept.branch })).status()).toBe(200)
  // The numbers of the run stay with the run.
  expect(await getJson(request, `/api/v1/runs/${run.id}/diff`)).toMatchObject({ tables: [{ rows_after: 3 }] })
})

test('without the key a refused branch is 404 at once @kept.default', async ({ request }) => {
  const { branch, sql } = await refused(request, 0)
  await expectError(await query(request, { sql, branch }), 404)
  await expectError(await query(request, { sql, branch: `run-${crypto.randomUUID()}-1` }), 404)
})

test('a bad value of keep_failed_hours is refused at publish and fails a run @kept.validation', async ({
  request,
}) => {
  const pipeline = await pipelineWith(request, 'select 1 as id', { layer: 'gold' })
  for (const value of ['-1', '8761', 'soon', '[1]']) {
    await writeFile(request, `${pipeline.prefix}config.yaml`, `keep_failed_hours: ${value}\n`)
    const published = await request.post(`${pipeline.url}/publish`)
    expect([published.status(), await published.text()]).toEqual([
      422,
      expect.stringContaining('keep_failed_hours: must be a number from 0 to 8760'),
    ])
  }
  const run = await runToEnd(request, pipeline)
  expect(run.error).toContain('keep_failed_hours: must be a number from 0 to 8760')
})
