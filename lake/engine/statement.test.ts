import { describe, expect, test } from 'bun:test'
import { EngineError } from './error.ts'
import { plannedTreeOn, type SyntaxTree, treeOn } from './parser.ts'
import {
  checkReadOnly,
  limited,
  MOMENTARY_NAMES,
  StatementRefused,
  type TableReference,
} from './statement.ts'
import { useConnection } from './test-connection.ts'

const connection = await useConnection()
const planned = await plannedTreeOn(connection)

/** Both kinds of parser calls must return the same tree for every text of these tests. */
const tree: SyntaxTree = async (sql) => {
  const [literal] = await Promise.allSettled([treeOn(connection)(sql)])
  const [prepared] = await Promise.allSettled([planned(sql)])
  if (literal.status === 'rejected') {
    expect(prepared).toMatchObject({
      status: 'rejected',
      reason: { message: String(literal.reason.message) },
    })
    throw literal.reason
  }
  expect(prepared).toEqual(literal)
  return literal.value
}

/** The tables of these tests: bronze.flights and ops.gold.routes. */
const isTable = ({ catalog, schema, name }: TableReference) =>
  ['.bronze.flights', 'ops.gold.routes'].includes(`${catalog}.${schema}.${name}`.toLowerCase())

const check = (sql: string) => checkReadOnly(tree, sql, { isTable })
const tablesOf = async (sql: string) =>
  (await checkReadOnly(tree, sql)).tables.map((table) => Object.values(table).filter(Boolean).join('.'))
const refusalOf = (sql: string) =>
  check(sql).then(
    () => 'allowed',
    (error: unknown) => {
      if (error instanceof StatementRefused || error instanceof EngineError) return error.message
      throw error
    },
  )

describe('a read-only query', () => {
  test.each([
    'SELECT 1',
    'select * from bronze.flights;',
    'SELECT * FROM BRONZE.Flights f JOIN "ops".gold.routes r USING (id) ; -- done',
    'FROM bronze.flights',
    'TABLE bronze.flights',
    'VALUES (1), (2)',
    '/* a */ -- b\n(SELECT 1) UNION ALL (SELECT 2) ORDER BY 1',
    'WITH a AS (SELECT * FROM bronze.flights), b AS (FROM a) SELECT * FROM b, A',
    'WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 9) SELECT * FROM r',
    'SELECT (WITH a AS (SELECT 1) SELECT * FROM a), x IN (FROM bronze.flights) FROM (SELECT 2 AS x)',
    'SELECT * FROM range(3), generate_series(1, 2), unnest([1, 2]) AS u',
    "SELECT * FROM json_each('[1]')",
    `SELECT 1e400, -1e400, 'Infinity \\" NaN' AS "-Infinity" FROM range(1e999::INTEGER) t("NaN")`,
    'DESCRIBE bronze.flights',
    'DESCRIBE SELECT * FROM bronze.flights',
    'SUMMARIZE bronze.flights',
    'SHOW bronze.flights',
    'SHOW TABLES',
    'SHOW ALL TABLES',
    'SELECT table_name FROM information_schema.tables',
    'EXPLAIN SELECT * FROM bronze.flights',
    '-- why\nexplain /* so */ analyze SELECT 1;',
    'PIVOT bronze.flights ON a IN (1, 2) USING sum(b)',
    'SELECT count(*) FILTER (WHERE a) OVER w FROM bronze.flights WINDOW w AS (ORDER BY b) QUALIFY true',
    "SELECT 'read_csv(''/etc/passwd'')', $$;DROP TABLE x$$ AS \"insert\"",
    'SELECT * FROM bronze.flights TABLESAMPLE 10%',
    'SELECT lambda_result FROM (SELECT list_transform([1], lambda x: x + 1) AS lambda_result)',
  ])('is allowed: %j', async (sql) => expect(await refusalOf(sql)).toBe('allowed'))

  test('returns the checked text as the text to run', async () => {
    expect(await check('EXPLAIN  SELECT 1')).toMatchObject({ kind: 'explain', sql: 'EXPLAIN   SELECT 1' })
    expect(await check('SELECT 1; ')).toMatchObject({ kind: 'select', sql: 'SELECT 1; ', listsTables: false })
    expect(await check('SHOW TABLES')).toMatchObject({ listsTables: true, tables: [] })
    expect(await check('FROM information_schema.columns')).toMatchObject({ listsTables: true, tables: [] })
  })
})

