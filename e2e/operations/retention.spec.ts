// Specification: Retention, Retention config, Reaper status. The settings apply to a whole service, so these tests use their
// own.
import { type APIRequestContext, expect } from '@playwright/test'
import { eventually } from '../kit/eventually.ts'
import { test } from '../kit/own-service.ts'
import {
  ENDLESS,
  expectError,
  fresh,
  getJson,
  instant,
  type MadePipeline,
  newPipeline,
  newZone,
  pipelineWith,
  publish,
  publishedPipeline,
  rowsOf,
  writeFile,
} from '../kit/resources.ts'
import { getRun, requestRun, runToEnd, runToSuccess } from '../kit/runs.ts'

test.describe.configure({ mode: 'serial' })

const CONFIG = '/api/v1/admin/retention/config'
const STATUS = '/api/v1/admin/retention/status'
const RUN = '/api/v1/admin/retention/run'
const DEFAULTS = {
  runs_max_per_pipeline: 100,
  runs_max_age_days: 90,
  logs_max_age_days: 30,
  quality_results_max_per_test: 100,
  soft_delete_purge_days: 30,
  stuck_run_timeout_minutes: 120,
  audit_log_max_age_days: 365,
  nessie_orphan_branch_max_age_hours: 6,
  reaper_interval_minutes: 60,
  iceberg_snapshot_max_age_days: 7,
  iceberg_orphan_file_max_age_days: 3,
}
const COUNTERS = {
  runs_pruned: expect.any(Number),
  logs_pruned: expect.any(Number),
  quality_pruned: expect.any(Number),
  pipelines_purged: expect.any(Number),
  runs_failed: expect.any(Number),
  branches_cleaned: expect.any(Number),
  lz_files_cleaned: expect.any(Number),
  audit_pruned: expect.any(Number),
}

test('pipeline retention overrides take precedence, are replaced whole and can be cleared', {
  tag: [
    '@retention.pipeline',
    '@retention.pipeline.404',
    '@retention.pipeline.put',
    '@retention.pipeline.put.400',
    '@retention.pipeline.put.404',
  ],
}, async ({ request }) => {
  const { url } = await newPipeline(request)
  const { config } = await getJson(request, CONFIG)
  const path = `${url}/retention`
  expect(await getJson(request, path)).toEqual({
    system: config,
    overrides: null,
    effective: config,
  })
  const put = await request.put(path, { data: { runs_max_per_pipeline: 7, logs_max_age_days: 1 } })
  expect([put.status(), await put.text()]).toEqual([204, ''])
  expect(await getJson(request, path)).toEqual({
    system: config,
    overrides: { runs_max_per_pipeline: 7, logs_max_age_days: 1 },
    effective: { ...config, runs_max_per_pipeline: 7, logs_max_age_days: 1 },
  })
  await request.put(path, { data: { runs_max_age_days: 2 } })
  expect((await getJson(request, path)).overrides).toEqual({ runs_max_age_days: 2 })
  expect((await request.put(path, { data: {} })).status()).toBe(204)
  expect((await getJson(request, path)).overrides).toBeNull()
  for (const [name, value] of [
    ['runs_max_per_pipeline', 0],
    ['runs_max_age_days', -1],
    ['logs_max_age_days', 0.5],
    ['quality_results_max_per_test', '1'],
  ] as const)
    await expectError(await request.put(path, { data: { [name]: value } }), 400, new RegExp(`^${name}: `))
  const unknown = `/api/v1/pipelines/default/gold/${fresh('none')}/retention`
  await expectError(await request.get(unknown), 404)
  await expectError(await request.put(unknown, { data: {} }), 404)
})

test('invalid retention settings are 400 naming the field and change nothing @retention.config.put.400 @limit.retention', async ({
  request,
}) => {
  const before = await getJson(request, CONFIG)
  const bad: [string, unknown][] = [
    ['runs_max_per_pipeline', 0],
    ['reaper_interval_minutes', 0],
    ...Object.keys(DEFAULTS).flatMap((name): [string, unknown][] =>
      [-1, 1.5, '10', null, 1e300, 2 ** 31].map((value) => [name, value]),
    ),
  ]
  for (const [name, value] of bad) {
    const put = await request.put(CONFIG, { data: { audit_log_max_age_days: 1, [name]: value } })
    await expectError(put, 400, new RegExp(`^${name}: `))
  }
  expect(await getJson(request, CONFIG)).toEqual(before)
})

