// Views: a pipeline with `materialized: view` stores its SQL, and readers see the rows of its tables.
import { type APIRequestContext, expect, test } from '@playwright/test'
import {
  expectError,
  fresh,
  getJson,
  newNamespace,
  pipelineWith,
  publish,
  pythonOf,
  rowsOf,
  writeFile,
} from '../kit/resources.ts'
import { ended, getRun, logOf, newTable, runToEnd, runToSuccess } from '../kit/runs.ts'

const VIEW = '-- @materialized: view\n'

/** A pipeline of the gold layer that stores this SQL as a view, published but not run. */
async function newView(request: APIRequestContext, namespace: string, sql: string) {
  const pipeline = await pipelineWith(request, VIEW + sql, { namespace, layer: 'gold', name: fresh('v') })
  await publish(request, pipeline)
  return pipeline
}

test('a run stores a view whose rows are those of its table now @views.life', async ({ request }) => {
  const namespace = await newNamespace(request)
  const table = await newTable(request, { namespace, layer: 'silver' }, 'select 1 as id, 2.5 as price')
  const view = await newView(
    request,
    namespace,
    `select o.id, price * 2 as twice from {{ ref('silver.${table.name}') }} o;`,
  )
  const run = await runToSuccess(request, view)
  expect(run.rows_written).toBe(0)
  const query = `select * from gold."${view.name}" order by id`
  expect(await rowsOf(request, query, namespace)).toEqual([{ id: 1, twice: 5 }])
  await writeFile(request, `${table.prefix}pipeline.sql`, 'select range as id, 1.5 as price from range(2)')
  await runToSuccess(request, table)
  expect(await rowsOf(request, query, namespace)).toEqual([
    { id: 0, twice: 3 },
    { id: 1, twice: 3 },
  ])
  const before = { sql: query, namespace, as_of: run.merged_commit }
  expect((await (await request.post('/api/v1/query', { data: before })).json()).rows).toEqual([
    { id: 1, twice: 5 },
  ])

  // The id is a BIGINT now, so the columns of the view have changed once.
  expect((await runToSuccess(request, view)).merged_commit).not.toBeNull()
  const again = await runToSuccess(request, view)
  expect(again.merged_commit).toBeNull()
  expect((await logOf(request, again.id)).map(({ message }) => message)).toContain(
    'the view is unchanged: it stays as it is',
  )
})

test('views read views, tests and other pipelines read views, and previews show them @views.readers', async ({
  request,
}) => {
  const namespace = await newNamespace(request)
  const table = await newTable(request, { namespace, layer: 'silver' }, 'select range as id from range(4)')
  const even = await newView(
    request,
    namespace,
    `select id from {{ ref('silver.${table.name}') }} where id % 2 = 0`,
  )
  await writeFile(
    request,
    `${even.prefix}tests/quality/odd.sql`,
    'select count(*) from {{ this }} where id % 2 = 1',
  )
  await publish(request, even)
  const run = await runToSuccess(request, even)
  expect((await logOf(request, run.id)).map(({ message }) => message)).toContainEqual(
    expect.stringMatching(/^1 test passed, 0 failed/),
  )
  const sum = await newView(
    request,
    namespace,
    `select sum(id)::int as total from {{ ref('gold.${even.name}') }}`,
  )
  await runToSuccess(request, sum)
  expect(await rowsOf(request, `select * from gold."${sum.name}"`, namespace)).toEqual([{ total: 2 }])

  const copy = await newTable(
    request,
    { namespace, layer: 'gold' },
    `select t.total, t.total + 1 as next from {{ ref('gold.${sum.name}') }} t`,
  )
  expect(await rowsOf(request, `select * from gold."${copy.name}"`, namespace)).toEqual([
    { total: 2, next: 3 },
  ])
  const preview = await request.post(`${copy.url}/preview`, { data: {} })
  expect((await preview.json()).rows).toEqual([[2, 3]])
  const tested = await request.post(`${even.url}/tests/run`)
  expect(await tested.json()).toMatchObject({ results: [{ name: 'odd', status: 'passed' }] })
})