describe('the tables of a query', () => {
  test.each([
    ['SELECT * FROM a, s.b, c.s.d', ['c.s.d', 's.b', 'a']],
    ['SELECT * FROM a JOIN A ON true', ['a']],
    ['WITH a AS (SELECT * FROM b) SELECT * FROM a', ['b']],
    ['WITH a AS (SELECT 1) SELECT * FROM s.a', ['s.a']],
    ['WITH a AS (FROM b), b AS (SELECT 1) FROM a', ['b']],
    ['WITH a AS (FROM a) FROM a', ['a']],
    ['SELECT * FROM (WITH a AS (SELECT 1) FROM a), a', ['a']],
    ['SELECT (SELECT max(x) FROM b), EXISTS (FROM c), 1 IN (FROM d) FROM e', ['b', 'c', 'd', 'e']],
    ['FROM a UNION FROM b EXCEPT FROM c', ['a', 'b', 'c']],
    ['SELECT 1 ORDER BY (SELECT x FROM a) LIMIT (SELECT y FROM b)', ['a', 'b']],
    ['DESCRIBE a', ['a']],
    ['EXPLAIN FROM a', ['a']],
    ['SELECT * FROM a, LATERAL (SELECT * FROM b WHERE b.x = a.x)', ['a', 'b']],
    ['PIVOT a ON x IN (1) USING sum(y)', ['a']],
    ['UNPIVOT a ON x, y', ['a']],
    ["SELECT * FROM 'file.csv'", ['file.csv']],
    ['SELECT list_transform([1], x -> (SELECT y FROM a))', ['a']],
    ['SELECT * FROM a ASOF JOIN b USING (t) POSITIONAL JOIN c', ['a', 'b', 'c']],
    ['WITH RECURSIVE r AS (FROM a UNION FROM r, b) FROM r', ['a', 'b']],
    // The first part of a recursive query does not see its own name, so the engine searches for a table or a file.
    ['WITH RECURSIVE r AS (FROM r UNION FROM r, b) FROM r', ['b', 'r']],
    ['WITH RECURSIVE r AS (FROM a JOIN (SELECT (FROM r)) ON true UNION ALL FROM b) FROM r', ['a', 'b', 'r']],
    ['WITH r AS (FROM a), b AS (WITH RECURSIVE r AS (FROM r UNION FROM r) FROM r) FROM b', ['a']],
    // The engine folds only ASCII letters, not letters such as the Kelvin sign.
    ['WITH "\u212A" AS (SELECT 1) FROM k', ['k']],
    ['WITH k AS (SELECT 1) FROM K, "\u212A"', ['\u212A']],
  ])('are found in %j', async (sql, tables) =>
    expect((await tablesOf(sql)).toSorted()).toEqual(tables.toSorted()),
  )
})

