import { beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { useDatabase } from '../../tools/service/database.ts'
import { addPipeline } from '../../workers/testing.ts'
import type { App } from '../composition/server.ts'
import { requestTo, testApp } from '../composition/test-app.ts'
import type { DryRunResult } from '../core/removals.ts'
import { retentionRoutes } from './routes.ts'
import { makeRetentionService, type RetentionDeps } from './service.ts'

setDefaultTimeout(60_000)
const database = useDatabase({ connections: 2, rawConnections: 2 })
let app: App
let reaped = 0
const REMOVALS: DryRunResult = {
  would_remove: [{ duty: 'runs', kind: 'runs', total: 2, size_bytes: 0, items: ['a', 'b'] }],
  incomplete: [],
}

beforeAll(async () => {
  await addPipeline(database.sql, 'kept', { landingZones: [], nudge: () => {} })
  app = appThat({
    async run() {
      reaped += 1
    },
    dryRun: async () => REMOVALS,
  })
})

const appThat = (reaper: RetentionDeps['reaper']) =>
  testApp({ api: [retentionRoutes(makeRetentionService({ db: database.db, reaper }))] })
const ask = async (method: string, path: string, body?: object, from = app) => {
  const response = await requestTo(from, method, path, body)
  const text = await response.text()
  return { status: response.status, body: text === '' ? null : JSON.parse(text) }
}

test('a manual run performs one tick and answers the status', async () => {
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

test('a dry run performs no tick and answers the removals beside the status', async () => {
  const before = reaped
  const { status, body } = await ask('POST', '/api/v1/admin/retention/run?dry_run=true')
  expect([status, reaped]).toEqual([202, before])
  const { body: current } = await ask('GET', '/api/v1/admin/retention/status')
  expect(body).toEqual({ ...current, ...REMOVALS })
  expect((await ask('POST', '/api/v1/admin/retention/run?dry_run=perhaps')).status).toBe(400)
})

test('a tick that fails is 503', async () => {
  const fail = () => Promise.reject(new Error('reaper tick not completed'))
  const failing = appThat({ run: fail, dryRun: fail })
  const { status, body } = await ask('POST', '/api/v1/admin/retention/run', undefined, failing)
  expect([status, body.error]).toEqual([503, expect.objectContaining({ code: 'UNAVAILABLE' })])
})
