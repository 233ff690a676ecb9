// Specification: Health, metrics, features.
import { expect, test } from '@playwright/test'
import { getJson, readiness } from '../kit/resources.ts'

test('liveness endpoints report the process and its build @health @health.live', async ({ request }) => {
  expect(await getJson(request, '/health')).toEqual({ status: 'healthy' })
  expect(await getJson(request, '/health/live')).toEqual({
    status: 'healthy',
    version: expect.any(String),
    go_version: expect.stringMatching(/^(bun|node|deno)\d+\.\d+/),
    build_time: expect.stringMatching(/^unknown$|^\d{4}-\d\d-\d\dT/),
    git_commit: expect.stringMatching(/^unknown$|^[0-9a-f]{40,64}$/),
  })
})

test('readiness reports database, objects, runner and query service as healthy @runtime @health.ready', async ({
  request,
}) => {
  const body = await readiness(request)
  expect(body).toEqual({
    status: 'ok',
    services: { postgres: 'healthy', s3: 'healthy', runner: 'healthy', query: 'healthy' },
    details: {},
    // These values depend on the machine.
    python: body.python,
    engines: { runner: body.engines.runner, query: body.engines.query },
  })
  for (const sandbox of Object.values(body.engines)) expect(sandbox).toMatch(/^(landlock|seccomp|none)$/)
  if (body.python !== null) {
    expect(body.python.sandbox).toMatch(/^(bubblewrap|landlock)$/)
    expect(body.python.version).toMatch(/^3\./)
  }
})

test('metrics are text with the names of the specification @metrics', async ({ request }) => {
  const response = await request.get('/metrics')
  expect(response.headers()['content-type']).toContain('text/plain')
  const text = await response.text()
  for (const [name, type] of [
    ['http_requests_total', 'counter'],
    ['http_request_duration_seconds', 'histogram'],
    ['runs_total', 'counter'],
    ['pipeline_runs_total', 'counter'],
    ['active_runs', 'gauge'],
    ['runs_in_review', 'gauge'],
    ['scheduler_ticks_total', 'counter'],
    ['scheduler_runs_triggered_total', 'counter'],
    ['grpc_requests_total', 'counter'],
    ['grpc_request_duration_seconds', 'histogram'],
  ])
    expect(text).toContain(`# TYPE sluice_${name} ${type}\n`)
})

test('features describe the community edition without authentication @features @auth.none', async ({
  request,
}) => {
  expect(await getJson(request, '/api/v1/features')).toEqual({
    edition: 'community',
    plugins: {
      auth: { enabled: false },
      sharing: { enabled: false },
      executor: { enabled: true, type: 'runner' },
      audit: { enabled: true },
      enforcement: { enabled: false },
    },
    namespaces: true,
    multi_user: false,
    landing_zones: true,
    license: null,
  })
})
