import { beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { Code, ConnectError } from '@connectrpc/connect'
import { duringTests } from '../../tools/kit/during.ts'
import { until } from '../../tools/kit/until.ts'
import { engineAtWork, ticksOfEach } from '../core/testing.ts'
import { type QueryOptions, startTestQueries, type TestQueries, tableNamed } from './testing.ts'

setDefaultTimeout(60_000)

const queries = duringTests(() => startTestQueries({ QUERY_MEMORY_LIMIT: '128MB', QUERY_CONCURRENCY: '2' }))
beforeAll(async () => {
  await queries.table('default.bronze.flights', 'SELECT range AS id, range % 7 AS day FROM range(3000)')
  await queries.table('default.gold.routes', `SELECT 1 AS id, 'JFK' AS origin, 1.5::DECIMAL(14,2) AS delay`)
  await queries.table('ops.silver.crews', 'SELECT 7 AS crew')
  await queries.table('gold.gold.routes', 'SELECT 6 AS six')
  await queries.table('temp.bronze.order', 'SELECT 5 AS five')
})

const rowsOf = async (sql: string, options?: QueryOptions) => (await queries.query(sql, options)).rows
async function refusalOf(sql: string, options?: QueryOptions): Promise<ConnectError> {
  const answer = await queries.query(sql, options).catch((error: unknown) => error)
  if (!(answer instanceof ConnectError)) throw new Error(`it was not refused: ${sql}`)
  return answer
}
const ENDLESS = 'SELECT count(*) FROM range(1_000_000_000_000) WHERE random() < 0'

const untilBusy = (ticksUsed = 20) => engineAtWork(queries.engines, ticksUsed)
/** Resolves when every engine uses almost no processor time for a fifth of a second. */
const untilIdle = () =>
  until(async () => {
    const before = await ticksOfEach(queries.engines())
    await Bun.sleep(200)
    const after = [...(await ticksOfEach(queries.engines()))]
    return after.every(([pid, ticks]) => ticks - (before.get(pid) ?? 0) <= 2)
  })

test("an answer over the caller's JSON limit is refused", async () => {
  const lake = await queries.lake()
  const sql = `SELECT list_transform(range(100000), n -> {'${'k'.repeat(1_000)}': n}) AS x`
  const request = { sql, limit: 1_000n, timeoutMs: 20_000, lake, answerBytes: 67_108_864n }
  await expect(queries.client.executeQuery(request)).rejects.toMatchObject({
    code: Code.InvalidArgument,
    rawMessage: expect.stringContaining('larger than 64 MB of JSON (QUERY_ANSWER_LIMIT)'),
  })
  expect((await queries.client.executeQuery({ ...request, answerBytes: 0n })).rowCount).toBe(1n)
})

describe('names of tables in queries', () => {
  test.each([
    ['SELECT count(*) AS n FROM bronze.flights', undefined, { n: 3000 }],
    ['SELECT count(*) AS n FROM default.bronze.flights', 'ops', { n: 3000 }],
    ['SELECT default.gold.routes.id FROM default.gold.routes', undefined, { id: 1 }],
    ['SELECT routes.id FROM "DEFAULT"."GOLD"."ROUTES"', undefined, { id: 1 }],
    ['FROM silver.crews', 'ops', { crew: 7 }],
    ['SELECT r.id, c.crew FROM gold.routes r, ops.silver.crews c', undefined, { id: 1, crew: 7 }],
    ['SELECT a.id, b.six FROM gold.routes a, gold.gold.routes b', undefined, { id: 1, six: 6 }],
    ['FROM gold.routes', 'gold', { six: 6 }],
    ['FROM temp.bronze.order', undefined, { five: 5 }],
    ['FROM bronze.order', 'temp', { five: 5 }],
    ['WITH routes AS (SELECT 2 AS id) FROM routes', undefined, { id: 2 }],
    ['WITH "gold.routes" AS (SELECT 2 AS id) FROM "gold.routes"', undefined, { id: 2 }],
    ["SELECT 'default.gold.routes' AS text -- default.gold.nope", undefined, { text: 'default.gold.routes' }],
    ['SELECT 1 AS one;', 'no-such-namespace', { one: 1 }],
  ] as const)('%s (namespace %p)', async (sql, namespace, row) => {
    expect(await rowsOf(sql, { namespace: namespace ?? '' })).toEqual([row])
  })

  test.each([
    ['FROM gold.nope', 'there is no table gold.nope in the namespace default'],
    ['FROM ops.gold.routes', 'there is no table ops.gold.routes'],
    ['FROM silver.crews', 'there is no table silver.crews in the namespace default'],
    ['FROM routes', 'there is no table routes: tables are named layer.table or namespace.layer.table'],
    ['FROM main.routes', 'there is no table main.routes'],
    ['FROM gold_.gold.nope', 'there is no table gold.gold.nope'],
    ['FROM memory.main.x', 'there is no table memory.main.x'],
    [`FROM default.gold."routes' UNION FROM '/etc/passwd"`, 'there is no table'],
  ])('%s is refused', async (sql, message) => {
    const { code, rawMessage } = await refusalOf(sql)
    expect([code, rawMessage]).toEqual([Code.InvalidArgument, expect.stringContaining(message)])
  })
})

describe('statements about tables', () => {
  test('SHOW and DESCRIBE list exactly the tables of the commit', async () => {
    expect(await rowsOf('SHOW TABLES')).toEqual([{ name: 'bronze.flights' }, { name: 'gold.routes' }])
    const all = await rowsOf('SHOW ALL TABLES')
    expect(all.map(({ database, schema, name }) => `${database}.${schema}.${name}`)).toEqual([
      'default.bronze.flights',
      'default.gold.routes',
      'gold_.gold.routes',
      'ops.silver.crews',
      'temp_.bronze.order',
    ])
    expect(await rowsOf('DESCRIBE gold.routes')).toMatchObject([
      { column_name: 'id', column_type: 'INTEGER' },
      { column_name: 'origin', column_type: 'VARCHAR' },
      { column_name: 'delay', column_type: 'DECIMAL(14,2)' },
    ])
    expect(await rowsOf('SELECT count(*) AS n FROM information_schema.columns')).toEqual([{ n: 8 }])
    // A table that was listed without its files still returns its rows afterwards.
    expect(await rowsOf('FROM ops.silver.crews')).toEqual([{ crew: 7 }])
  })

  test('EXPLAIN returns the plan of a query', async () => {
    expect(await rowsOf('EXPLAIN SELECT * FROM gold.routes')).toHaveLength(1)
    expect(await rowsOf('EXPLAIN ANALYZE SELECT * FROM gold.routes')).toHaveLength(1)
  })
})

describe('rows of a query', () => {
  test('only results with more rows than the limit are truncated', async () => {
    const answered = async (sql: string) => {
      const { rows, truncated } = await queries.query(sql, { limit: 2 })
      return [rows.length, truncated]
    }
    const all = 'FROM gold.grows'
    await queries.table('default.gold.grows', 'SELECT range AS id FROM range(2)')
    expect([await answered(all), await answered(all)]).toEqual(Array(2).fill([2, false]))
    const twice = 'SELECT unnest([id, id]) AS id FROM gold.grows'
    expect([await answered(twice), await answered(twice)]).toEqual(Array(2).fill([2, true]))
    await queries.table('default.gold.grows', 'SELECT range AS id FROM range(3)')
    expect([await answered(all), await answered(`${all} WHERE id > 0`)]).toEqual([
      [2, true],
      [2, false],
    ])
  })

  test('rows beyond the limit are cut and reported as truncated', async () => {
    const flights = 'SELECT id FROM bronze.flights ORDER BY id'
    expect(await queries.query(flights, { limit: 2 })).toMatchObject({
      rows: [{ id: 0 }, { id: 1 }],
      truncated: true,
    })
    const exact = await queries.query(flights, { limit: 3_000 })
    expect([exact.rows.length, exact.truncated]).toEqual([3_000, false])
  })

  test('an endless result is computed only up to the limit', async () => {
    expect(await rowsOf('SELECT range AS n FROM range(1_000_000_000_000)', { limit: 3 })).toHaveLength(3)
  })

  test('columns have the type names of the engine', async () => {
    expect((await queries.query('FROM gold.routes')).columns).toEqual([
      'id INTEGER',
      'origin VARCHAR',
      'delay DECIMAL(14,2)',
    ])
  })
})

test('a query reads its commit, whatever was merged later', async () => {
  await queries.table('default.silver.counter', 'SELECT 1 AS n')
  const before = await queries.lake()
  await queries.table('default.silver.counter', 'SELECT 2 AS n', 'append')
  const sum = 'SELECT sum(n)::INTEGER AS n, count(*) AS rows FROM silver.counter'
  const at = async (lake: Awaited<ReturnType<TestQueries['lake']>>) => rowsOf(sum, { lake })
  const after = await queries.lake()
  for (const [lake, row] of [
    [after, { n: 3, rows: 2 }],
    [before, { n: 1, rows: 1 }],
    [after, { n: 3, rows: 2 }],
  ] as const)
    expect(await at(lake)).toEqual([row])
})

describe('state of a query', () => {
  test('the random seed of a query does not affect the next one', async () => {
    const random = async () => (await rowsOf('SELECT random() AS r'))[0]?.r
    const seeded = async () => {
      await rowsOf('SELECT setseed(0.5)')
      return random()
    }
    expect(await seeded()).not.toBe(await seeded())
  })

  test('the namespace of a query does not affect the next one', async () => {
    await rowsOf('FROM silver.crews', { namespace: 'ops' })
    expect((await refusalOf('FROM silver.crews')).code).toBe(Code.InvalidArgument)
    expect(await rowsOf('SELECT current_database() AS d')).toEqual([{ d: 'memory' }])
  })
})

describe('limits of queries', () => {
  test('a query past its time limit is stopped in its engine', async () => {
    const { code, rawMessage } = await refusalOf(ENDLESS, { timeoutMs: 300 })
    expect([code, rawMessage]).toEqual([
      Code.DeadlineExceeded,
      'the query was stopped at its time limit of 0.3 s',
    ])
    await untilIdle()
  })

  test('a cancelled query is stopped in its engine', async () => {
    const refusal = refusalOf(ENDLESS, { queryId: 'to-be-cancelled' })
    await untilBusy()
    await queries.client.cancelQuery({ queryId: 'to-be-cancelled' })
    expect((await refusal).code).toBe(Code.Canceled)
    await untilIdle()
    await queries.client.cancelQuery({ queryId: 'to-be-cancelled' })
  })

  test('a query whose caller left is stopped in its engine', async () => {
    const gone = new AbortController()
    const request = { sql: ENDLESS, limit: 1n, timeoutMs: 60_000, lake: await queries.lake() }
    const answer = queries.client.executeQuery(request, { signal: gone.signal })
    await untilBusy()
    gone.abort()
    await expect(answer).rejects.toThrow()
    await untilIdle()
  })

  test.each([
    ['one big value', 'SELECT array_agg(range) FROM range(100_000_000)'],
    ['a big sort in a window', 'SELECT median(range::HUGEINT) OVER () FROM range(50_000_000)'],
    ['long texts', `SELECT repeat('x', 10_000_000) FROM range(10_000)`],
  ])('%s beyond the memory limit is refused, and the service continues', async (_, sql) => {
    const { code, rawMessage } = await refusalOf(sql, { limit: 100_000 })
    expect([code, rawMessage]).toEqual([
      Code.ResourceExhausted,
      'the query exceeded its memory limit of 128 MB (QUERY_MEMORY_LIMIT)',
    ])
    expect(await rowsOf('SELECT count(*) AS n FROM bronze.flights')).toEqual([{ n: 3000 }])
  })

  test.each([
    'SELECT length(list_reduce(range(100_000), lambda a, b: md5(a::VARCHAR || b)::VARCHAR)::VARCHAR)',
    'SELECT list_sort(range(1_000_000_000))',
    `SELECT repeat('x', 4_000_000_000)`,
    `SELECT string_agg(repeat('x', 1_000_000), '') FROM range(1_000_000)`,
    `SELECT max(r) FROM (SELECT rank() OVER (ORDER BY hash(range), repeat('x', 100)) AS r FROM range(30_000_000))`,
    `SELECT ${'[['.repeat(20_000)}`,
  ])('an excessive query is stopped: %.80s', async (sql) => {
    const { code } = await refusalOf(sql, { timeoutMs: 1_000 })
    expect([Code.DeadlineExceeded, Code.ResourceExhausted, Code.InvalidArgument, Code.Aborted]).toContain(
      code,
    )
    expect(await rowsOf('SELECT 1 AS one')).toEqual([{ one: 1 }])
  })

  test('a result over the size limit is refused', async () => {
    const { code, rawMessage } = await refusalOf(`SELECT repeat('x', 2_000) FROM range(50_000)`, {
      limit: 50_000,
    })
    expect([code, rawMessage]).toEqual([Code.InvalidArgument, expect.stringContaining('select fewer rows')])
  })

  test('queries wait while all engines are in use', async () => {
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, n) => rowsOf(`SELECT ${n} AS n, count(*) AS rows FROM bronze.flights`)),
    )
    expect(answers).toEqual(Array.from({ length: 20 }, (_, n) => [{ n, rows: 3000 }]))
    expect(queries.engines().length).toBeLessThanOrEqual(2)
  })

  test('a request with a limit out of range is refused', async () => {
    expect((await refusalOf('SELECT 1', { limit: -1 })).rawMessage).toStartWith('limit: ')
    expect((await refusalOf('SELECT 1', { limit: 1_000_000 })).rawMessage).toStartWith('limit: ')
    expect((await refusalOf('SELECT 1', { timeoutMs: 0 })).rawMessage).toStartWith('timeout_ms: ')
  })
})

