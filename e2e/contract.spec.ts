// A client that knows the specification and nothing else: each operation once with all going well, each answer with the
// fields that the specification lists and as the service's own document describes it. Nothing of either is left out.
import { type APIRequestContext, type APIResponse, expect, test } from '@playwright/test'
import { type Json, type Operation, operationsOf, type ValidatorOf, validatorsOf } from './document.ts'
import { ENDLESS, fresh, getJson, newPipeline, readiness, writeFile } from './resources.ts'

test.describe.configure({ mode: 'serial' })

let operations: Operation[]
let validatorOf: ValidatorOf
const succeeded = new Set<string>()

test.beforeAll(async ({ request }) => {
  const document = await getJson(request, '/swagger/json')
  operations = operationsOf(document)
  validatorOf = validatorsOf()
})

type Sent = NonNullable<Parameters<APIRequestContext['fetch']>[1]>

interface Call extends Pick<Sent, 'data' | 'multipart' | 'params' | 'headers'> {
  /** Values of the places in the path. */
  at?: Record<string, string>
}

/** Makes a call that has to succeed with this status; answers what it answers, which has the form that is declared. */
async function ok(request: APIRequestContext, what: string, status: number, call: Call = {}): Promise<Json> {
  const [method = '', path = ''] = what.split(' ')
  const operation = operations.find((one) => one.method === method && one.path === path)
  if (operation === undefined) throw new Error(`the document does not have ${what}`)
  const { at = {}, ...rest } = call
  const url = path.replace(/\{(\w+)\}/g, (_, name) => at[name] ?? '')
  const response = await request.fetch(url, { method, ...rest })
  const text = await response.text()
  expect([what, response.status(), text.slice(0, 500)]).toEqual([what, status, expect.anything()])
  const body = isJson(response) ? JSON.parse(text) : text
  expect([what, validatorOf(operation, String(status))?.(body) ?? '']).toEqual([what, ''])
  succeeded.add(what)
  return body
}

const isJson = (response: APIResponse) =>
  response.headers()['content-type']?.includes('application/json') === true

/** Fields by their names, as the specification lists them: `a b?` where `b` may be null. */
function has(value: unknown, fields: string) {
  for (const field of fields.split(' ')) {
    const name = field.replace('?', '')
    const found = (value as Json | undefined)?.[name]
    expect([name, found]).toEqual([name, field.endsWith('?') ? (found ?? null) : expect.anything()])
    expect(Object.keys(value as Json)).toContain(name)
  }
}
const lacks = (value: unknown, fields: string) =>
  expect(Object.keys(value as Json).filter((name) => fields.split(' ').includes(name))).toEqual([])
const first = (body: Json, list: string) => {
  expect(Number(body.total)).toBeGreaterThan(0)
  return (body[list] as unknown[])[0]
}

const PIPELINE = '/api/v1/pipelines/{ns}/{layer}/{name}'
const TABLE = '/api/v1/tables/{ns}/{layer}/{name}'
const ZONE = '/api/v1/landing-zones/{ns}/{name}'
const INSTANCE = '/api/v1/inspector/{machine}/instances/{id}'
const at = { ns: 'default', layer: 'silver', name: fresh('contract') }
const named = { namespace: at.ns, layer: at.layer, pipeline: at.name }
const prefix = `${at.ns}/pipelines/${at.layer}/${at.name}/`