describe('a hostile text', () => {
  test.each([
    // Files, by any function or name.
    ["SELECT * FROM read_csv('/etc/passwd')", 'read_csv()'],
    ["SELECT * FROM read_csv_auto('/etc/passwd')", 'read_csv_auto()'],
    ["SELECT * FROM READ_PARQUET('/x.parquet')", 'read_parquet()'],
    ["SELECT * FROM parquet_scan('/x')", 'parquet_scan()'],
    ["SELECT * FROM parquet_metadata('/x')", 'parquet_metadata()'],
    ["SELECT * FROM parquet_file_metadata('/x')", 'parquet_file_metadata()'],
    ["SELECT * FROM read_json('/x')", 'read_json()'],
    ["SELECT * FROM read_text('/etc/passwd')", 'read_text()'],
    ["SELECT * FROM read_blob('/etc/passwd')", 'read_blob()'],
    ["SELECT * FROM glob('/*')", 'glob()'],
    ["SELECT * FROM sniff_csv('/etc/passwd')", 'sniff_csv()'],
    ["SELECT * FROM main.read_csv('/etc/passwd')", 'read_csv()'],
    ['SELECT * FROM "read_csv"(\'/etc/passwd\')', 'read_csv()'],
    ["SELECT (SELECT count(*) FROM read_text('/etc/passwd'))", 'read_text()'],
    ["WITH a AS (FROM glob('/*')) SELECT 1", 'glob()'],
    ["SELECT 1 WHERE EXISTS (FROM bronze.flights, LATERAL (FROM read_text('/etc/passwd')))", 'read_text()'],
    ["EXPLAIN ANALYZE SELECT * FROM read_csv('/etc/passwd')", 'read_csv()'],
    ["DESCRIBE SELECT * FROM read_csv('/etc/passwd')", 'read_csv()'],
    ["SELECT * FROM '/etc/passwd'", 'there is no table /etc/passwd'],
    ["FROM 's3://bucket/x.parquet'", 'there is no table s3://bucket/x.parquet'],
    ['FROM "https://example.com/x.csv"', 'there is no table'],
    ["DESCRIBE '/etc/passwd'", 'there is no table /etc/passwd'],
    ["SUMMARIZE 'x.csv'", 'there is no table x.csv'],
    ['WITH "x.csv" AS (FROM "y.csv") FROM "x.csv"', 'there is no table y.csv'],
    ['WITH a AS (FROM "x.csv"), "x.csv" AS (SELECT 1) FROM a', 'there is no table x.csv'],
    ['WITH RECURSIVE "*.csv" AS (FROM "*.csv" UNION ALL SELECT 1) FROM "*.csv"', 'there is no table *.csv'],
    [
      'WITH RECURSIVE duckdb_views AS (FROM duckdb_views UNION FROM duckdb_views) FROM duckdb_views',
      'duckdb_views',
    ],
    // SQL inside texts.
    ["FROM query('COPY (SELECT 1) TO ''/x''')", 'query()'],
    ["FROM query_table('/etc/passwd')", 'query_table()'],
    ["FROM query_table(['bronze.flights'])", 'query_table()'],
    ["FROM json_execute_serialized_sql('{}')", 'json_execute_serialized_sql()'],
    ["SELECT json_serialize_plan('SELECT 1')", 'json_serialize_plan()'],
    // Settings, the environment and the process.
    ['SELECT * FROM duckdb_settings()', 'duckdb_settings()'],
    ['SELECT * FROM duckdb_secrets()', 'duckdb_secrets()'],
    ['SELECT * FROM duckdb_views()', 'duckdb_views()'],
    ['SELECT * FROM pragma_database_list', 'there is no table pragma_database_list'],
    ['SELECT * FROM sqlite_master', 'there is no table sqlite_master'],
    ['SELECT * FROM pg_catalog.pg_settings', 'there is no table pg_catalog.pg_settings'],
    ['SELECT * FROM information_schema.views', 'there is no table information_schema.views'],
    ["SELECT current_setting('temp_directory')", 'current_setting()'],
    ["SELECT getenv('HOME')", 'getenv()'],
    ["SELECT write_log('x')", 'write_log()'],
    ['SELECT sleep_ms(100000)', 'sleep_ms()'],
    ['SELECT system.pg_catalog.PG_GET_VIEWDEF(i) FROM range(99999) t(i)', 'pg_get_viewdef()'],
    ['FROM arrow_scan(1::POINTER, 2::POINTER, 3::POINTER)', 'arrow_scan()'],
    ['FROM test_all_types()', 'test_all_types()'],
    ["CALL enable_logging(storage = 'stdout')", 'CALL is not allowed'],
    ["FROM enable_logging(storage = 'stdout')", 'enable_logging()'],
    ['SHOW DATABASES', 'SHOW "databases" is not allowed'],
    // Statements other than queries.
    ['INSERT INTO bronze.flights VALUES (1)', 'INSERT is not allowed'],
    ['-- just a look\n DELETE FROM bronze.flights', 'DELETE is not allowed'],
    ['UPDATE bronze.flights SET a = 1', 'UPDATE is not allowed'],
    ['DROP TABLE bronze.flights', 'DROP is not allowed'],
    ['CREATE TABLE x AS SELECT 1', 'CREATE is not allowed'],
    ['CREATE TEMP TABLE x AS SELECT 1', 'CREATE is not allowed'],
    ['MERGE INTO a USING b ON true WHEN MATCHED THEN DELETE', 'MERGE is not allowed'],
    ['ALTER TABLE bronze.flights RENAME TO x', 'ALTER is not allowed'],
    ["COPY bronze.flights TO '/x'", 'COPY is not allowed'],
    ["COPY (SELECT 1) TO '/x'", 'COPY is not allowed'],
    ["ATTACH '/x.db'", 'ATTACH is not allowed'],
    ["EXPORT DATABASE '/x'", 'EXPORT is not allowed'],
    ['INSTALL httpfs', 'INSTALL is not allowed'],
    ['LOAD httpfs', 'LOAD is not allowed'],
    ['SET memory_limit = 1', 'SET is not allowed'],
    ['RESET memory_limit', 'RESET is not allowed'],
    ['PRAGMA database_list', 'PRAGMA is not allowed'],
    ['BEGIN', 'BEGIN is not allowed'],
    ['CHECKPOINT', 'CHECKPOINT is not allowed'],
    ['USE x', 'USE is not allowed'],
    ['PREPARE p AS SELECT 1', 'PREPARE is not allowed'],
    ['EXPLAIN DELETE FROM bronze.flights', 'DELETE is not allowed'],
    ['EXPLAIN ANALYZE CREATE TABLE x AS SELECT 1', 'CREATE is not allowed'],
    ['EXPLAIN EXPLAIN SELECT 1', 'EXPLAIN is not allowed'],
    ['PIVOT bronze.flights ON a USING sum(b)', 'a PIVOT needs its values'],
    // Two statements or none.
    ['SELECT 1; SELECT 2', 'there are 2 statements'],
    ['SELECT 1; DROP TABLE x', 'is not allowed'],
    ['EXPLAIN SELECT 1; DROP TABLE x', 'is not allowed'],
    ['SELECT $1', 'parameters are not allowed'],
    ['', 'there is no statement'],
    [' ; -- nothing', 'there is no statement'],
    ['EXPLAIN', 'there is no statement'],
    ['SELEC 1', 'syntax error at or near "SELEC" (line 1)'],
    ['SELECT 1\n  FROM FROM', '(line 2)'],
    [`SELECT 'it is not closed`, 'unterminated'],
    ['SELECT 1\0; DROP TABLE x', 'null byte'],
    [`SELECT ${'1+'.repeat(5_000)}1`, 'expression depth'],
    [`SELECT ${'abs('.repeat(5_000)}`, 'Parser Error'],
    // Unknown tables.
    ['FROM flights', 'there is no table flights'],
    ['FROM gold.routes', 'there is no table gold.routes'],
    ['FROM system.information_schema.tables, x', 'there is no table x'],
  ])('is refused: %j', async (sql, message) => expect(await refusalOf(sql)).toContain(message))

  test('refuses macros whose bodies are refused', async () => {
    const reader = await connection.runAndReadAll(`
      SELECT DISTINCT function_name, parameters, macro_definition FROM duckdb_functions()
      WHERE function_type = 'macro' AND regexp_full_match(function_name, '[a-z_0-9]+')`)
    const macros = reader.getRowObjects()
    expect(macros.length).toBeGreaterThan(50)
    for (const { function_name: name, macro_definition: body } of macros) {
      if ((await refusalOf(`SELECT ${body}`)) === 'allowed') continue
      // The name of an engine's type reveals nothing about this process.
      if (name !== 'format_type') expect(await refusalOf(`SELECT ${name}()`)).toContain(`${name}()`)
    }
  })

  test('reads a large query without exhausting the stack', async () => {
    expect(await refusalOf(`SELECT 1 ${'UNION ALL SELECT 1 '.repeat(4_000)}`)).toBe('allowed')
  })
})