test('a query whose engine is killed is retried once', async () => {
  const refusal = refusalOf(ENDLESS)
  process.kill(await untilBusy(100), 'SIGKILL')
  process.kill(await untilBusy(100), 'SIGKILL')
  const { code, rawMessage } = await refusal
  expect([code, rawMessage]).toEqual([
    Code.Unavailable,
    'the engine was killed from outside twice while it ran this query (SIGKILL): try again',
  ])
  // This query takes more than a second, so it still runs when its engine is killed.
  const slow = rowsOf(
    'SELECT count(*) AS n FROM range(60_000) a, range(6_000) b WHERE hash(a.range, b.range) <> 1',
  )
  process.kill(await untilBusy(100), 'SIGKILL')
  expect(await slow).toEqual([{ n: 360_000_000 }])
  expect(await rowsOf('FROM ops.silver.crews')).toEqual([{ crew: 7 }])
  expect(await queries.isHealthy()).toBe(true)
})

test('a query of an unknown commit fails', async () => {
  const lake = { ...(await queries.lake()), commit: 1_000_000n }
  expect((await refusalOf('SELECT 1', { lake })).code).toBe(Code.Internal)
})

describe('cache of commits', () => {
  const sql = 'SELECT count(*)::INTEGER AS n FROM bronze.flights'

  test('cached commits are shared per catalog, or per token without its name', async () => {
    const readings = () =>
      queries.catalog.requests.filter((path) => path.includes('/sluice/v1/commits/')).length
    const [one, other] = [await queries.lake(), await queries.lake()]
    expect(await rowsOf(sql, { lake: one })).toEqual([{ n: 3_000 }])
    const before = readings()
    expect(await rowsOf(sql, { lake: { ...one, token: other.token } })).toEqual([{ n: 3_000 }])
    expect(readings()).toBe(before)
    for (const { token } of [one, { token: await queries.catalog.reader().then(({ token }) => token) }])
      for (let n = 0; n < 2; n += 1)
        expect(await rowsOf(sql, { lake: { ...one, token, catalogId: '' } })).toEqual([{ n: 3_000 }])
    expect(readings()).toBe(before + 2)
  })
})

