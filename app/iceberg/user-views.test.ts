import { beforeAll, expect, test } from 'bun:test'
import { startTestQueries } from '../../sidecars/query/testing.ts'
import { duringTests } from '../../tools/kit/during.ts'

// Views that engines store on branches. A real query service binds them.

const queries = duringTests(() => startTestQueries())
const GOLD = 'namespaces/default%1Fgold'
let names = 0
const newName = () => `v-${names++}`

beforeAll(async () => {
  await queries.table('default.silver.orders', "select 1 as id, 'a' as customer union all select 2, 'b'")
})

async function newBranch(): Promise<string> {
  const name = `dev-${names++}`
  await queries.catalog.sql`
    insert into lake_ref (name, kind, base) select ${name}, 'user', number from lake_ref where name = 'main'`
  return name
}

async function call(endpoint: string, body?: object, headers: Record<string, string> = {}) {
  const [method = '', path = ''] = endpoint.split(' ')
  const answer = await queries.catalog.fetch(`/iceberg/v1/${path}`, null, {
    method,
    headers,
    body: body && JSON.stringify(body),
  })
  const text = await answer.text()
  const { error, ...rest } = text.startsWith('{') ? JSON.parse(text) : {}
  return { status: answer.status, type: error?.type, message: error?.message, body: rest }
}

const field = (name: string, type: string, id = 1) => ({ id, name, type, required: false })
const struct = (...fields: object[]) => ({ type: 'struct', fields })
const IDS = struct(field('id', 'int'))
const SELECT = 'select id from default.silver.orders'
const versionOf = (sql: string, more: object[] = []) => ({
  'version-id': 1,
  'timestamp-ms': 0,
  'schema-id': -1,
  summary: { engine: 'tests', 'sluice.run-id': 'forged', 'sluice.reads': '["default.gold.secret"]' },
  representations: [{ type: 'sql', sql, dialect: 'duckdb' }, ...more],
  'default-namespace': ['default', 'gold'],
})
const viewOf = (name: string, sql = SELECT, schema: object = IDS) => ({
  name,
  schema,
  'view-version': versionOf(sql),
  properties: { owner: 'ada' },
})
const identifier = (name: string) => ({ namespace: ['default', 'gold'], name })

async function rowsOn(branch: string, sql: string) {
  const { catalog } = queries
  const { commit, token } = await catalog.reader()
  void token
  const lake = {
    ...(await queries.lake()),
    branch,
    token: catalog.tokens.read({ commit, branch, expiresAt: new Date(Date.now() + 60_000) }),
  }
  return (await queries.query(sql, { lake })).rows
}

test('an engine creates a view on a branch, which queries read there only', async () => {
  const [branch, name] = [await newBranch(), newName()]
  const created = await call(`POST sluice.${branch}/${GOLD}/views`, viewOf(name))
  expect([created.message, created.status]).toEqual([undefined, 200])
  expect(created.body.metadata).toMatchObject({
    'format-version': 1,
    'current-version-id': 1,
    properties: { owner: 'ada' },
    schemas: [{ 'schema-id': 0, fields: [{ name: 'id', type: 'int' }] }],
  })
  const [version] = created.body.metadata.versions
  expect(version.summary).toEqual({ engine: 'tests', 'sluice.reads': '["default.silver.orders"]' })
  expect(version.representations).toEqual([
    { type: 'sql', dialect: 'duckdb', sql: 'select id from "default"."silver"."orders"' },
  ])
  const loaded = await call(`GET sluice.${branch}/${GOLD}/views/${name}`)
  expect(loaded.body.metadata).toEqual(created.body.metadata)
  expect(await rowsOn(branch, `select * from default.gold."${name}" order by id`)).toEqual([
    { id: 1 },
    { id: 2 },
  ])
  expect((await call(`GET sluice/${GOLD}/views/${name}`)).status).toBe(404)
  expect(await call(`POST sluice.${branch}/${GOLD}/views`, viewOf(name))).toMatchObject({
    status: 409,
    type: 'AlreadyExistsException',
  })
})

test('a view keeps its other dialects, and its text names tables in any case', async () => {
  const [branch, name] = [await newBranch(), newName()]
  const spark = { type: 'sql', sql: 'SELECT id FROM sluice.`default`.silver.orders', dialect: 'spark' }
  const body = {
    ...viewOf(name),
    'view-version': versionOf('-- ids\nSELECT id FROM Default.SILVER."orders"; ', [spark]),
  }
  const { body: made } = await call(`POST sluice.${branch}/${GOLD}/views`, body)
  expect(made.metadata.versions[0].representations).toEqual([
    { type: 'sql', dialect: 'duckdb', sql: 'SELECT id FROM "default"."silver"."orders"' },
    spark,
  ])
  expect(await rowsOn(branch, `select count(*)::int as n from default.gold."${name}"`)).toEqual([{ n: 2 }])
})