describe('a row limit', () => {
  const first = async (sql: string, rowsLimit: number) =>
    (await connection.runAndReadAll(limited(await checkReadOnly(tree, sql), rowsLimit))).getRowsJson()

  test('limits a query and keeps its order and columns', async () => {
    expect(
      await first('SELECT range AS a, 1 AS a FROM range(100_000) ORDER BY range DESC; -- all', 2),
    ).toEqual([
      ['99999', 1],
      ['99998', 1],
    ])
    expect(
      await first('SELECT * FROM range(100_000) ORDER BY range % 7 DESC, range DESC LIMIT 3', 5),
    ).toEqual([['99994'], ['99987'], ['99980']])
  })

  test.each([
    'FROM range(9)',
    'VALUES (1), (2), (3)',
    '(SELECT 1) UNION ALL SELECT 2 -- end',
    'WITH a AS (FROM range(9)) FROM a',
    'DESCRIBE SELECT 1, 2, 3',
    'SHOW TABLES',
    'SUMMARIZE SELECT 1 AS a',
    'TABLE information_schema.tables',
    'PIVOT (SELECT 1 AS a, 2 AS b) ON a IN (1) USING sum(b)',
    'EXPLAIN SELECT 1',
    'SELECT \';\' AS "a;b", $$;$$',
  ])('%j can be limited', async (sql) => {
    expect((await first(sql, 2)).length).toBeLessThanOrEqual(2)
  })
})

describe('a statement that may mean something else a moment later', () => {
  test.each([
    ['SELECT now()', true],
    ['SELECT 1 FROM bronze.flights WHERE day > CURRENT_DATE', true],
    ['WITH a AS (SELECT "today"() AS t) FROM a', true],
    ['SELECT age(day) FROM bronze.flights', true],
    ['SELECT f.current_date FROM bronze.flights f', false],
    ["SELECT 'now()' AS now", false],
  ])('is recognized: %s', async (sql, expected) => {
    expect((await check(sql)).isMomentary).toBe(expected)
  })

  // A new version of the engine may bring a new function.
  test('calls one of the known functions', async () => {
    const rows = await connection.runAndReadAll(`
      SELECT DISTINCT function_name, macro_definition FROM duckdb_functions()
      WHERE stability = 'CONSISTENT_WITHIN_QUERY' OR macro_definition IS NOT NULL`)
    /** Their values depend on the current catalog, which the planner shares. */
    const places = ['current_database', 'current_schema', 'current_schemas', 'in_search_path']
    const unknown = rows.getRows().filter(([name, macro]) => {
      const words = new Set(macro === null ? [] : (String(macro).toLowerCase().match(/\w+/g) ?? []))
      const isMomentary =
        macro === null ? !places.includes(String(name)) : !words.isDisjointFrom(MOMENTARY_NAMES)
      return isMomentary && !MOMENTARY_NAMES.has(String(name))
    })
    expect(unknown).toEqual([])
  })
})