test('pipelines, their files, versions, tests and previews answer as specified', async ({ request }) => {
  const created = await ok(request, 'POST /api/v1/pipelines', 201, {
    data: { namespace: at.ns, layer: at.layer, name: at.name, description: 'By the book' },
  })
  has(created, 'namespace layer name s3_path files_created')
  expect([created.s3_path, created.files_created]).toEqual([
    prefix,
    expect.arrayContaining([expect.stringMatching(/pipeline\.sql$/), expect.stringMatching(/config\.yaml$/)]),
  ])
  const listed = first(
    await ok(request, 'GET /api/v1/pipelines', 200, { params: { search: at.name } }),
    'pipelines',
  )
  has(listed, 'namespace layer name type owner? description created_at updated_at last_run?')
  lacks(listed, 's3_path')
  const got = await ok(request, `GET ${PIPELINE}`, 200, { at })
  has(got, 'namespace layer name type owner? description s3_path created_at updated_at last_run?')
  expect(got).toMatchObject({ type: 'sql', last_run: null })
  has(
    await ok(request, `PUT ${PIPELINE}`, 200, { at, data: { description: 'Changed' } }),
    'namespace layer name type owner? description s3_path created_at updated_at last_run?',
  )

  const source = `${prefix}pipeline.sql`
  const written = await ok(request, 'PUT /api/v1/files/{path}', 200, {
    at: { path: source },
    data: { content: "select 1 as a, 'x' as b" },
  })
  expect(written).toMatchObject({ path: source, status: 'written', version_id: expect.any(String) })
  has(
    await ok(request, 'GET /api/v1/files/{path}', 200, { at: { path: source } }),
    'path content size modified version_id',
  )
  const upload = { name: 'notes.md', mimeType: 'text/markdown', buffer: Buffer.from('# Notes') }
  expect(
    await ok(request, 'POST /api/v1/files/upload', 201, {
      multipart: { path: `${prefix}notes.md`, file: upload },
    }),
  ).toMatchObject({ path: `${prefix}notes.md`, filename: 'notes.md', size: 7, status: 'uploaded' })
  const { files } = (await ok(request, 'GET /api/v1/files', 200, { params: { prefix } })) as { files: Json[] }
  has(files[0], 'path size modified type version_id')
  const types = Object.fromEntries(files.map(({ path, type }) => [String(path).slice(prefix.length), type]))
  expect(types).toEqual({ 'pipeline.sql': 'pipeline-sql', 'config.yaml': 'config', 'notes.md': 'doc' })
  await ok(request, 'DELETE /api/v1/files/{path}', 204, { at: { path: `${prefix}notes.md` } })

  const test = await ok(request, `POST ${PIPELINE}/tests`, 201, {
    at,
    data: { name: 'no-nulls', sql: 'select count(*) from {{ this }} where a is null', severity: 'warn' },
  })
  expect(test).toEqual({ name: 'no-nulls', severity: 'warn', path: `${prefix}tests/quality/no-nulls.sql` })
  const preview = await ok(request, `POST ${PIPELINE}/preview`, 200, { at, params: { limit: '5' } })
  has(preview, 'columns rows total_row_count phases explain_output memory_peak_bytes logs warnings')
  expect([preview.rows, preview.total_row_count]).toEqual([[[1, 'x']], 1])
  expect((preview.phases as Json[]).map(({ name }) => name)).toEqual([
    'template_render',
    'sql_execute',
    'profiling',
  ])
  has((preview.phases as Json[])[0], 'name duration_ms metadata')

  const published = await ok(request, `POST ${PIPELINE}/publish`, 200, { at, data: { message: 'First' } })
  expect(published).toMatchObject({ status: 'published', version: 1, message: 'First' })
  expect(Object.keys(published.versions as Json)).toContain(source)
  const versions = await ok(request, `GET ${PIPELINE}/versions`, 200, { at })
  const version = 'id pipeline_id version_number message published_versions created_at'
  has(first(versions, 'versions'), version)
  has(await ok(request, `GET ${PIPELINE}/versions/{number}`, 200, { at: { ...at, number: '1' } }), version)
  expect(await ok(request, `POST ${PIPELINE}/rollback`, 200, { at, data: { version: 1 } })).toMatchObject({
    status: 'rolled_back',
    from_version: 1,
    new_version: 2,
    message: 'Rollback to v1',
  })
  const tests = await ok(request, `GET ${PIPELINE}/tests`, 200, { at })
  has(first(tests, 'tests'), 'name sql severity description published tags remediation')
})