test('the schema lists the columns of all or of the requested tables', async () => {
  const lake = await queries.lake()
  const { tables } = await queries.client.getSchema({ lake })
  expect(tables.map(({ table }) => `${table?.namespace}.${table?.layer}.${table?.name}`)).toContain(
    'gold.gold.routes',
  )
  const wanted = [
    { namespace: 'default', layer: 'gold', name: 'routes' },
    { namespace: 'default', layer: 'gold', name: 'nope' },
  ]
  const { tables: found } = await queries.client.getSchema({ lake, tables: wanted })
  expect(found).toMatchObject([
    {
      table: wanted[0],
      columns: [
        { name: 'id', type: 'INTEGER' },
        { name: 'origin', type: 'VARCHAR' },
        { name: 'delay', type: 'DECIMAL(14,2)' },
      ],
      rowCount: 1n,
    },
  ])
})

describe('visibility of some tables only', () => {
  const visible = ['default.gold.routes', 'default.gold.gone', 'ops.silver.crews']
  const HIDDEN = /flights|bronze|order|temp_|gold_/
  /** Statements that list tables without naming one. */
  const LISTS = [
    'SELECT table_catalog, table_schema, table_name FROM information_schema.tables',
    'SELECT * FROM information_schema.columns',
    "SELECT catalog_name, schema_name FROM information_schema.schemata WHERE schema_name IN ('bronze', 'silver', 'gold')",
    'SHOW TABLES',
    'SHOW ALL TABLES',
  ]
  const answerText = async (sql: string, options?: QueryOptions) => JSON.stringify(await rowsOf(sql, options))
  /** Defines tables of all namespaces in both engines. */
  const fill = () =>
    Promise.all(
      [1, 2, 3, 4].flatMap((n) =>
        LISTS.map((sql) => answerText(`${sql} /* ${n} */`.replace(/^(SHOW .*) \/.*/, '$1'))),
      ),
    )

  test("a restricted caller finds only visible tables in the engine's lists", async () => {
    for (const sql of LISTS) {
      await fill()
      expect(await answerText(sql)).toMatch(HIDDEN)
      const own = await answerText(sql, { visible })
      expect(own).toContain('gold')
      expect(own).not.toMatch(HIDDEN)
      expect(await answerText(sql, { visible: [] })).not.toMatch(/routes|crews|"gold"|silver/)
      expect(await answerText(sql, { visible: ['temp.bronze.order'] })).not.toMatch(/routes|crews|flights/)
    }
    expect(await rowsOf('SELECT origin, crew FROM gold.routes, ops.silver.crews', { visible })).toEqual([
      { origin: 'JFK', crew: 7 },
    ])
    expect(await rowsOf('SELECT count(*) AS n FROM bronze.flights')).toEqual([{ n: 3000 }])
  })

  test('errors about hidden tables equal errors about missing tables', async () => {
    const wordsOf = async (table: string, options?: QueryOptions) => {
      const texts: string[] = []
      for (const sql of [
        `SELECT * FROM ${table}`,
        `WITH a AS (SELECT * FROM ${table}) SELECT 1`,
        `SELECT (SELECT count(*) FROM ${table})`,
        `DESCRIBE ${table}`,
        `SUMMARIZE ${table}`,
        `EXPLAIN SELECT * FROM ${table}`,
        `SELECT ${table}.id FROM gold.routes`,
      ])
        texts.push(
          (await refusalOf(sql, options)).rawMessage
            .replace(/LINE 1:[\s\S]*/, '')
            .replaceAll(table, 'TABLE')
            .replace(/nothing|flights|routes|order/g, 'NAME'),
        )
      return texts
    }
    await fill()
    for (const hidden of [
      'bronze.flights',
      'default.bronze.flights',
      'gold.gold.routes',
      'temp.bronze.order',
    ])
      expect(await wordsOf(hidden, { visible })).toEqual(
        await wordsOf(hidden.replace(/\w+$/, 'nothing'), { visible }),
      )
    for (const sql of [
      'SELECT * FROM gold.route',
      'SELECT flights.day FROM gold.routes',
      'SELECT bronze.flights.id FROM gold.routes',
    ]) {
      const { rawMessage } = await refusalOf(sql, { visible })
      expect(rawMessage.replaceAll(sql, '').replace(/"?(bronze\.)?flights"?/g, '')).not.toMatch(/order|crew/)
    }
  })

  test('the schema contains only visible tables', async () => {
    const { tables } = await queries.client.getSchema({
      lake: await queries.lake(),
      scope: { tables: visible.map(tableNamed) },
    })
    expect(tables.map(({ table }) => table?.name)).toEqual(['routes', 'crews'])
    expect((await queries.client.getSchema({ lake: await queries.lake(), scope: {} })).tables).toEqual([])
  })
})

test('a query leaves out rows that another engine has deleted', async () => {
  const table = tableNamed('deletes.silver.pruned')
  await queries.table('deletes.silver.pruned', 'SELECT range AS id FROM range(6)')
  const attempt = await queries.catalog.attempt({ ...table, layer: 'silver' })
  const { commit } = await attempt.deletePositions([0, 4])
  expect(await queries.catalog.merge(attempt, commit)).toBe('merged')
  expect(await rowsOf('SELECT id FROM deletes.silver.pruned ORDER BY id')).toEqual(
    [1, 2, 3, 5].map((id) => ({ id })),
  )
  expect(await rowsOf('SELECT count(*) AS n FROM deletes.silver.pruned')).toEqual([{ n: 4 }])
  await queries.table('deletes.silver.pruned', 'SELECT 0 AS id', 'append')
  expect(await rowsOf('SELECT count(*) AS n FROM deletes.silver.pruned')).toEqual([{ n: 5 }])
  await queries.table('deletes.silver.pruned', 'SELECT 0 AS id')
  expect(await rowsOf('SELECT count(*) AS n FROM deletes.silver.pruned')).toEqual([{ n: 1 }])
})
