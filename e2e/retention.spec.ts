// Specification: Retention, Retention config, Reaper status. The settings hold for a whole service, so what they do is tried
// on a service of our own.
import { type APIRequestContext, expect, request as newRequest, test } from '@playwright/test'
import { type OwnService, startOwnService } from './own-service.ts'
import {
  ENDLESS,
  expectError,
  fresh,
  instant,
  type MadePipeline,
  newPipeline,
  writeFile,
} from './resources.ts'
import { getRun, requestRun, runToEnd } from './runs.ts'

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

test('a pipeline’s overrides are put on top of the settings, replaced as a whole, and cleared', {
  tag: [
    '@retention.pipeline',
    '@retention.pipeline.404',
    '@retention.pipeline.put',
    '@retention.pipeline.put.400',
    '@retention.pipeline.put.404',
  ],
}, async ({ request }) => {
  const { url } = await newPipeline(request)
  const { config } = await (await request.get(CONFIG)).json()
  const path = `${url}/retention`
  expect(await (await request.get(path)).json()).toEqual({
    system: config,
    overrides: null,
    effective: config,
  })
  const put = await request.put(path, { data: { runs_max_per_pipeline: 7, logs_max_age_days: 1 } })
  expect([put.status(), await put.text()]).toEqual([204, ''])
  expect(await (await request.get(path)).json()).toEqual({
    system: config,
    overrides: { runs_max_per_pipeline: 7, logs_max_age_days: 1 },
    effective: { ...config, runs_max_per_pipeline: 7, logs_max_age_days: 1 },
  })
  await request.put(path, { data: { runs_max_age_days: 2 } })
  expect((await (await request.get(path)).json()).overrides).toEqual({ runs_max_age_days: 2 })
  expect((await request.put(path, { data: {} })).status()).toBe(204)
  expect((await (await request.get(path)).json()).overrides).toBeNull()
  await expectError(
    await request.put(path, { data: { runs_max_per_pipeline: 0 } }),
    400,
    /^runs_max_per_pipeline: /,
  )
  await expectError(await request.put(path, { data: { runs_max_age_days: -1 } }), 400, /^runs_max_age_days: /)
  const unknown = `/api/v1/pipelines/default/gold/${fresh('none')}/retention`
  await expectError(await request.get(unknown), 404)
  await expectError(await request.put(unknown, { data: {} }), 404)
})

test('settings that cannot be are refused by name @retention.config.put.400 @limit.retention', async ({
  request,
}) => {
  for (const [name, value] of [
    ['runs_max_per_pipeline', 0],
    ['reaper_interval_minutes', 0],
    ['runs_max_age_days', -1],
    ['logs_max_age_days', 1.5],
    ['audit_log_max_age_days', 'a year'],
    ['iceberg_snapshot_max_age_days', 1e12],
  ] as const)
    await expectError(await request.put(CONFIG, { data: { [name]: value } }), 400, new RegExp(`^${name}: `))
})

test('the status of the last tick can be read, and a tick be asked for @retention.status @retention.run', async ({
  request,
}) => {
  const asked = await request.post(RUN)
  expect(asked.status()).toBe(202)
  const status = await asked.json()
  expect(status).toMatchObject({ ...COUNTERS, last_run_at: instant, updated_at: instant, failures: [] })
  const { last_run_at } = await (await request.get(STATUS)).json()
  expect(Date.parse(last_run_at)).toBeGreaterThanOrEqual(Date.parse(status.last_run_at))
})

