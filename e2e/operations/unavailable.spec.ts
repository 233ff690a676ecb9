// Specification: Errors, specific conditions. A part of the service is switched off, or its address does not answer.
import {
  type APIRequestContext,
  type APIResponse,
  expect,
  request as newRequest,
  test,
} from '@playwright/test'
import { type OwnService, startOwnService } from '../kit/own-service.ts'
import { addTest, expectError, getJson, newPipeline, newZone } from '../kit/resources.ts'
import { cancel, getRun, requestRun } from '../kit/runs.ts'

const TABLE = '/api/v1/tables/default/gold/delays'
/** No process listens at this address. */
const NOWHERE = 'http://127.0.0.1:1'

/** Requests by row of COVERAGE.md. */
const NEEDS_QUERIES: Record<string, (request: APIRequestContext) => Promise<APIResponse>> = {
  query: (request) => request.post('/api/v1/query', { data: { sql: 'select 1' } }),
  schema: (request) => request.get('/api/v1/schema'),
  'tables.list': (request) => request.get('/api/v1/tables'),
  'tables.get': (request) => request.get(TABLE),
  'tables.preview': (request) => request.get(`${TABLE}/preview`),
}

const SETTINGS = [
  {
    title: 'a part that is switched off',
    env: { RUNNER_URLS: 'none', QUERY_URLS: 'none', REAPER: 'off', AUDIT: 'off', METADATA: 'off' },
    withoutQuery: 500,
  },
  {
    title: 'a part that does not answer',
    env: { RUNNER_URLS: NOWHERE, QUERY_URLS: NOWHERE, REAPER: 'off' },
    withoutQuery: 503,
  },
] as const

for (const { title, env, withoutQuery } of SETTINGS)
  test.describe(title, () => {
    test.describe.configure({ mode: 'serial' })
    let service: OwnService
    let request: APIRequestContext
    test.beforeAll(async () => {
      service = await startOwnService(env, 'listening on http')
      request = await newRequest.newContext({ baseURL: service.url })
    })
    test.afterAll(async () => {
      await request?.dispose()
      await service?.stop()
    })

    for (const [row, ask] of Object.entries(NEEDS_QUERIES))
      test(`${row} is ${withoutQuery} without a query service @${row}.500 @${row}.503`, async () => {
        await expectError(await ask(request), withoutQuery, /^query service is not/)
      })

    test('a preview is 503 without a runner @pipelines.preview.503.off @pipelines.preview.503.away', async () => {
      const { url } = await newPipeline(request)
      await expectError(await request.post(`${url}/preview`), 503, /runner/)
      await expectError(await request.post('/api/v1/pipelines/default/bronze/nobody/preview'), 404)
    })

    test('the schema of a zone with files is 503 without a runner @zones.schema.503.off @zones.schema.503.away', async () => {
      const { url, upload } = await newZone(request)
      expect(await getJson(request, `${url}/schema`)).toMatchObject({ source: 'none' })
      await upload('a.csv')
      await expectError(await request.get(`${url}/schema`), 503, /runner/)
    })

    test('running quality tests is 503 without a runner @tests.run.503.off @tests.run.503.away', async () => {
      const { url } = await newPipeline(request)
      await addTest(request, { url }, { name: 'no-nulls', sql: 'select 0', severity: 'error' })
      await expectError(await request.post(`${url}/tests/run`), 503, /runner/)
    })

    test('publish succeeds without a runner and reports no validation @pipelines.publish.no-runner.off @pipelines.publish.no-runner.away', async () => {
      const { url } = await newPipeline(request)
      const published = await request.post(`${url}/publish`, { data: { message: 'Unseen' } })
      expect([published.status(), await published.json()]).toEqual([
        200,
        {
          status: 'published',
          version: 1,
          message: 'Unseen',
          versions: expect.any(Object),
          validation: null,
        },
      ])
    })

    test('a run requested without a runner stays pending @runs.no-runner.off @runs.no-runner.away', async () => {
      const run_id = await requestRun(request, await newPipeline(request))
      const pending = { status: 'pending', started_at: null, error: null }
      expect(await getRun(request, run_id)).toMatchObject(pending)
      await cancel(request, run_id)
    })

    test('a requested reaper tick is 503 without a reaper @retention.run.503', async () => {
      await expectError(await request.post('/api/v1/admin/retention/run'), 503, /reaper/)
    })

    test('retention settings can be read and changed without a reaper', async () => {
      const retention = '/api/v1/admin/retention'
      const status = await getJson(request, `${retention}/status`)
      expect(status).toMatchObject({ last_run_at: null, runs_pruned: 0 })
      const put = await request.put(`${retention}/config`, { data: { runs_max_age_days: 5 } })
      expect(put.status(), await put.text()).toBe(200)
      const { config } = await getJson(request, `${retention}/config`)
      expect(config).toMatchObject({ runs_max_age_days: 5, logs_max_age_days: 30 })
    })

    if (withoutQuery === 500) {
      test('the audit log is 404 when auditing is off @audit.404', async () => {
        expect((await request.delete('/api/v1/namespaces/none')).status()).toBe(404)
        await expectError(await request.get('/api/v1/audit'), 404)
        const { plugins } = await getJson(request, '/api/v1/features')
        expect(plugins.audit).toEqual({ enabled: false })
      })

      test('a metadata change is 503 without a metadata store @tables.metadata.503', async () => {
        const put = await request.put(`${TABLE}/metadata`, { data: { owner: 'ops' } })
        await expectError(put, 503, /metadata/)
      })
    } else
      test('readiness is 503 and names the parts that do not answer @health.ready.503', async () => {
        const response = await request.get('/health/ready')
        expect([response.status(), await response.json()]).toEqual([
          503,
          expect.objectContaining({
            status: 'degraded',
            services: { postgres: 'healthy', s3: 'healthy', runner: 'unhealthy', query: 'unhealthy' },
          }),
        ])
        expect((await request.get('/health')).status()).toBe(200)
      })
  })