test('a view that no longer binds is an error that names it @views.broken', async ({ request }) => {
  const namespace = await newNamespace(request)
  const table = await newTable(request, { namespace, layer: 'silver' }, 'select 1 as id, 2 as price')
  const view = await newView(request, namespace, `select price from {{ ref('silver.${table.name}') }}`)
  await runToSuccess(request, view)
  await writeFile(request, `${table.prefix}pipeline.sql`, 'select 1 as id, 2 as cost')
  await runToSuccess(request, table)
  const broken = new RegExp(`view ${namespace}.gold.${view.name} cannot be read: Binder Error: .*"price"`)
  const sql = `select * from gold."${view.name}"`
  for (const _ of [1, 2])
    await expectError(await request.post('/api/v1/query', { data: { sql, namespace } }), 400, broken)
  expect(await rowsOf(request, `select * from silver."${table.name}"`, namespace)).toEqual([
    { id: 1, cost: 2 },
  ])
  const reader = await pipelineWith(request, `select * from {{ ref('gold.${view.name}') }}`, { namespace })
  expect(await runToEnd(request, reader)).toMatchObject({
    status: 'failed',
    error: expect.stringMatching(broken),
  })

  await writeFile(
    request,
    `${view.prefix}pipeline.sql`,
    `${VIEW}select cost from {{ ref('silver.${table.name}') }}`,
  )
  await publish(request, view)
  await runToSuccess(request, view)
  expect(await rowsOf(request, sql, namespace)).toEqual([{ cost: 2 }])
})

test('a view becomes a table and a view again in one commit each @views.change', async ({ request }) => {
  const namespace = await newNamespace(request)
  const table = await newTable(request, { namespace, layer: 'silver' }, 'select 1 as id')
  const body = `select id + 1 as next from {{ ref('silver.${table.name}') }}`
  const pipeline = await newView(request, namespace, body)
  const query = `select * from gold."${pipeline.name}"`
  const tables = `/iceberg/v1/sluice/namespaces/${namespace}%1Fgold/tables`
  const views = `/iceberg/v1/sluice/namespaces/${namespace}%1Fgold/views`
  const identifier = { namespace: [namespace, 'gold'], name: pipeline.name }
  const commits: number[] = []
  for (const kind of ['view', 'table', 'view'] as const) {
    await writeFile(request, `${pipeline.prefix}pipeline.sql`, kind === 'view' ? VIEW + body : body)
    await publish(request, pipeline)
    commits.push((await runToSuccess(request, pipeline)).merged_commit)
    expect(await rowsOf(request, query, namespace)).toEqual([{ next: 2 }])
    const isView = kind === 'view'
    expect(await getJson(request, tables)).toEqual({ identifiers: isView ? [] : [identifier] })
    expect(await getJson(request, views)).toEqual({ identifiers: isView ? [identifier] : [] })
    const [found, missing] = isView ? [views, tables] : [tables, views]
    expect((await request.head(`${found}/${pipeline.name}`)).status()).toBe(204)
    expect((await request.get(`${missing}/${pipeline.name}`)).status()).toBe(404)
  }
  expect(new Set(commits).size).toBe(3)
  const { metadata } = await getJson(request, `${views}/${pipeline.name}`)
  expect(metadata).toMatchObject({
    'format-version': 1,
    versions: [
      {
        'version-id': 1,
        representations: [
          {
            type: 'sql',
            dialect: 'duckdb',
            sql: `select id + 1 as next from "${namespace}"."silver"."${table.name}"`,
          },
        ],
      },
    ],
    schemas: [{ fields: [{ name: 'next', type: 'int' }] }],
  })
})

test('publish binds a view to the columns of its tables @views.publish', async ({ request }) => {
  const namespace = await newNamespace(request)
  const table = await newTable(request, { namespace, layer: 'silver' }, 'select 1 as id')
  const from = `{{ ref('silver.${table.name}') }}`
  const pipeline = await pipelineWith(request, '', { namespace, layer: 'gold' })
  for (const [sql, reason] of [
    [`select cost from ${from}`, /Binder Error: Referenced column "cost" not found/],
    [`select id from {{ ref('silver.absent') }}`, /table .*\.silver\.absent does not exist on main/],
    [`select id, id as ID from ${from}`, /two columns are named "ID"/],
    [`select interval 1 day as span from ${from}`, /"span".*INTERVAL/],
    [`select * from {{ this }}`, /a view cannot read itself/],
    [`select * from read_parquet('/etc/passwd')`, /read_parquet\(\) is not allowed/],
  ] as const) {
    await writeFile(request, `${pipeline.prefix}pipeline.sql`, VIEW + sql)
    const refused = await request.post(`${pipeline.url}/publish`)
    expect([sql, refused.status(), (await refused.json()).error]).toEqual([
      sql,
      422,
      expect.stringMatching(reason),
    ])
  }
  const computed = `${VIEW}{% set t = 'silver.${table.name}' %}select id from {{ ref(t) }}`
  await writeFile(request, `${pipeline.prefix}pipeline.sql`, computed)
  await publish(request, pipeline)
  await runToSuccess(request, pipeline)
  const over = await pipelineWith(
    request,
    `${VIEW}select id + 1 as next from {{ ref('gold.${pipeline.name}') }}`,
    {
      namespace,
      layer: 'gold',
    },
  )
  await publish(request, over)
})