test.describe('a service of our own', () => {
  test.describe.configure({ mode: 'serial' })
  let service: OwnService
  let request: APIRequestContext

  test.beforeAll(async () => {
    service = await startOwnService({})
    request = await newRequest.newContext({ baseURL: service.url })
  })
  test.afterAll(async () => {
    await request?.dispose()
    await service?.stop()
  })

  const set = async (config: object) => {
    const response = await request.put(CONFIG, { data: config })
    expect(response.status(), await response.text()).toBe(200)
    return response.json()
  }
  const reap = async () => {
    const response = await request.post(RUN)
    expect(response.status(), await response.text()).toBe(202)
    return response.json()
  }
  const statusOf = async (id: string) => (await getRun(request, id)).status
  const start = (pipeline: MadePipeline) => requestRun(request, pipeline)
  async function ran(pipeline: MadePipeline, status = 'success') {
    const run = await runToEnd(request, pipeline)
    expect(run.status).toBe(status)
    return run.id
  }

  test('has the settings of the specification, changes what is given, and answers both readings @retention.config @retention.config.put', async () => {
    expect(await (await request.get(CONFIG)).json()).toEqual({ config: DEFAULTS })
    const changed = { ...DEFAULTS, runs_max_age_days: 30 }
    expect(await set({ runs_max_age_days: 30 })).toEqual({ ...changed, config: changed })
    expect(await set({})).toEqual({ ...changed, config: changed })
    await set(DEFAULTS)
  })

  test('has ticked at its start', async () => {
    await expect.poll(async () => (await (await request.get(STATUS)).json()).last_run_at).toEqual(instant)
  })

  test('runs beyond the count go with their logs; the latest success stays, and the table too @reaper.runs', async () => {
    const pipeline = await newPipeline(request)
    await writeFile(request, `${pipeline.prefix}pipeline.sql`, 'select 1 as a')
    expect((await request.post(`${pipeline.url}/publish`)).status()).toBe(200)
    const first = await ran(pipeline)
    await writeFile(request, `${pipeline.prefix}pipeline.sql`, 'select nothing from nowhere')
    expect((await request.post(`${pipeline.url}/publish`)).status()).toBe(200)
    const failed = [
      await ran(pipeline, 'failed'),
      await ran(pipeline, 'failed'),
      await ran(pipeline, 'failed'),
    ]
    await request.put(`${pipeline.url}/retention`, { data: { runs_max_per_pipeline: 1 } })
    const status = await reap()
    expect(status).toMatchObject({ ...COUNTERS, runs_pruned: 2, failures: [] })
    expect(status.logs_pruned).toBeGreaterThan(0)
    await expectError(await request.get(`/api/v1/runs/${failed[0]}`), 404)
    await expectError(await request.get(`/api/v1/runs/${failed[1]}/logs`), 404)
    expect(await statusOf(failed[2] ?? '')).toBe('failed')
    expect(await statusOf(first)).toBe('success')
    const { runs, total } = await (
      await request.get(`/api/v1/runs?namespace=${pipeline.namespace}&pipeline=${pipeline.name}`)
    ).json()
    expect([total, runs.map(({ id }: { id: string }) => id)]).toEqual([2, [failed[2], first]])
    const query = await request.post('/api/v1/query', {
      data: { sql: `select a from bronze."${pipeline.name}"` },
    })
    expect((await query.json()).rows).toEqual([{ a: 1 }])
    expect(await reap()).toMatchObject({ runs_pruned: 0, logs_pruned: 0 })
  })

  test('a run that has been running for too long is failed, and says so @run.stuck @reaper.stuck', async () => {
    const pipeline = await newPipeline(request)
    await writeFile(request, `${pipeline.prefix}pipeline.sql`, ENDLESS)
    const id = await start(pipeline)
    await expect.poll(() => statusOf(id)).toBe('running')
    await set({ stuck_run_timeout_minutes: 0 })
    expect((await reap()).runs_failed).toBe(1)
    const run = await (await request.get(`/api/v1/runs/${id}`)).json()
    expect(run).toMatchObject({ status: 'failed', error: expect.stringContaining('timed out') })
    await set(DEFAULTS)
    const metrics = await (await request.get('/metrics')).text()
    expect(metrics).toMatch(/sluice_runs_total\{status="failed"\} [1-9]/)
  })

  test('a deleted pipeline goes for good, and one that has its name since loses nothing @draft.deleted @reaper.pipelines', async () => {
    const first = await newPipeline(request)
    await writeFile(request, `${first.prefix}pipeline.sql`, 'select 1 as first')
    await request.post(`${first.url}/publish`)
    const old = await ran(first)
    expect((await request.delete(first.url)).status()).toBe(204)
    const { namespace, layer, name } = first
    const second = await newPipeline(request, { namespace, layer, name })
    await writeFile(request, `${second.prefix}pipeline.sql`, 'select 2 as second')
    const { versions } = await (await request.post(`${second.url}/publish`)).json()
    await set({ soft_delete_purge_days: 0 })
    await expect.poll(async () => (await reap()).pipelines_purged).toBe(1)
    await set(DEFAULTS)
    await expectError(await request.get(`/api/v1/runs/${old}`), 404)
    const run = await ran(second)
    expect((await (await request.get(`/api/v1/runs/${run}`)).json()).version_number).toBe(1)
    const path = `${second.prefix}pipeline.sql`
    expect(Object.keys(versions)).toContain(path)
    expect((await (await request.get(`/api/v1/files/${path}`)).json()).content).toBe('select 2 as second')
  })

  test('archived landing files move to _processed, and go where the zone says so @zones.archive @reaper.landing', async () => {
    const zone = fresh('zone')
    const zoneUrl = `/api/v1/landing-zones/default/${zone}`
    await request.post('/api/v1/landing-zones', { data: { namespace: 'default', name: zone } })
    const upload = await request.post(`${zoneUrl}/files`, {
      multipart: { file: { name: 'a.csv', mimeType: 'text/csv', buffer: Buffer.from('a\n1\n') } },
    })
    const file = await upload.json()
    const pipeline = await newPipeline(request)
    await writeFile(
      request,
      `${pipeline.prefix}pipeline.sql`,
      `select * from read_csv_auto('{{ landing_zone("${zone}") }}')`,
    )
    await writeFile(request, `${pipeline.prefix}config.yaml`, 'archive_landing_zones: true\n')
    const run = await ran(pipeline)
    // Whichever comes first, the effect of the run or the reaper, queues the move.
    await reap()
    const fileOf = async () => (await request.get(`${zoneUrl}/files/${file.id}`)).json()
    await expect
      .poll(async () => (await fileOf()).s3_path)
      .toBe(`default/landing/${zone}/_processed/${run}/${file.filename}`)
    const lifecycle = await request.put(`${zoneUrl}/lifecycle`, {
      data: { processed_max_age_days: 0, auto_purge: true },
    })
    expect(lifecycle.ok(), await lifecycle.text()).toBe(true)
    expect((await reap()).lz_files_cleaned).toBe(1)
    await expectError(await request.get(`${zoneUrl}/files/${file.id}`), 404)
  })

  test('audit entries go by age @reaper.audit', async () => {
    await set({ audit_log_max_age_days: 0 })
    const { audit_pruned } = await reap()
    await set(DEFAULTS)
    expect(audit_pruned).toBeGreaterThan(0)
  })
})