test.each([
  ['another statement', 'create table x (a int)', /must be|not allowed|syntax/],
  ['two statements', `${SELECT}; ${SELECT}`, /must be one query/],
  ['a text that closes a bracket of its reader', `${SELECT}) union all (${SELECT}`, /must be one query/],
  ['an explanation', `explain ${SELECT}`, /syntax|not allowed/i],
  ['no statement', ' -- nothing', /must be one query/],
  ['a file', "select 1 as id from read_csv('/etc/passwd')", /read_csv\(\) is not allowed/],
  ['a missing table', 'select id from default.silver.missing', /no table default\.silver\.missing/],
  ['a missing column', 'select nothing as id from default.silver.orders', /nothing/],
  [
    'a table without its namespace',
    'select id from silver.orders',
    /name the table silver\.orders with its namespace/,
  ],
  ['a table without its layer', 'select id from orders', /no table orders/],
  [
    'other columns than its schema',
    'select id, customer from default.silver.orders',
    /id INTEGER, customer VARCHAR/,
  ],
  ['another type than its schema', 'select id::bigint as id from default.silver.orders', /id BIGINT/],
])('a view of %s is refused', async (_, sql, text) => {
  const [branch, name] = [await newBranch(), newName()]
  const refused = await call(`POST sluice.${branch}/${GOLD}/views`, viewOf(name, sql))
  expect(refused).toMatchObject({ status: 400, type: 'BadRequestException' })
  expect(refused.message).toMatch(text)
  expect((await call(`GET sluice.${branch}/${GOLD}/views`)).body.identifiers).toEqual([])
})

test('a view without the dialect duckdb is refused by the dialects that it has', async () => {
  const branch = await newBranch()
  const representations = ['spark', 'trino'].map((dialect) => ({ type: 'sql', sql: SELECT, dialect }))
  const version = { ...versionOf(SELECT), representations }
  const refused = await call(`POST sluice.${branch}/${GOLD}/views`, {
    ...viewOf('v'),
    'view-version': version,
  })
  expect([refused.status, refused.message]).toEqual([
    400,
    'representations: one of the dialect duckdb is required, and the view has spark, trino',
  ])
})

const replace = (sql: string, schema: object = IDS, uuid?: string) => ({
  requirements: uuid === undefined ? [] : [{ type: 'assert-view-uuid', uuid }],
  updates: [
    { action: 'add-schema', schema },
    { action: 'add-view-version', 'view-version': { ...versionOf(sql), 'version-id': 7 } },
    { action: 'set-current-view-version', 'view-version-id': -1 },
  ],
})

test('an engine replaces a view, and returns to an earlier version', async () => {
  const [branch, name] = [await newBranch(), newName()]
  const path = `sluice.${branch}/${GOLD}/views/${name}`
  const { body } = await call(`POST sluice.${branch}/${GOLD}/views`, viewOf(name))
  const uuid = body.metadata['view-uuid']
  const customers = struct(field('customer', 'string'))
  const replaced = await call(
    `POST ${path}`,
    replace('select customer from default.silver.orders', customers, uuid),
  )
  expect([replaced.message, replaced.status]).toEqual([undefined, 200])
  expect(replaced.body.metadata).toMatchObject({ 'current-version-id': 2, 'view-uuid': uuid })
  expect(replaced.body.metadata.versions).toHaveLength(2)
  expect(await rowsOn(branch, `select * from default.gold."${name}" order by all`)).toEqual([
    { customer: 'a' },
    { customer: 'b' },
  ])
  const back = await call(`POST ${path}`, {
    requirements: [{ type: 'assert-view-uuid', uuid }],
    updates: [
      { action: 'set-current-view-version', 'view-version-id': 1 },
      { action: 'set-properties', updates: { comment: 'ids' } },
      { action: 'remove-properties', removals: ['owner'] },
      { action: 'assign-uuid', uuid },
      { action: 'set-location', location: body.metadata.location },
      { action: 'upgrade-format-version', 'format-version': 1 },
    ],
  })
  expect(back.body.metadata).toMatchObject({ 'current-version-id': 1, properties: { comment: 'ids' } })
  expect(await rowsOn(branch, `select * from default.gold."${name}" order by all`)).toEqual([
    { id: 1 },
    { id: 2 },
  ])
})