test('a view of a branch reads the tables of the branch @views.branch', async ({ request }) => {
  const namespace = await newNamespace(request)
  const table = await newTable(request, { namespace, layer: 'silver' }, 'select 1 as id')
  const view = await newView(request, namespace, `select id from {{ ref('silver.${table.name}') }}`)
  await runToSuccess(request, view)
  const branch = fresh('dev')
  expect((await request.post('/api/v1/branches', { data: { name: branch } })).status()).toBe(201)
  await writeFile(request, `${table.prefix}pipeline.sql`, 'select 2 as id')
  const run = async (name: string) => {
    const data = { namespace, layer: 'silver', pipeline: name, branch, draft: true }
    const response = await request.post('/api/v1/runs', { data })
    expect(response.status(), await response.text()).toBe(202)
    expect(await ended(request, (await response.json()).run_id)).toMatchObject({ status: 'success' })
  }
  await run(table.name)
  const sql = `select * from gold."${view.name}"`
  const onBranch = await request.post('/api/v1/query', { data: { sql, namespace, branch } })
  expect((await onBranch.json()).rows).toEqual([{ id: 2 }])
  expect(await rowsOf(request, sql, namespace)).toEqual([{ id: 1 }])
  const path = `/api/v1/tables/${namespace}/gold/${view.name}`
  const listed = await getJson(request, '/api/v1/tables', { namespace })
  expect(listed.tables).toMatchObject([
    { name: view.name, kind: 'view' },
    { name: table.name, kind: 'table' },
  ])
  expect(await getJson(request, path, { branch })).toMatchObject({
    kind: 'view',
    row_count: 0,
    size_bytes: 0,
    columns: [{ name: 'id', type: 'INTEGER' }],
  })
  expect((await getJson(request, `${path}/preview`, { branch })).rows).toEqual([{ id: 2 }])
  expect((await request.post(`/api/v1/branches/${branch}/merge`)).status()).toBe(200)
  expect(await rowsOf(request, sql, namespace)).toEqual([{ id: 2 }])
  const { tables } = await getJson(request, '/api/v1/schema')
  expect(tables).toContainEqual({
    namespace,
    layer: 'gold',
    name: view.name,
    columns: [{ name: 'id', type: 'INTEGER' }],
  })
})

test('a diff shows the columns of a view and no rows @views.diff', async ({ request }) => {
  const namespace = await newNamespace(request)
  const table = await newTable(request, { namespace, layer: 'silver' }, 'select 1 as id, 2 as price')
  const from = `from {{ ref('silver.${table.name}') }}`
  const view = await newView(request, namespace, `select id ${from}`)
  await runToSuccess(request, view)
  const branch = fresh('dev')
  expect((await request.post('/api/v1/branches', { data: { name: branch } })).status()).toBe(201)
  await writeFile(request, `${view.prefix}pipeline.sql`, `${VIEW}select price, id ${from}`)
  const data = { namespace, layer: 'gold', pipeline: view.name, branch, draft: true }
  const started = await (await request.post('/api/v1/runs', { data })).json()
  expect(await ended(request, started.run_id)).toMatchObject({ status: 'success' })
  const diff = `/api/v1/branches/${branch}/diff`
  expect((await getJson(request, diff)).tables).toMatchObject([
    {
      name: view.name,
      change: 'changed',
      rows_added: 0,
      rows_removed: 0,
      schema: { added: [{ name: 'price', type: 'INTEGER' }], removed: [], changed: [] },
    },
  ])
  const refused = await request.get(`${diff}/${namespace}/gold/${view.name}`)
  expect([refused.status(), (await refused.json()).error]).toEqual([
    409,
    {
      code: 'FAILED_PRECONDITION',
      type: 'CONFLICT',
      message: expect.stringContaining('a view stores no rows'),
    },
  ])
})

test('Python reads views by a computed name @views.python', async ({ request }) => {
  if ((await pythonOf(request)) === null) return
  const namespace = await newNamespace(request)
  const table = await newTable(request, { namespace, layer: 'silver' }, 'select 3 as id')
  const view = await newView(request, namespace, `select id from {{ ref('silver.${table.name}') }}`)
  await runToSuccess(request, view)
  const source = `result = sql("select id from " + ref('gold.' + '${view.name}'))`
  const python = await pipelineWith(request, source, { namespace, layer: 'gold', type: 'python' })
  await runToSuccess(request, python)
  expect(await rowsOf(request, `select * from gold."${python.name}"`, namespace)).toEqual([{ id: 3 }])
})

