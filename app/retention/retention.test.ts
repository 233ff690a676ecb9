import { beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { useDatabase } from '../../tools/test/database.ts'
import { addPipeline } from '../../workers/testing.ts'
import type { App } from '../server.ts'
import { requestTo, testApp } from '../test-app.ts'
import { retentionRoutes } from './routes.ts'
import { makeRetentionService, type RetentionDeps } from './service.ts'

setDefaultTimeout(60_000)
const database = useDatabase({ connections: 2, rawConnections: 2 })
let app: App
let reaped = 0

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
const CONFIG = '/api/v1/admin/retention/config'
const PIPELINE = '/api/v1/pipelines/default/gold/kept/retention'

beforeAll(async () => {
  await addPipeline(database.sql, 'kept', { landingZones: [], nudge: () => {} })
  app = appThat({
    async run() {
      reaped += 1
    },
  })
})

const appThat = (reaper: RetentionDeps['reaper']) =>
  testApp({ api: [retentionRoutes(makeRetentionService({ db: database.db, reaper }))] })
const ask = async (method: string, path: string, body?: object, from = app) => {
  const response = await requestTo(from, method, path, body)
  const text = await response.text()
  return { status: response.status, body: text === '' ? null : JSON.parse(text) }
}

test('settings that cannot be are refused by name, and nothing changes', async () => {
  const bad: [string, unknown][] = [
    ['runs_max_per_pipeline', 0],
    ['reaper_interval_minutes', 0],
    ...Object.keys(DEFAULTS).flatMap((name): [string, unknown][] =>
      [-1, 1.5, '10', null, 1e300, 2 ** 31].map((value) => [name, value]),
    ),
  ]
  for (const [name, value] of bad) {
    const { status, body } = await ask('PUT', CONFIG, { audit_log_max_age_days: 1, [name]: value })
    expect([name, value, status, body?.error?.code]).toEqual([name, value, 400, 'INVALID_ARGUMENT'])
    expect(body.error.message).toStartWith(`${name}: `)
  }
  expect((await ask('GET', CONFIG)).body.config).toEqual(DEFAULTS)
})

test('overrides that cannot be are 400 by name; those of a pipeline that is not there are 404', async () => {
  for (const [name, value] of [
    ['runs_max_per_pipeline', 0],
    ['runs_max_age_days', -1],
    ['logs_max_age_days', 0.5],
    ['quality_results_max_per_test', '1'],
  ] as const) {
    const { status, body } = await ask('PUT', PIPELINE, { [name]: value })
    expect([status, body.error.message]).toEqual([400, expect.stringContaining(`${name}: `)])
  }
  const unknown = '/api/v1/pipelines/default/gold/unknown/retention'
  expect((await ask('GET', unknown)).status).toBe(404)
  expect((await ask('PUT', unknown, {})).status).toBe(404)
  expect((await ask('PUT', unknown, { runs_max_age_days: 1 })).status).toBe(404)
})

test('a run asked for by hand is one tick, and answers its status', async () => {
  await database.sql`update reaper_status set failures = '["audit entries"]'`
  expect((await ask('GET', '/api/v1/admin/retention/status')).body).toMatchObject({
    last_run_at: null,
    runs_pruned: 0,
    failures: ['audit entries'],
  })
  const { status, body } = await ask('POST', '/api/v1/admin/retention/run')
  expect([status, reaped]).toEqual([202, 1])
  expect(body).toEqual((await ask('GET', '/api/v1/admin/retention/status')).body)
})

test('without a reaper a run is 503, and the rest works', async () => {
  const without = appThat(null)
  const { status, body } = await ask('POST', '/api/v1/admin/retention/run', undefined, without)
  expect([status, body.error]).toEqual([503, expect.objectContaining({ code: 'UNAVAILABLE' })])
  expect((await ask('GET', '/api/v1/admin/retention/status', undefined, without)).status).toBe(200)
  expect((await ask('GET', CONFIG, undefined, without)).status).toBe(200)
})

test('a tick that cannot be made is 503 as well, not a fault of the request', async () => {
  const failing = appThat({ run: () => Promise.reject(new Error('the reaper has not finished its tick')) })
  const { status, body } = await ask('POST', '/api/v1/admin/retention/run', undefined, failing)
  expect([status, body.error]).toEqual([503, expect.objectContaining({ code: 'UNAVAILABLE' })])
})