test('runs, their logs, tables, queries and lineage answer as specified', async ({ request }) => {
  const asked = await ok(request, 'POST /api/v1/runs', 202, { data: named })
  expect(asked).toMatchObject({ run_id: expect.any(String), status: 'pending' })
  const id = String(asked.run_id)
  await expect
    .poll(async () => (await getJson(request, `/api/v1/runs/${id}`)).finished_at, {
      intervals: [50, 100],
    })
    .not.toBeNull()
  const fields =
    'id namespace layer pipeline status trigger started_at? finished_at? duration_ms? rows_written? created_at'
  const run = await ok(request, 'GET /api/v1/runs/{id}', 200, { at: { id } })
  has(run, `${fields} error?`)
  expect(run).toMatchObject({ status: 'success', trigger: 'manual', rows_written: 1, error: null })
  const listed = first(await ok(request, 'GET /api/v1/runs', 200, { params: named }), 'runs')
  has(listed, fields)
  lacks(listed, 'error')
  const { logs, status } = await ok(request, 'GET /api/v1/runs/{id}/logs', 200, { at: { id } })
  expect(status).toBe('success')
  has((logs as Json[])[0], 'timestamp level message')
  const { last_run } = await ok(request, `GET ${PIPELINE}`, 200, { at })
  expect(last_run).toMatchObject({ run_id: id, status: 'success', finished_at: run.finished_at })

  const results = await ok(request, `POST ${PIPELINE}/tests/run`, 200, { at })
  expect(results).toMatchObject({ passed: 1, failed: 0, total: 1 })
  has((results.results as Json[])[0], 'name status severity value expected duration_ms')
  await ok(request, `DELETE ${PIPELINE}/tests/{testName}`, 204, { at: { ...at, testName: 'no-nulls' } })

  const answer = await ok(request, 'POST /api/v1/query', 200, {
    data: { sql: `select * from ${at.layer}."${at.name}"`, namespace: at.ns },
  })
  expect(answer).toMatchObject({
    columns: [
      { name: 'a', type: 'INTEGER' },
      { name: 'b', type: 'VARCHAR' },
    ],
    rows: [{ a: 1, b: 'x' }],
    total_rows: 1,
    duration_ms: expect.any(Number),
  })
  const { tables } = await ok(request, 'GET /api/v1/schema', 200)
  expect(tables).toContainEqual({
    namespace: at.ns,
    layer: at.layer,
    name: at.name,
    columns: answer.columns,
  })
  const table = first(
    await ok(request, 'GET /api/v1/tables', 200, { params: { namespace: at.ns } }),
    'tables',
  )
  has(table, 'namespace layer name row_count size_bytes description?')
  lacks(table, 'owner columns')
  const detail = await ok(request, `GET ${TABLE}`, 200, { at })
  has(detail, 'namespace layer name row_count size_bytes description? owner? columns')
  has((detail.columns as Json[])[0], 'name type description?')
  has(
    await ok(request, `GET ${TABLE}/preview`, 200, { at, params: { limit: '1' } }),
    'columns rows total_rows duration_ms',
  )
  expect(
    await ok(request, `PUT ${TABLE}/metadata`, 200, {
      at,
      data: { description: 'One row', column_descriptions: { a: 'A number' } },
    }),
  ).toMatchObject({
    namespace: at.ns,
    layer: at.layer,
    name: at.name,
    description: 'One row',
    owner: null,
    column_descriptions: { a: 'A number' },
  })
  const { nodes, edges } = (await ok(request, 'GET /api/v1/lineage', 200, {
    params: { namespace: at.ns },
  })) as { nodes: Json[]; edges: Json[] }
  const key = `${at.ns}.${at.layer}.${at.name}`
  const nodeOf = (nodeId: string) => nodes.find((node) => node.id === nodeId)
  has(nodeOf(`pipeline:${key}`), 'id type namespace layer name latest_run? quality?')
  has(nodeOf(`pipeline:${key}`)?.latest_run, 'id status started_at? duration_ms?')
  has(nodeOf(`table:${key}`)?.table_stats, 'row_count size_bytes')
  expect(edges).toContainEqual({ source: `pipeline:${key}`, target: `table:${key}`, type: 'produces' })

  const { url, prefix, ...slow } = await newPipeline(request)
  await writeFile(request, `${prefix}pipeline.sql`, ENDLESS)
  expect((await request.post(`${url}/publish`)).status()).toBe(200)
  const { run_id } = await ok(request, 'POST /api/v1/runs', 202, {
    data: { namespace: slow.namespace, layer: slow.layer, pipeline: slow.name },
  })
  expect(await ok(request, 'POST /api/v1/runs/{id}/cancel', 200, { at: { id: String(run_id) } })).toEqual({
    run_id,
    status: 'cancelled',
  })

  const machine = { machine: 'run' }
  await ok(request, 'GET /api/v1/inspector/machines', 200)
  for (const name of ['run', 'draft', 'trigger'])
    await ok(request, `GET /api/v1/inspector/machines/${name}.svg`, 200)
  await ok(request, 'GET /api/v1/inspector/{machine}/instances', 200, { at: machine })
  await ok(request, `GET ${INSTANCE}`, 200, { at: { ...machine, id } })
  await ok(request, `GET ${INSTANCE}/export.json`, 200, { at: { ...machine, id } })
  await ok(request, `GET ${INSTANCE}/export.svg`, 200, { at: { ...machine, id } })
})