test('views that read each other are an error for every reader @views.cycle', async ({ request }) => {
  const namespace = await newNamespace(request)
  const first = await newView(request, namespace, 'select 1 as id')
  await runToSuccess(request, first)
  const second = await newView(request, namespace, `select id from {{ ref('gold.${first.name}') }}`)
  await runToSuccess(request, second)
  await writeFile(
    request,
    `${first.prefix}pipeline.sql`,
    `${VIEW}select id from {{ ref('gold.${second.name}') }}`,
  )
  await publish(request, first)
  expect(await runToEnd(request, first)).toMatchObject({
    status: 'failed',
    error: expect.stringContaining('reads itself'),
  })
  expect(await rowsOf(request, `select * from gold."${second.name}"`, namespace)).toEqual([{ id: 1 }])
})

test('a view reads neither itself nor landing zones nor files @views.refused', async ({ request }) => {
  const namespace = await newNamespace(request)
  for (const [sql, reason] of [
    ['select * from {{ this }}', /a view cannot read itself/],
    [`select * from read_csv('{{ landing_zone("z") }}')`, /a view cannot read landing zone z/],
    [`select * from read_csv('/etc/passwd')`, /read_csv/],
    ['select * from duckdb_settings()', /duckdb_settings/],
  ] as const) {
    const pipeline = await pipelineWith(request, VIEW + sql, { namespace, layer: 'gold' })
    const run = await runToEnd(request, pipeline)
    expect(run).toMatchObject({ status: 'failed', error: expect.stringMatching(reason) })
  }
  const python = await pipelineWith(request, 'result = [{"a": 1}]', { namespace, type: 'python' })
  await writeFile(request, `${python.prefix}config.yaml`, 'materialized: view\n')
  const refused = await request.post(`${python.url}/publish`)
  expect([refused.status(), await refused.text()]).toEqual([
    422,
    expect.stringContaining('needs a pipeline of type sql'),
  ])
  expect((await getRun(request, (await runToEnd(request, python)).id)).error).toContain(
    'needs a pipeline of type sql',
  )
})

test('a pipeline reads a view that an engine stored on a branch @views.engines', async ({ request }) => {
  const namespace = await newNamespace(request)
  const table = await newTable(request, { namespace, layer: 'silver' }, 'select 1 as id')
  const branch = fresh('dev')
  expect((await request.post('/api/v1/branches', { data: { name: branch } })).status()).toBe(201)
  const root = `/iceberg/v1/sluice.${branch}`
  const views = `${root}/namespaces/${namespace}%1Fgold/views`
  const identifier = (name: string) => ({ namespace: [namespace, 'gold'], name })
  const from = `"${namespace}".silver."${table.name}"`
  const schema = (name: string) => ({
    type: 'struct',
    fields: [{ id: 1, name, type: 'int', required: false }],
  })
  const version = (sql: string, dialect = 'duckdb') => ({
    'version-id': 1,
    'timestamp-ms': 0,
    'schema-id': -1,
    summary: {},
    representations: [{ type: 'sql', sql, dialect }],
    'default-namespace': [namespace, 'gold'],
  })
  const create = (sql: string, dialect?: string) =>
    request.post(views, {
      data: { name: 'v', schema: schema('id'), 'view-version': version(sql, dialect), properties: {} },
    })
  expect((await create(`select id from ${from}`, 'spark')).status()).toBe(400)
  const created = await create(`select id from ${from}`)
  expect(created.status()).toBe(200)
  const { metadata } = await created.json()
  const replaced = await request.post(`${views}/v`, {
    data: {
      requirements: [{ type: 'assert-view-uuid', uuid: metadata['view-uuid'] }],
      updates: [
        { action: 'add-schema', schema: schema('next') },
        { action: 'add-view-version', 'view-version': version(`select id + 1 as next from ${from}`) },
        { action: 'set-current-view-version', 'view-version-id': -1 },
      ],
    },
  })
  expect(replaced.status()).toBe(200)
  const names = { source: identifier('v'), destination: identifier('w') }
  expect((await request.post(`${root}/views/rename`, { data: names })).status()).toBe(204)
  expect((await request.post(`/api/v1/branches/${branch}/merge`, { data: {} })).status()).toBe(200)
  expect(await rowsOf(request, 'select * from gold.w', namespace)).toEqual([{ next: 2 }])
  const reader = await newTable(request, { namespace, layer: 'gold' }, "select next from {{ ref('gold.w') }}")
  expect(await rowsOf(request, `select * from gold."${reader.name}"`, namespace)).toEqual([{ next: 2 }])
})
