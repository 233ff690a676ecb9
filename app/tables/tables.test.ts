import { beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { startTestQueries } from '../../sidecars/query/testing.ts'
import { testAccess } from '../../sidecars/rpc/testing.ts'
import { duringTests } from '../../tools/kit/during.ts'
import type { App } from '../composition/server.ts'
import { requestTo, testApp } from '../composition/test-app.ts'
import { systemClock } from '../core/clock.ts'
import { newId } from '../core/ids.ts'
import { makeQueryService } from '../query/service.ts'
import { type QueryClient, queryAt } from '../rpc/clients.ts'
import { makePool, type Pool } from '../rpc/pool.ts'
import { makeLakeReader } from '../versions/lake-reader.ts'
import { makeMetadataFiles } from '../versions/metadata-files.ts'
import { openTestBranch } from '../versions/test-rows.ts'
import { tableRoutes } from './routes.ts'
import { makeTableService } from './service.ts'

setDefaultTimeout(60_000)

const queries = duringTests(() => startTestQueries({ QUERY_CONCURRENCY: '1' }))
let app: App

beforeAll(async () => {
  await queries.table('default.gold.routes', `SELECT range AS id, 'JFK' AS origin FROM range(2000)`)
  await queries.table('default.silver.flights', 'SELECT 1 AS id')
  await queries.table('ops.silver.crews', 'SELECT 7 AS crew')
  app = appWith(poolAt(queries.url))
})
beforeEach(async () => {
  const { sql, objects } = queries.catalog
  await sql`delete from table_metadata`
  await objects.delete('default/pipelines/gold/routes/.meta.yaml')
})

const poolAt = (url: string) =>
  makePool('query service', [queryAt(url, () => {}, testAccess(queries.catalog.url))])
function appWith(services: Pool<QueryClient>, metadataStore = true) {
  const { sql, tokens, objects, url: publicUrl } = queries.catalog
  const service = makeQueryService({ sql, tokens, clock: systemClock, newId, publicUrl, services })
  const lake = { files: makeMetadataFiles({ objects, newId }), reader: makeLakeReader(objects) }
  return testApp({
    api: [tableRoutes(makeTableService({ sql, objects, lake, queries: service, metadataStore }))],
  })
}
const call = (method: string, path: string, body?: object, at: App = app) =>
  requestTo(at, method, `/api/v1/tables${path}`, body)
async function jsonOf<T = unknown>(response: Promise<Response>): Promise<T> {
  const { status, ...rest } = await response.then(async (it) => ({
    status: it.status,
    body: await it.json(),
  }))
  expect(status).toBe(200)
  return rest.body as T
}
const writeMeta = (text: string) =>
  queries.catalog.objects.put('default/pipelines/gold/routes/.meta.yaml', new TextEncoder().encode(text))
const ROUTES = '/default/gold/routes'

describe('lists of tables', () => {
  type List = { tables: { namespace: string; name: string }[]; total: number }
  const names = ({ tables }: List) => tables.map(({ namespace, name }) => `${namespace}.${name}`)

  test('a list is filtered by namespace and layer, and paged', async () => {
    expect(names(await jsonOf<List>(call('GET', '?namespace=ops')))).toEqual(['ops.crews'])
    expect(names(await jsonOf<List>(call('GET', '?layer=silver')))).toEqual(['default.flights', 'ops.crews'])
    expect(await jsonOf<List>(call('GET', '?namespace=none-there'))).toEqual({ tables: [], total: 0 })
    const page = await call('GET', '?limit=1&offset=1')
    expect(page.headers.get('link')).toContain('offset=2')
    const list = (await page.json()) as List
    expect([names(list), list.total]).toEqual([['default.flights'], 3])
  })

  test.each([
    ['crew', ['ops.crews']],
    ['SILVER.f', ['default.flights']],
    ['%', []],
  ])('a search for %s matches a part of the full name', async (search, found) => {
    const list = await jsonOf<List>(call('GET', `?search=${encodeURIComponent(search)}`))
    expect([names(list), list.total]).toEqual([found, found.length])
  })

  test.each(['?layer=platinum', '?namespace=Not%20A%20Name'])('a list with %s is refused', async (search) => {
    expect((await call('GET', search)).status).toBe(400)
  })
})

describe('descriptions of tables', () => {
  const put = (body: object) => jsonOf(call('PUT', `${ROUTES}/metadata`, body))

  test('an update changes only the given fields', async () => {
    const named = { namespace: 'default', layer: 'gold', name: 'routes' }
    expect(await put({ description: 'Delays' })).toEqual({
      ...named,
      description: 'Delays',
      owner: null,
      column_descriptions: {},
    })
    expect(await put({ owner: 'ops team', column_descriptions: { id: 'Number' } })).toEqual({
      ...named,
      description: 'Delays',
      owner: 'ops team',
      column_descriptions: { id: 'Number' },
    })
    expect(await put({ owner: null, column_descriptions: { origin: 'Airport' } })).toMatchObject({
      description: 'Delays',
      owner: null,
      column_descriptions: { origin: 'Airport' },
    })
    expect(await put({})).toMatchObject({ description: 'Delays', column_descriptions: { origin: 'Airport' } })
  })

  test.each(['- a list', 'description: [', 'description: 5\nowner: {a: b}\ncolumns: text', '\u0000'])(
    'an invalid .meta.yaml (%j) gives no description',
    async (text) => {
      await writeMeta(text)
      expect(await jsonOf(call('GET', ROUTES))).toMatchObject({ description: null, owner: null })
    },
  )

  test('a service without a metadata store neither stores nor shows descriptions', async () => {
    await put({ description: 'Delays' })
    const off = appWith(poolAt(queries.url), false)
    const response = await call('PUT', `${ROUTES}/metadata`, { description: 'x' }, off)
    expect([response.status, await response.json()]).toMatchObject([503, { error: { code: 'UNAVAILABLE' } }])
    expect(await jsonOf(call('GET', ROUTES, undefined, off))).toMatchObject({ description: null })
  })
})

test('tables, a table and its rows are those of the named version', async () => {
  const { sql } = queries.catalog
  const [main] = await sql`select number from lake_ref where name = 'main'`
  const commit = Number(main?.number)
  await sql.begin((tx) => openTestBranch(tx, 'dev', commit))
  await queries.table('ops.gold.later', 'SELECT 1 AS a')
  for (const version of ['?branch=dev', `?as_of=${commit}`]) {
    const { total } = await jsonOf<{ total: number }>(call('GET', version))
    expect([version, total]).toEqual([version, 3])
    expect((await call('GET', `/ops/gold/later${version}`)).status).toBe(404)
    expect((await call('GET', `/ops/gold/later/preview${version}`)).status).toBe(404)
    expect((await jsonOf<{ row_count: number }>(call('GET', `${ROUTES}${version}`))).row_count).toBe(2000)
  }
  expect((await call('GET', '/ops/gold/later')).status).toBe(200)
  expect((await call('GET', '?branch=dev&as_of=0')).status).toBe(400)
  expect((await call('GET', '?branch=absent')).status).toBe(404)
})

describe('files and statistics of tables', () => {
  interface Files {
    files: {
      path: string
      row_count: number
      deleted_rows: number | null
      size_bytes: number
      partition: object[]
    }[]
    total: number
  }
  const TYPED = `
    select i as id, case when i > 1 then 'word ' || i end as word, i / 4 as share, i::decimal(9, 2) as price,
      date '2026-03-31' - i::int as day, {a: i} as nested, null::int as nothing
    from range(RANGE) t(i)`
  const typed = (from: number, to: number) => TYPED.replace('RANGE', `${from}, ${to}`)

  beforeAll(async () => {
    await queries.table('parts.gold.typed', typed(0, 3))
    for (const from of [3, 5, 9]) await queries.table('parts.gold.typed', typed(from, from + 4), 'append')
    await queries.table('parts.gold.seen', 'select 1 as a')
    await queries.catalog.sql`update lake_content set kind = 'view' where id in (
      select content_id from main_entry where namespace = 'parts' and name = 'seen')`
  })

  test('the files of a table are listed in pages', async () => {
    const all = await jsonOf<Files>(call('GET', '/parts/gold/typed/files'))
    expect([all.total, all.files.map((file) => file.row_count).toSorted()]).toEqual([4, [3, 4, 4, 4]])
    const [first] = all.files
    expect(first).toEqual({
      path: expect.stringMatching(/^_lake\/parts\/gold\/typed-\w{8}\/data\/[\w-]+\.parquet$/),
      row_count: expect.any(Number),
      deleted_rows: 0,
      size_bytes: expect.any(Number),
      partition: [],
    })
    expect((await queries.catalog.objects.head(first?.path ?? ''))?.size).toBe(first?.size_bytes)
    const pages: Files['files'] = []
    for (const offset of [0, 1, 2, 3, 4]) {
      const page = await jsonOf<Files>(call('GET', `/parts/gold/typed/files?limit=1&offset=${offset}`))
      expect(page.total).toBe(4)
      pages.push(...page.files)
    }
    expect(pages).toEqual(all.files)
    const link = (await call('GET', '/parts/gold/typed/files?limit=3')).headers.get('link')
    expect(link).toContain('offset=3')
  })

  test('the statistics of columns are summed over the files', async () => {
    const { columns, ...layout } = await jsonOf<{ columns: { size_bytes: number }[] }>(
      call('GET', '/parts/gold/typed/statistics'),
    )
    expect(layout).toEqual({ file_count: 4, delete_file_count: 0, partition_by: [], sort_by: [] })
    const column = (
      name: string,
      type: string,
      nulls: number | null,
      min: string | null,
      max: string | null,
    ) => ({
      name,
      type,
      null_count: nulls,
      min,
      max,
      size_bytes: expect.any(Number),
    })
    expect(columns).toEqual([
      column('id', 'BIGINT', 0, '0', '12'),
      column('word', 'VARCHAR', 2, 'word 10', 'word 9'),
      column('share', 'DOUBLE', 0, '0', '3'),
      column('price', 'DECIMAL(9,2)', 0, '0.00', '12.00'),
      column('day', 'DATE', 0, '2026-03-19', '2026-03-31'),
      column('nested', 'STRUCT(a BIGINT)', null, null, null),
      column('nothing', 'INTEGER', 15, null, null),
    ])
    expect(columns.every(({ size_bytes }) => size_bytes > 0)).toBe(true)
  })

  test('the answers are those of the named version', async () => {
    const { sql } = queries.catalog
    const [main] = await sql`select number from lake_ref where name = 'main'`
    const attempt = await queries.catalog.attempt({ namespace: 'parts', layer: 'gold', name: 'typed' })
    const { commit } = await attempt.deletePositions([0])
    expect(await queries.catalog.merge(attempt, commit)).toBe('merged')
    const { files } = await jsonOf<Files>(call('GET', '/parts/gold/typed/files'))
    // The paths in the delete file are cut, so that they match every data file.
    expect(files.map((file) => file.deleted_rows)).toEqual([null, null, null, null])
    const [before, after] = [`?as_of=${main?.number}`, ''].map((version) =>
      jsonOf<{ delete_file_count: number }>(call('GET', `/parts/gold/typed/statistics${version}`)),
    )
    expect([(await before)?.delete_file_count, (await after)?.delete_file_count]).toEqual([0, 1])
  })

  test.each(['files', 'statistics'])('the %s of a view or of no table are refused', async (part) => {
    const view = await call('GET', `/parts/gold/seen/${part}`)
    expect([view.status, await view.json()]).toMatchObject([409, { error: { code: 'FAILED_PRECONDITION' } }])
    for (const [path, status] of [
      ['/parts/gold/absent/', 404],
      ['/parts/gold/typed/absent', 404],
      [`/parts/gold/typed/${part}?branch=absent`, 404],
      [`/parts/gold/typed/${part}?branch=main&as_of=1`, 400],
      [`/parts/gold/typed/${part}?as_of=`, 400],
    ] as const)
      expect([path, (await call('GET', path.endsWith('/') ? path + part : path)).status]).toEqual([
        path,
        status,
      ])
  })
})