test('landing zones answer as specified', async ({ request }) => {
  const here = { ns: at.ns, name: fresh('contract') }
  const file = { name: 'crews.csv', mimeType: 'text/csv', buffer: Buffer.from('a\n1\n') }
  has(
    await ok(request, 'POST /api/v1/landing-zones', 201, { data: { namespace: here.ns, name: here.name } }),
    'id namespace name description created_at',
  )
  const fields = 'id namespace name description file_count total_bytes created_at updated_at'
  has(
    first(await ok(request, 'GET /api/v1/landing-zones', 200, { params: { namespace: here.ns } }), 'zones'),
    fields,
  )
  has(
    await ok(request, `PUT ${ZONE}`, 200, {
      at: here,
      data: { description: 'Crews', owner: 'ops', expected_schema: 'a:INTEGER' },
    }),
    fields,
  )
  const stored = await ok(request, `POST ${ZONE}/files`, 201, { at: here, multipart: { file } })
  has(stored, 'id zone_id filename s3_path size_bytes content_type uploaded_at')
  expect(stored.filename).toMatch(/^\d{8}_\d{6}_crews\.csv$/)
  expect(stored.s3_path).toBe(`${here.ns}/landing/${here.name}/${stored.filename}`)
  const one = { ...here, id: String(stored.id) }
  expect(first(await ok(request, `GET ${ZONE}/files`, 200, { at: here }), 'files')).toEqual(stored)
  expect(await ok(request, `GET ${ZONE}/files/{id}`, 200, { at: one })).toEqual(stored)
  expect(await ok(request, `GET ${ZONE}`, 200, { at: here })).toMatchObject({ file_count: 1, total_bytes: 4 })
  const sample = await ok(request, `POST ${ZONE}/samples`, 201, { at: here, multipart: { file } })
  expect(sample).toMatchObject({ filename: 'crews.csv', size: 4, status: 'uploaded' })
  expect(sample.path).toBe(`${here.ns}/landing/${here.name}/_samples/crews.csv`)
  has(first(await ok(request, `GET ${ZONE}/samples`, 200, { at: here }), 'files'), 'path size modified type')
  await ok(request, `DELETE ${ZONE}/samples/{filename}`, 204, { at: { ...here, filename: 'crews.csv' } })
  await ok(request, `DELETE ${ZONE}/files/{id}`, 204, { at: one })
  const lifecycle = { processed_max_age_days: 5, auto_purge: true }
  await ok(request, `PUT ${ZONE}/lifecycle`, 204, { at: here, data: lifecycle })
  expect(await ok(request, `GET ${ZONE}/lifecycle`, 200, { at: here })).toEqual(lifecycle)
  await ok(request, `DELETE ${ZONE}`, 204, { at: here })
})

test('triggers, webhooks and schedules answer as specified', async ({ request }) => {
  const fields =
    'id pipeline_id type config enabled cooldown_seconds last_triggered_at? last_run_id? created_at updated_at'
  const made = await ok(request, `POST ${PIPELINE}/triggers`, 201, {
    at,
    data: { type: 'webhook', config: {} },
  })
  has(made, `${fields} webhook_url webhook_token`)
  expect(made).toMatchObject({
    enabled: true,
    cooldown_seconds: 0,
    webhook_token: expect.stringMatching(/^[0-9a-f]{64}$/),
    webhook_url: expect.stringMatching(/\/api\/v1\/webhooks$/),
    config: { token_hash: expect.stringMatching(/^[0-9a-f]{64}$/) },
  })
  const one = { ...at, id: String(made.id) }
  const listed = first(await ok(request, `GET ${PIPELINE}/triggers`, 200, { at }), 'triggers')
  has(listed, `${fields} webhook_url`)
  lacks(listed, 'webhook_token')
  lacks(await ok(request, `GET ${PIPELINE}/triggers/{id}`, 200, { at: one }), 'webhook_token')
  has(
    await ok(request, `PUT ${PIPELINE}/triggers/{id}`, 200, { at: one, data: { cooldown_seconds: 60 } }),
    fields,
  )
  const headers = { 'x-webhook-token': String(made.webhook_token) }
  has(await ok(request, 'POST /api/v1/webhooks', 201, { headers }), 'run_id')
  await ok(request, `DELETE ${PIPELINE}/triggers/{id}`, 204, { at: one })

  const schedule = await ok(request, 'POST /api/v1/schedules', 201, { data: { ...named, cron: '0 6 * * 1' } })
  has(schedule, 'id namespace layer pipeline cron enabled created_at updated_at')
  lacks(schedule, 'last_run_at next_run_at')
  const scheduleAt = { id: String(schedule.id) }
  const whole = 'id namespace layer pipeline cron enabled last_run_at? next_run_at? created_at updated_at'
  has(first(await ok(request, 'GET /api/v1/schedules', 200), 'schedules'), whole)
  has(await ok(request, 'GET /api/v1/schedules/{id}', 200, { at: scheduleAt }), whole)
  has(
    await ok(request, 'PUT /api/v1/schedules/{id}', 200, { at: scheduleAt, data: { enabled: false } }),
    whole,
  )
  await ok(request, 'DELETE /api/v1/schedules/{id}', 204, { at: scheduleAt })
})