test('the reaper status can be read and a tick requested @retention.status @retention.run', async ({
  request,
}) => {
  const accepted = await request.post(RUN)
  expect(accepted.status()).toBe(202)
  const status = await accepted.json()
  expect(status).toMatchObject({ ...COUNTERS, last_run_at: instant, updated_at: instant, failures: [] })
  const { last_run_at } = await getJson(request, STATUS)
  expect(Date.parse(last_run_at)).toBeGreaterThanOrEqual(Date.parse(status.last_run_at))
})

test('a dry run lists the removals of a tick and performs none @retention.run.dry', async ({ request }) => {
  // After a requested tick, the tick at the start of the service is no longer due.
  const { last_run_at } = await reap(request)
  const response = await request.post(`${RUN}?dry_run=true`)
  expect(response.status(), await response.text()).toBe(202)
  expect(await response.json()).toMatchObject({
    ...COUNTERS,
    last_run_at,
    would_remove: expect.any(Array),
    incomplete: [],
  })
  expect((await request.post(`${RUN}?dry_run=perhaps`)).status()).toBe(400)
})

const set = async (request: APIRequestContext, config: object) => {
  const response = await request.put(CONFIG, { data: config })
  expect(response.status(), await response.text()).toBe(200)
  return response.json()
}
const reap = async (request: APIRequestContext) => {
  const response = await request.post(RUN)
  expect(response.status(), await response.text()).toBe(202)
  return response.json()
}
const statusOf = async (request: APIRequestContext, id: string) => (await getRun(request, id)).status
const ran = async (request: APIRequestContext, pipeline: MadePipeline) =>
  (await runToSuccess(request, pipeline)).id

test('retention settings have defaults and change only the given fields @retention.config @retention.config.put', async ({
  request,
}) => {
  expect(await getJson(request, CONFIG)).toEqual({ config: DEFAULTS })
  const changed = { ...DEFAULTS, runs_max_age_days: 30 }
  expect(await set(request, { runs_max_age_days: 30 })).toEqual({ ...changed, config: changed })
  expect(await set(request, {})).toEqual({ ...changed, config: changed })
  await set(request, DEFAULTS)
})

test('the reaper ticks at the start of the service', async ({ request }) => {
  await eventually(async () => (await getJson(request, STATUS)).last_run_at).toEqual(instant)
})

test('excess runs are deleted with their logs, except the latest success @reaper.runs', async ({
  request,
}) => {
  const pipeline = await publishedPipeline(request)
  const first = await ran(request, pipeline)
  await writeFile(request, `${pipeline.prefix}pipeline.sql`, 'select nothing from nowhere')
  await publish(request, pipeline)
  const failed: string[] = []
  for (let n = 0; n < 3; n++) {
    const { id, status } = await runToEnd(request, pipeline)
    expect(status).toBe('failed')
    failed.push(id)
  }
  await request.put(`${pipeline.url}/retention`, { data: { runs_max_per_pipeline: 1 } })
  const status = await reap(request)
  expect(status).toMatchObject({ ...COUNTERS, runs_pruned: 2, failures: [] })
  expect(status.logs_pruned).toBeGreaterThan(0)
  await expectError(await request.get(`/api/v1/runs/${failed[0]}`), 404)
  await expectError(await request.get(`/api/v1/runs/${failed[1]}/logs`), 404)
  expect(await statusOf(request, failed[2] ?? '')).toBe('failed')
  expect(await statusOf(request, first)).toBe('success')
  const { runs, total } = await getJson(
    request,
    `/api/v1/runs?namespace=${pipeline.namespace}&pipeline=${pipeline.name}`,
  )
  expect([total, runs.map(({ id }: { id: string }) => id)]).toEqual([2, [failed[2], first]])
  expect(await rowsOf(request, `select a from gold."${pipeline.name}"`)).toEqual([{ a: 1 }])
  expect(await reap(request)).toMatchObject({ runs_pruned: 0, logs_pruned: 0 })
})

