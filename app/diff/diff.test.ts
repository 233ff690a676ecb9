import { beforeAll, beforeEach, expect, setDefaultTimeout, test } from 'bun:test'
import { startTestQueries } from '../../sidecars/query/testing.ts'
import { testAccess } from '../../sidecars/rpc/testing.ts'
import { duringTests } from '../../tools/kit/during.ts'
import type { App } from '../composition/server.ts'
import { requestTo, testApp } from '../composition/test-app.ts'
import { systemClock } from '../core/clock.ts'
import { newId } from '../core/ids.ts'
import { makeQueryService } from '../query/service.ts'
import { queryAt } from '../rpc/clients.ts'
import { makePool } from '../rpc/pool.ts'
import { makeLakeReader } from '../versions/lake-reader.ts'
import { makeMetadataFiles } from '../versions/metadata-files.ts'
import { forgetBranches } from '../versions/store/history.ts'
import { aRun, openTestBranch } from '../versions/test-rows.ts'
import { diffRoutes } from './routes.ts'
import { type DiffService, makeDiffService } from './service.ts'
import { makeTableDiffs } from './table-diff.ts'

setDefaultTimeout(60_000)

const queries = duringTests(() => startTestQueries({ QUERY_CONCURRENCY: '2' }))
let app: App
let diffs: DiffService
let key: string[] = []

beforeAll(() => {
  const { sql, tokens, objects, url } = queries.catalog
  const service = makeQueryService({
    sql,
    tokens,
    clock: systemClock,
    newId,
    publicUrl: url,
    services: makePool('query service', [queryAt(queries.url, () => {}, testAccess(url))]),
  })
  const parts = { files: makeMetadataFiles({ objects, newId }), reader: makeLakeReader(objects) }
  diffs = makeDiffService({
    sql,
    queries: service,
    tableDiffs: makeTableDiffs({ ...parts, queries: service, clock: systemClock }),
    uniqueKeyOf: async () => key,
  })
  app = testApp({ api: [diffRoutes(diffs)] })
})
beforeEach(async () => {
  key = []
  const { sql } = queries.catalog
  await sql`truncate lake_ref, lake_commit, main_entry, branch_entry, lake_content`
  await sql`insert into lake_ref (name, kind, state, number) values ('main', 'main', 'open', 0)`
})

const get = (path: string) => requestTo(app, 'GET', `/api/v1/branches/${path}`)
const json = async (path: string) => {
  const response = await get(path)
  expect(response.status).toBe(200)
  return response.json()
}
const openBranch = (name: string, base: number) =>
  queries.catalog.sql.begin((tx) => openTestBranch(tx, name, base))

/** Writes a table on the branch of a run and moves its change to a branch of a user. */
async function change(branch: string, name: string, query: string, operation: 'append' | 'overwrite') {
  const { catalog } = queries
  const attempt = await catalog.attempt({ namespace: 'default', layer: 'gold', name })
  await attempt.write(query, operation)
  await catalog.sql`update branch_entry set ref = ${branch} where ref = ${attempt.branch}`
}

test('a diff has the changed tables with their rows and columns', async () => {
  await queries.table('default.gold.orders', "select unnest([1, 2, 3]) as id, 'open' as state")
  await queries.table('default.gold.grows', 'select 1 as id')
  await openBranch('dev', 2)
  await change(
    'dev',
    'orders',
    "select * from (values (1, 'open'), (2, 'paid'), (4, 'open')) t(id, state)",
    'overwrite',
  )
  await change('dev', 'grows', "select range as id, 'x' as word from range(2)", 'append')
  await change('dev', 'made', 'select 1 as id', 'append')
  const nothing = { added: [], removed: [], changed: [] }
  const table = { namespace: 'default', layer: 'gold', change: 'changed', conflict: false, schema: nothing }
  expect(await json('dev/diff')).toEqual({
    from: 'main',
    to: 'dev',
    tables: [
      {
        ...table,
        name: 'grows',
        rows_before: 1,
        rows_after: 3,
        rows_added: 2,
        rows_removed: 0,
        schema: {
          added: [{ name: 'word', type: 'VARCHAR' }],
          removed: [],
          changed: [{ name: 'id', from: 'INTEGER', to: 'BIGINT', renamed_from: null }],
        },
      },
      {
        ...table,
        name: 'made',
        change: 'added',
        rows_before: 0,
        rows_after: 1,
        rows_added: 1,
        rows_removed: 0,
        schema: { ...nothing, added: [{ name: 'id', type: 'INTEGER' }] },
      },
      { ...table, name: 'orders', rows_before: 3, rows_after: 3, rows_added: 2, rows_removed: 2 },
    ],
    total: 3,
  })
  expect(await json('dev/diff?limit=1&offset=1')).toMatchObject({ tables: [{ name: 'made' }], total: 3 })
})

