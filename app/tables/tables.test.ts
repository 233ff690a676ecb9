import { afterAll, beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { startTestQueries, type TestQueries } from '../../sidecars/query/testing.ts'
import { testAccess } from '../../sidecars/rpc/testing.ts'
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

let queries: TestQueries
let app: App

beforeAll(async () => {
  queries = await startTestQueries({ QUERY_CONCURRENCY: '1' })
  await queries.table('default.gold.routes', `SELECT range AS id, 'JFK' AS origin FROM range(2000)`)
  await queries.table('default.silver.flights', 'SELECT 1 AS id')
  await queries.table('ops.silver.crews', 'SELECT 7 AS crew')
  app = appWith(poolAt(queries.url))
})
afterAll(() => queries.close())
beforeEach(async () => {
  const { sql, objects } = queries.catalog
  await sql`delete from table_metadata`
  await objects.delete('default/pipelines/gold/routes/.meta.yaml')
})

const poolAt = (url: string) =>
  makePool('query service', [queryAt(url, () => {}, testAccess(queries.catalog.url))])
function appWith(services: Pool<QueryClient> | null, metadataStore = true) {
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

describe('the list of tables', () => {
  type List = { tables: { namespace: string; name: string }[]; total: number }
  const names = ({ tables }: List) => tables.map(({ namespace, name }) => `${namespace}.${name}`)

  test('is narrowed by namespace and layer, and paged', async () => {
    expect(names(await jsonOf<List>(call('GET', '?namespace=ops')))).toEqual(['ops.crews'])
    expect(names(await jsonOf<List>(call('GET', '?layer=silver')))).toEqual(['default.flights', 'ops.crews'])
    expect(await jsonOf<List>(call('GET', '?namespace=none-there'))).toEqual({ tables: [], total: 0 })
    const page = await call('GET', '?limit=1&offset=1')
    expect(page.headers.get('link')).toContain('offset=2')
    const list = (await page.json()) as List
    expect([names(list), list.total]).toEqual([['default.flights'], 3])
  })

  test.each(['?layer=platinum', '?namespace=Not%20A%20Name'])('%s is refused', async (search) => {
    expect((await call('GET', search)).status).toBe(400)
  })
})

describe('a table', () => {
  test.each([
    '/default/gold/nope',
    '/none/gold/routes',
    '/default/platinum/routes',
    '/default/gold/No%20Name',
  ])('%s is not there', async (path) => {
    for (const response of [
      await call('GET', path),
      await call('GET', `${path}/preview`),
      await call('PUT', `${path}/metadata`, { description: 'x' }),
    ]) {
      expect(response.status).toBe(404)
      expect(await response.json()).toMatchObject({ error: { code: 'NOT_FOUND' } })
    }
  })
})

describe('the preview of a table', () => {
  type Preview = { columns: object[]; rows: object[]; total_rows: number; truncated: boolean }

  test.each([
    ['', 50],
    ['?limit=3', 3],
    ['?limit=5000', 1_000],
    ['?limit=0', 50],
    ['?limit=-1', 50],
    ['?limit=many', 50],
  ])('%p answers %d rows', async (search, rows) => {
    expect(await jsonOf<Preview>(call('GET', `${ROUTES}/preview${search}`))).toMatchObject({
      total_rows: rows,
      truncated: true,
    })
  })
})

describe('what people say about a table', () => {
  const put = (body: object) => jsonOf(call('PUT', `${ROUTES}/metadata`, body))

  test('is changed field by field', async () => {
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
    'a .meta.yaml of %j says nothing',
    async (text) => {
      await writeMeta(text)
      expect(await jsonOf(call('GET', ROUTES))).toMatchObject({ description: null, owner: null })
    },
  )

  test.each([
    [{ description: 5 }, 'description'],
    [{ description: null }, 'description'],
    [{ owner: 5 }, 'owner'],
    [{ column_descriptions: 'x' }, 'column_descriptions'],
    [{ column_descriptions: { id: 5 } }, 'column_descriptions.id'],
    [{ column_descriptions: { id: 'x'.repeat(10_001) } }, 'column_descriptions.id'],
    [{ column_descriptions: { ['x'.repeat(1_001)]: '' } }, 'column_descriptions'],
    [{ description: 'x'.repeat(10_001) }, 'description'],
  ])('%j is refused', async (body, field) => {
    const response = await call('PUT', `${ROUTES}/metadata`, body)
    expect(response.status).toBe(400)
    expect(await response.json()).toMatchObject({ error: { message: expect.stringContaining(`${field}: `) } })
  })

  test('is not kept when that is switched off', async () => {
    await put({ description: 'Delays' })
    const off = appWith(poolAt(queries.url), false)
    const response = await call('PUT', `${ROUTES}/metadata`, { description: 'x' }, off)
    expect([response.status, await response.json()]).toMatchObject([503, { error: { code: 'UNAVAILABLE' } }])
    expect(await jsonOf(call('GET', ROUTES, undefined, off))).toMatchObject({ description: null })
  })
})

describe('without a query service', () => {
  const paths = ['', ROUTES, `${ROUTES}/preview`]

  test('configured, tables answer 500', async () => {
    for (const path of paths) {
      const response = await call('GET', path, undefined, appWith(null))
      expect([response.status, await response.json()]).toMatchObject([500, { error: { code: 'INTERNAL' } }])
    }
  })

  test('in reach, tables answer 503', async () => {
    const away = appWith(poolAt('http://127.0.0.1:1'))
    for (const path of paths) {
      const response = await call('GET', path, undefined, away)
      expect([response.status, await response.json()]).toMatchObject([
        503,
        { error: { code: 'UNAVAILABLE' } },
      ])
    }
  })
})