test('a replacement is refused with the type of its fault, and changes nothing', async () => {
  const [branch, name] = [await newBranch(), newName()]
  const path = `sluice.${branch}/${GOLD}/views/${name}`
  await call(`POST sluice.${branch}/${GOLD}/views`, viewOf(name))
  const { body: before } = await call(`GET ${path}`)
  const other = '00000000-0000-4000-8000-000000000000'
  const BAD = [400, 'BadRequestException']
  const update = (action: string, more: object) => ({ updates: [{ action, ...more }] })
  const rows: [object, (number | string)[]][] = [
    [replace(SELECT, IDS, other), [409, 'CommitFailedException']],
    [{ ...replace(SELECT), requirements: [{ type: 'assert-create' }] }, BAD],
    [replace('select nothing from default.silver.orders'), BAD],
    [replace(SELECT, struct(field('id', 'long'))), BAD],
    [replace(`select id from default.gold."${name}"`), BAD],
    [update('assign-uuid', { uuid: other }), BAD],
    [update('upgrade-format-version', { 'format-version': 2 }), BAD],
    [update('set-location', { location: 's3://elsewhere/x' }), BAD],
    [update('set-current-view-version', { 'view-version-id': 9 }), BAD],
    [update('add-view-version', { 'view-version': { ...versionOf(SELECT), 'schema-id': 9 } }), BAD],
    [update('add-view-version', { 'view-version': versionOf(SELECT) }), BAD],
    [update('add-snapshot', {}), BAD],
    [{ ...replace(SELECT), identifier: identifier('another') }, BAD],
    [{}, BAD],
  ]
  for (const [body, expected] of rows) {
    const { status, type } = await call(`POST ${path}`, body)
    expect([body, status, type]).toEqual([body, ...expected] as never)
  }
  expect((await call(`GET ${path}`)).body).toEqual(before)
  expect(await call(`POST sluice.${branch}/${GOLD}/views/none`, replace(SELECT))).toMatchObject({
    status: 404,
    type: 'NoSuchViewException',
  })
})

test('views that would read each other are refused', async () => {
  const [branch, one, two] = [await newBranch(), newName(), newName()]
  const views = `sluice.${branch}/${GOLD}/views`
  expect((await call(`POST ${views}`, viewOf(one))).status).toBe(200)
  expect((await call(`POST ${views}`, viewOf(two, `select id from default.gold."${one}"`))).status).toBe(200)
  const refused = await call(`POST ${views}/${one}`, replace(`select id from default.gold."${two}"`))
  expect([refused.status, refused.message]).toEqual([400, `view: default.gold.${one} would read itself`])
})

test('an engine renames a view with its versions', async () => {
  const [branch, from, to] = [await newBranch(), newName(), newName()]
  const views = `sluice.${branch}/${GOLD}/views`
  const { body } = await call(`POST ${views}`, viewOf(from))
  const rename = (source: string, destination: string) =>
    call(`POST sluice.${branch}/views/rename`, {
      source: identifier(source),
      destination: identifier(destination),
    })
  expect((await rename(from, to)).status).toBe(204)
  expect((await call(`GET ${views}/${from}`)).status).toBe(404)
  const { metadata } = (await call(`GET ${views}/${to}`)).body
  expect([metadata['view-uuid'], metadata.versions]).toEqual([
    body.metadata['view-uuid'],
    body.metadata.versions,
  ])
  expect(await rowsOn(branch, `select count(*)::int as n from default.gold."${to}"`)).toEqual([{ n: 2 }])
  expect(await rename(from, to)).toMatchObject({ status: 404, type: 'NoSuchViewException' })
  await call(`POST ${views}`, viewOf(from))
  expect(await rename(from, to)).toMatchObject({ status: 409, type: 'AlreadyExistsException' })
})

test('main refuses views of engines, and a key repeats the first answer', async () => {
  const [branch, name] = [await newBranch(), newName()]
  expect(await call(`POST sluice/${GOLD}/views`, viewOf(name))).toMatchObject({
    status: 403,
    type: 'ForbiddenException',
  })
  const key = { 'idempotency-key': '017f22e2-79b0-7cc3-98c4-dc0c0c07398f' }
  const first = await call(`POST sluice.${branch}/${GOLD}/views`, viewOf(name), key)
  expect(first.status).toBe(200)
  expect(await call(`POST sluice.${branch}/${GOLD}/views`, viewOf(name), key)).toEqual(first)
})
