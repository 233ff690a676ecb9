import { beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { startTestQueries } from '../../sidecars/query/testing.ts'
import { testAccess } from '../../sidecars/rpc/testing.ts'
import { duringTests } from '../../tools/test/during.ts'
import { openTestBranch } from '../catalog/test-rows.ts'
import { systemClock } from '../core/clock.ts'
import { newId } from '../core/ids.ts'
import { makeQueryService } from '../query/service.ts'
import { type QueryClient, queryAt } from '../rpc/clients.ts'
import { makePool, type Pool } from '../rpc/pool.ts'
import type { App } from '../server.ts'
import { requestTo, testApp } from '../test-app.ts'
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
  return testApp({ api: [tableRoutes(makeTableService({ sql, objects, queries: service, metadataStore }))] })
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