test('a run that runs too long fails with a timeout error @run.stuck @reaper.stuck', async ({ request }) => {
  const id = await requestRun(request, await pipelineWith(request, ENDLESS))
  await eventually(() => statusOf(request, id)).toBe('running')
  await set(request, { stuck_run_timeout_minutes: 0 })
  expect((await reap(request)).runs_failed).toBe(1)
  const run = await getJson(request, `/api/v1/runs/${id}`)
  expect(run).toMatchObject({ status: 'failed', error: expect.stringContaining('timed out') })
  await set(request, DEFAULTS)
  const metrics = await (await request.get('/metrics')).text()
  expect(metrics).toMatch(/sluice_runs_total\{status="failed"\} [1-9]/)
})

test('purging a deleted pipeline leaves a new pipeline of its name intact @draft.deleted @reaper.pipelines', async ({
  request,
}) => {
  const first = await publishedPipeline(request, 'select 1 as first')
  const old = await ran(request, first)
  expect((await request.delete(first.url)).status()).toBe(204)
  const { namespace, layer, name } = first
  const second = await pipelineWith(request, 'select 2 as second', { namespace, layer, name })
  const { versions } = await (await request.post(`${second.url}/publish`)).json()
  await set(request, { soft_delete_purge_days: 0 })
  await eventually(async () => (await reap(request)).pipelines_purged).toBe(1)
  await set(request, DEFAULTS)
  await expectError(await request.get(`/api/v1/runs/${old}`), 404)
  const run = await ran(request, second)
  expect((await getJson(request, `/api/v1/runs/${run}`)).version_number).toBe(1)
  const path = `${second.prefix}pipeline.sql`
  expect(Object.keys(versions)).toContain(path)
  expect((await getJson(request, `/api/v1/files/${path}`)).content).toBe('select 2 as second')
})

test('archived landing files move to _processed and are purged if configured @zones.archive @reaper.landing', async ({
  request,
}) => {
  const zone = await newZone(request)
  const file = await zone.upload('a.csv')
  const pipeline = await pipelineWith(
    request,
    `select * from read_csv_auto('{{ landing_zone("${zone.name}") }}')`,
  )
  await writeFile(request, `${pipeline.prefix}config.yaml`, 'archive_landing_zones: true\n')
  const run = await ran(request, pipeline)
  // The effect of the run or the reaper queues the move, whichever comes first.
  await reap(request)
  const fileOf = async () => (await request.get(`${zone.url}/files/${file.id}`)).json()
  await eventually(async () => (await fileOf()).s3_path).toBe(
    `${zone.prefix}_processed/${run}/${file.filename}`,
  )
  const lifecycle = await request.put(`${zone.url}/lifecycle`, {
    data: { processed_max_age_days: 0, auto_purge: true },
  })
  expect(lifecycle.ok(), await lifecycle.text()).toBe(true)
  expect((await reap(request)).lz_files_cleaned).toBe(1)
  await expectError(await request.get(`${zone.url}/files/${file.id}`), 404)
})

test('the reaper deletes audit entries by age @reaper.audit', async ({ request }) => {
  await set(request, { audit_log_max_age_days: 0 })
  const { audit_pruned } = await reap(request)
  await set(request, DEFAULTS)
  expect(audit_pruned).toBeGreaterThan(0)
})

test('the reaper combines small files without a change of rows @reaper.maintenance', async ({ request }) => {
  const pipeline = await publishedPipeline(request, '-- @merge_strategy: append_only\nselect 1 as a')
  for (let n = 0; n < 9; n++) await runToSuccess(request, pipeline)
  const table = `default.${pipeline.layer}.${pipeline.name}`
  const runs = await getJson(request, `/api/v1/runs?pipeline=${pipeline.name}`)
  await reap(request)
  // Maintenance follows the tick.
  await eventually(
    async () => (await getJson(request, `/api/v1/commits?table=${table}`)).commits[0],
  ).toMatchObject({ author: 'maintenance', run_id: null, tables: [table] })
  const { history } = await getJson(
    request,
    `/api/v1/tables/default/${pipeline.layer}/${pipeline.name}/history`,
  )
  expect(history[0]).toMatchObject({ operation: 'replace', row_count: 9, rows_added: 0, rows_removed: 0 })
  expect(await getJson(request, `/api/v1/runs?pipeline=${pipeline.name}`)).toEqual(runs)
  expect(await rowsOf(request, `select * from ${pipeline.layer}."${pipeline.name}"`)).toHaveLength(9)
})