test('namespaces, retention, audit, features and health answer as specified', async ({ request }) => {
  const name = fresh('contract')
  has(await ok(request, 'POST /api/v1/namespaces', 201, { data: { name } }), 'name description created_at')
  has(first(await ok(request, 'GET /api/v1/namespaces', 200), 'namespaces'), 'name description created_at')
  await ok(request, 'PUT /api/v1/namespaces/{name}', 204, { at: { name }, data: { description: 'x' } })
  await ok(request, 'DELETE /api/v1/namespaces/{name}', 204, { at: { name } })

  const settings =
    'runs_max_per_pipeline runs_max_age_days logs_max_age_days quality_results_max_per_test soft_delete_purge_days ' +
    'stuck_run_timeout_minutes audit_log_max_age_days nessie_orphan_branch_max_age_hours reaper_interval_minutes ' +
    'iceberg_snapshot_max_age_days iceberg_orphan_file_max_age_days'
  has((await ok(request, 'GET /api/v1/admin/retention/config', 200)).config, settings)
  has(await ok(request, 'PUT /api/v1/admin/retention/config', 200, { data: {} }), settings)
  const counters =
    'last_run_at? runs_pruned logs_pruned quality_pruned pipelines_purged runs_failed branches_cleaned lz_files_cleaned ' +
    'audit_pruned updated_at'
  has(await ok(request, 'GET /api/v1/admin/retention/status', 200), counters)
  has(await ok(request, 'POST /api/v1/admin/retention/run', 202), counters)
  await ok(request, `PUT ${PIPELINE}/retention`, 204, { at, data: { runs_max_per_pipeline: 7 } })
  const { overrides, effective } = await ok(request, `GET ${PIPELINE}/retention`, 200, { at })
  expect(overrides).toEqual({ runs_max_per_pipeline: 7 })
  has(effective, settings)
  expect(effective).toMatchObject({ runs_max_per_pipeline: 7 })

  const entries = (await ok(request, 'GET /api/v1/audit', 200, { params: { limit: '3' } })) as unknown
  expect(entries).toHaveLength(3)
  has((entries as Json[])[0], 'id user_id action resource detail ip created_at')
  const features = await ok(request, 'GET /api/v1/features', 200)
  has(features, 'edition plugins namespaces multi_user landing_zones license?')
  has(features.plugins, 'auth sharing executor audit enforcement')
  await ok(request, `DELETE ${PIPELINE}`, 204, { at })

  expect(await ok(request, 'GET /health', 200)).toEqual({ status: 'healthy' })
  has(await ok(request, 'GET /health/live', 200), 'status version go_version build_time git_commit')
  await readiness(request)
  const ready = await ok(request, 'GET /health/ready', 200)
  expect(ready).toMatchObject({ status: 'ok' })
  has(ready.services, 'postgres s3 runner query')
  expect(await ok(request, 'GET /metrics', 200)).toContain('sluice_http_requests_total')
})

test('that was every operation of the document', () => {
  const elsewhere = ({ path }: Operation) =>
    // 501 in this edition; and streams that have no end.
    path.startsWith('/api/v1/sharing') || (path.startsWith('/api/v1/inspector/') && path.endsWith('/events'))
  const left = operations
    .filter((operation) => !elsewhere(operation))
    .map(({ method, path }) => `${method} ${path}`)
    .filter((what) => !succeeded.has(what))
  expect(left).toEqual([])
})
