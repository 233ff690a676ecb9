import { beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { startTestQueries } from '../../sidecars/query/testing.ts'
import { testAccess } from '../../sidecars/rpc/testing.ts'
import { duringTests } from '../../tools/kit/during.ts'
import { until } from '../../tools/kit/until.ts'
import type { App } from '../composition/server.ts'
import { requestTo, testApp } from '../composition/test-app.ts'
import { systemClock } from '../core/clock.ts'
import { newId } from '../core/ids.ts'
import { type QueryClient, queryAt } from '../rpc/clients.ts'
import { makePool, type Pool } from '../rpc/pool.ts'
import { openTestBranch } from '../versions/test-rows.ts'
import { queryRoutes, schemaRoutes } from './routes.ts'
import { makeQueryService } from './service.ts'

setDefaultTimeout(60_000)

const queries = duringTests(() => startTestQueries({ QUERY_CONCURRENCY: '2' }))
let app: App

beforeAll(async () => {
  await queries.table('default.gold.routes', `SELECT 1 AS id, 'JFK' AS origin, 1.25::DECIMAL(14,2) AS delay`)
  await queries.table('ops.silver.crews', 'SELECT range AS crew FROM range(5)')
  app = appWith(poolAt(queries.url))
})

const poolAt = (url: string) =>
  makePool('query service', [queryAt(url, () => {}, testAccess(queries.catalog.url))])
function serviceWith(services: Pool<QueryClient>, answerBytesMax?: number) {
  const { sql, tokens, url: publicUrl } = queries.catalog
  return makeQueryService({ sql, tokens, clock: systemClock, newId, publicUrl, services, answerBytesMax })
}
function appWith(services: Pool<QueryClient>, answerBytesMax?: number) {
  const service = serviceWith(services, answerBytesMax)
  return testApp({ api: [queryRoutes(service), schemaRoutes(service)] })
}
const query = (body: object, at: App = app) => requestTo(at, 'POST', '/api/v1/query', body)
async function refusalOf(body: object) {
  const response = await query(body)
  const { error } = (await response.json()) as { error: { code: string; type: string; message: string } }
  expect([response.status, error.code, error.type]).toEqual([400, 'INVALID_ARGUMENT', 'VALIDATION'])
  return error.message
}

describe('queries', () => {
  test('a query returns engine column types and rows keyed by column', async () => {
    const response = await query({ sql: 'SELECT *, id + 1 AS id, NULL AS id FROM gold.routes;' })
    expect(response.status).toBe(200)
    expect(await response.json()).toEqual({
      columns: [
        { name: 'id', type: 'INTEGER' },
        { name: 'origin', type: 'VARCHAR' },
        { name: 'delay', type: 'DECIMAL(14,2)' },
        { name: 'id_1', type: 'INTEGER' },
        { name: 'id_2', type: expect.any(String) },
      ],
      rows: [{ id: 1, origin: 'JFK', delay: 1.25, id_1: 2, id_2: null }],
      total_rows: 1,
      truncated: false,
      duration_ms: expect.any(Number),
    })
  })

  test('a query returns every type of value as JSON', async () => {
    const sql = `SELECT 9007199254740993 AS big, 12345678901234567890123::HUGEINT AS huge, 'NaN'::DOUBLE AS nan,
      DATE '2001-01-31' AS day, TIMESTAMP '2001-01-31 10:00:00' AS at, 'ab'::BLOB AS bytes, [1, NULL] AS list,
      {'a': 1, 'b c': 'x'} AS struct, MAP {'k': 2} AS map, 1.5::DECIMAL(18,2) AS wide, '__proto__' AS "__proto__"`
    const { rows } = (await (await query({ sql })).json()) as { rows: object[] }
    expect(JSON.parse(JSON.stringify(rows[0]))).toMatchObject({
      big: '9007199254740993',
      huge: '12345678901234567890123',
      nan: null,
      day: '2001-01-31',
      at: '2001-01-31T10:00:00',
      bytes: 'YWI=',
      list: [1, null],
      struct: { a: 1, 'b c': 'x' },
      map: { k: 2 },
      wide: '1.50',
    })
  })

  test('a query finds tables in its namespace or by full name', async () => {
    for (const namespace of ['', 'default', undefined]) {
      const { rows } = (await (await query({ sql: 'SELECT id FROM gold.routes', namespace })).json()) as {
        rows: object[]
      }
      expect(rows).toEqual([{ id: 1 }])
    }
    const sql = 'SELECT id, count(*) AS crews FROM silver.crews, default.gold.routes GROUP BY id'
    expect(await (await query({ sql, namespace: 'ops' })).json()).toMatchObject({
      rows: [{ id: 1, crews: 5 }],
    })
  })

  test('a query with too much JSON is refused', async () => {
    const small = appWith(poolAt(queries.url), 100_000)
    for (const [sql, limit] of [
      ['SELECT range AS n FROM range(50_000)', 50_000],
      [`SELECT repeat('"', 60_000) AS text`, 1],
      [`SELECT list_transform(range(1000), n -> {'${'k'.repeat(500)}': n}) AS x`, 1],
    ]) {
      const response = await requestTo(small, 'POST', '/api/v1/query', { sql, limit })
      expect(response.status).toBe(400)
      const { error } = (await response.json()) as { error: { code: string; message: string } }
      expect(error.code).toBe('INVALID_ARGUMENT')
      expect(error.message).toContain('larger than 0.1 MB of JSON (QUERY_ANSWER_LIMIT): select fewer')
    }
    const fits = { sql: 'SELECT range AS n FROM range(5_000)', limit: 5_000 }
    expect((await requestTo(small, 'POST', '/api/v1/query', fits)).status).toBe(200)
  })

  test('a query with many rows of any content arrives complete', async () => {
    const sql = `SELECT range AS n, 'a"b' || chr(10) || range AS text, if(range % 3 = 0, NULL, range / 4) AS quarter
      FROM range(20_000)`
    const response = await query({ sql, limit: 15_000 })
    expect(response.headers.get('content-type')).toBe('application/json')
    const { rows, ...summary } = (await response.json()) as { rows: object[] }
    expect(summary).toMatchObject({ total_rows: 15_000, truncated: true })
    expect(rows).toHaveLength(15_000)
    for (const n of [0, 2_047, 2_048, 14_999])
      expect(rows[n]).toEqual({ n, text: `a"b\n${n}`, quarter: n % 3 === 0 ? null : n / 4 })
  })

  test('a failed query reports its cause with its own line numbers', async () => {
    const sql = `SELECT CAST(if(range < 5000, '1', 'x' || range) AS INTEGER) FROM range(9000)`
    expect(await refusalOf({ sql, limit: 9_000 })).toContain("Could not convert string 'x5000'")
    expect(await refusalOf({ sql: 'SELECT 1,\n nope FROM gold.routes' })).toContain('LINE 2:  nope')
  })

  test('a query gets 503 when too many queries wait', async () => {
    const service = serviceWith(poolAt(queries.url))
    const gone = new AbortController()
    const sql = 'SELECT count(*) FROM range(1_000_000_000_000) WHERE random() < 0'
    const pendingQueries = Array.from({ length: 150 }, () => service.run({ sql }, gone.signal))
    await expect(Promise.race(pendingQueries)).rejects.toMatchObject({
      status: 503,
      code: 'UNAVAILABLE',
      message: 'query service is busy: 128 queries are already waiting',
    })
    gone.abort()
    await Promise.allSettled(pendingQueries)
    // The query service learns of the cancellation a moment later.
    const { status } = await until(
      () => query({ sql: 'SELECT 1' }),
      (response) => response.status !== 503,
    )
    expect(status).toBe(200)
  })

  test('a query may have at most 102,400 bytes', async () => {
    const sql = 'SELECT 1 --'
    expect((await query({ sql: sql + 'x'.repeat(102_400 - sql.length) })).status).toBe(200)
    // Each `é` has two bytes.
    expect(await refusalOf({ sql: sql + 'é'.repeat(51_200) })).toBe('sql: must be at most 102400 bytes')
  })
})

test('the schema lists the tables of all namespaces in pages', async () => {
  const response = await requestTo(app, 'GET', '/api/v1/schema?limit=1')
  expect(response.headers.get('link')).toContain('rel="next"')
  const page = (await response.json()) as { tables: { name: string }[]; total: number }
  const all = (await (await requestTo(app, 'GET', '/api/v1/schema')).json()) as typeof page
  expect(page).toEqual({ tables: all.tables.slice(0, 1), total: all.tables.length })
  expect(all.tables).toContainEqual({
    namespace: 'ops',
    layer: 'silver',
    name: 'crews',
    columns: [{ name: 'crew', type: 'BIGINT' }],
  } as never)
})

describe('versions of the lake', () => {
  const rowsOf = async (body: object) => {
    const response = await query({ sql: 'SELECT a FROM gold.versioned ORDER BY a', ...body })
    const { rows } = (await response.json()) as { rows?: object[] }
    return rows ?? response.status
  }

  test('a query reads a branch, an older commit or an older time', async () => {
    const { sql } = queries.catalog
    await queries.table('default.gold.versioned', 'SELECT 1 AS a')
    const [first] = await sql`select number, clock_timestamp() as at from lake_ref where name = 'main'`
    const commit = Number(first?.number)
    await sql.begin((tx) => openTestBranch(tx, 'dev', commit))
    await queries.table('default.gold.versioned', 'SELECT 2 AS a')
    expect(await rowsOf({})).toEqual([{ a: 2 }])
    expect(await rowsOf({ branch: 'main' })).toEqual([{ a: 2 }])
    expect(await rowsOf({ branch: 'dev' })).toEqual([{ a: 1 }])
    expect(await rowsOf({ as_of: commit })).toEqual([{ a: 1 }])
    expect(await rowsOf({ as_of: first?.at.toISOString() })).toEqual([{ a: 1 }])

    // A change of the branch is the content of a commit of main under another name.
    await queries.table('default.gold.changed', 'SELECT 3 AS a')
    await sql`
      insert into branch_entry (ref, namespace, layer, name, content_id)
      select 'dev', namespace, layer, 'versioned', content_id from main_entry where name = 'changed'`
    expect(await rowsOf({ branch: 'dev' })).toEqual([{ a: 3 }])
    expect(await rowsOf({})).toEqual([{ a: 2 }])
    const schema = await requestTo(app, 'GET', '/api/v1/schema?branch=dev')
    const { tables } = (await schema.json()) as { tables: { name: string }[] }
    expect(tables.map(({ name }) => name)).toContain('versioned')
    expect(tables.map(({ name }) => name)).not.toContain('changed')
  })

  test('a query of an unknown or closed version is refused', async () => {
    const { sql } = queries.catalog
    await sql.begin((tx) => openTestBranch(tx, 'closed', 0))
    await sql`update lake_ref set state = 'deleted', closed_at = clock_timestamp() where name = 'closed'`
    expect(await rowsOf({ branch: 'closed' })).toBe(404)
    expect(await rowsOf({ branch: 'absent' })).toBe(404)
    expect(await rowsOf({ as_of: 999_999 })).toBe(404)
    expect(await rowsOf({ as_of: 'no-such-tag' })).toBe(404)
    expect(await rowsOf({ as_of: 'not a time' })).toBe(400)
    expect(await rowsOf({ branch: 'main', as_of: 0 })).toBe(400)
  })
})