test('rows are paired by the unique key', async () => {
  await queries.table(
    'default.gold.orders',
    "select unnest([1, 2, 3]) as id, 'open' as state, 9007199254740993 as big",
  )
  await openBranch('dev', 1)
  const values = "(1, 'open', 9007199254740993), (2, 'paid', 9007199254740993), (4, 'open', 9007199254740993)"
  await change('dev', 'orders', `select * from (values ${values}) t(id, state, big)`, 'overwrite')
  const row = (id: number, state: string) => ({ id, state, big: '9007199254740993' })
  const path = 'dev/diff/default/gold/orders'
  const columns = [
    { name: 'id', type: 'INTEGER' },
    { name: 'state', type: 'VARCHAR' },
    { name: 'big', type: 'BIGINT' },
  ]
  expect(await json(path)).toEqual({
    columns,
    added: expect.arrayContaining([row(2, 'paid'), row(4, 'open')]),
    removed: expect.arrayContaining([row(2, 'open'), row(3, 'open')]),
    changed: [],
    truncated: false,
  })
  key = ['id']
  expect(await json(path)).toEqual({
    columns,
    added: [row(4, 'open')],
    removed: [row(3, 'open')],
    changed: [{ before: row(2, 'open'), after: row(2, 'paid') }],
    truncated: false,
  })
  key = ['absent']
  expect(await json(`${path}?limit=1`)).toMatchObject({ changed: [], truncated: true })
})

test('an unchanged table has no differing rows, and an absent table is 404', async () => {
  await queries.table('default.gold.orders', 'select 1 as id')
  await openBranch('dev', 1)
  expect(await json('dev/diff')).toEqual({ from: 'main', to: 'dev', tables: [], total: 0 })
  expect(await json('dev/diff/default/gold/orders')).toEqual({
    columns: [{ name: 'id', type: 'INTEGER' }],
    added: [],
    removed: [],
    changed: [],
    truncated: false,
  })
  for (const [path, status] of [
    ['dev/diff/default/gold/absent', 404],
    ['absent/diff', 404],
    ['main/diff', 400],
    ['dev/diff?against=absent', 404],
  ] as const)
    expect([path, (await get(path)).status]).toEqual([path, status])
})

test('a table that main changed since the base conflicts', async () => {
  await queries.table('default.gold.orders', 'select 1 as id')
  await openBranch('dev', 1)
  await change('dev', 'orders', 'select 2 as id', 'append')
  await queries.table('default.gold.orders', 'select unnest(range(9)) as id', 'append')
  const diff = await json('dev/diff')
  expect(diff.tables).toMatchObject([{ rows_before: 1, rows_after: 2, rows_added: 1, conflict: true }])
})

test('a branch is compared with another branch', async () => {
  await queries.table('default.gold.orders', 'select 1 as id')
  await openBranch('dev', 1)
  await openBranch('other', 1)
  await change('dev', 'orders', 'select 2 as id', 'append')
  await change('other', 'orders', 'select 3 as id', 'append')
  expect(await json('dev/diff?against=other')).toMatchObject({
    from: 'other',
    tables: [{ rows_before: 2, rows_after: 2, rows_added: 1, rows_removed: 1 }],
  })
  expect(await json('dev/diff/default/gold/orders?against=other')).toMatchObject({
    added: [{ id: 2 }],
    removed: [{ id: 3 }],
  })
})

test('a caller sees only diffs of visible tables', async () => {
  await queries.table('default.gold.orders', 'select 1 as id')
  await openBranch('dev', 1)
  await change('dev', 'orders', 'select 2 as id', 'append')
  const sees = (...namespaces: string[]) => ({ pipelines: [], zones: [], namespaces })
  const signal = AbortSignal.timeout(20_000)
  expect(await diffs.diff('dev', {}, signal, sees('default'))).toMatchObject({ total: 1 })
  expect(await diffs.diff('dev', {}, signal, sees('other'))).toMatchObject({ tables: [], total: 0 })
})

test('the diff of a run outlives the states of the run', async () => {
  const { catalog } = queries
  await queries.table('default.gold.orders', 'select unnest([1, 2]) as id')
  const attempt = await catalog.attempt({ namespace: 'default', layer: 'gold', name: 'orders' })
  await aRun(catalog.sql, attempt)
  await catalog.sql`update run set attempt = 1 where id = ${attempt.runId}`
  await attempt.write("select unnest([2, 3, 4]) as id, 'x' as word", 'overwrite')
  const read = async () =>
    (await requestTo(app, 'GET', `/api/v1/runs/${attempt.runId}/diff`)).json() as Promise<{
      tables: object[]
    }>
  const live = await read()
  expect(live.tables).toMatchObject([
    { change: 'changed', rows_before: 2, rows_after: 3, rows_added: 3, rows_removed: 2 },
  ])
  await catalog.sql`update run set status = 'failed' where id = ${attempt.runId}`
  await catalog.sql.begin((tx) => forgetBranches(tx, [attempt.branch]))
  expect(await read()).toEqual(live)
})
