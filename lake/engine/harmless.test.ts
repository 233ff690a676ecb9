import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api'
import { checkHarmless } from './harmless.ts'
import { type Engine, openLocked } from './instance.ts'
import { StatementRefused } from './statement.ts'

let instance: DuckDBInstance
let connection: DuckDBConnection
beforeAll(async () => {
  instance = await DuckDBInstance.create(':memory:', { threads: '1' })
  connection = await instance.connect()
})
afterAll(() => {
  connection.closeSync()
  instance.closeSync()
})

const refused = (sql: string) =>
  checkHarmless(connection, sql).then(
    () => null,
    (error: unknown) => (error instanceof StatementRefused ? error.message : error),
  )

describe('a SELECT that acts', () => {
  test.each([
    'from enable_logging()',
    'select * from SYSTEM.main."Enable_Logging" -- so\n /* /* */ */ (storage = 1)',
    'values ((select count(*) from disable_logging()))',
    'with a as materialized (from checkpoint()) select 1 from range(2) where exists (from a)',
    'describe from enable_profiling()',
    'summarize from truncate_duckdb_logs()',
    "pivot (from query('select 1')) on a in (1)",
    "select json_serialize_plan('select 1')",
    'pragma enable_profiling',
    "from query_table('duckdb_' || 'views')",
    "select write_log('a')",
  ])('is refused: %s', async (sql) => {
    expect(await refused(sql)).toMatch(/^the function \w+\(\) is not allowed$/)
  })

  test.each([
    'select query, checkpoint from bronze.flights',
    'with query as (select 1) from query',
    "select 'enable_logging()', 1e400 -- query()",
    'select views from bronze.duckdb_views, pg_views.pg_settings',
    'with views as (select 1 as views) select views.views from views',
  ])('is not: %s', async (sql) => {
    expect(await refused(sql)).toBeNull()
  })

  test('is looked for in a list that is longer than the arguments of a call', async () => {
    const list = `[${'1,'.repeat(700_000)}1]`
    expect(await refused(`select ${list} as query`)).toBeNull()
  })

  // A new version of the engine may bring another one: whoever adds it here has looked what it does.
  test('is told from all others that the engine has', async () => {
    const rows = await connection.runAndReadAll(`
      select distinct function_name from duckdb_functions() where function_type = 'table' order by 1`)
    const names = rows.getRows().map(([name]) => String(name))
    const acting = await Promise.all(names.map((name) => refused(`from ${name}()`)))
    expect(names.filter((name, n) => acting[n] === null && !READING.test(name))).toEqual([])
  })
})

describe('what tells of the engine', () => {
  let directory: string
  let engine: Engine
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'sluice-telling-'))
    engine = await openLocked({
      memoryLimitBytes: 268_435_456,
      tempLimitBytes: 1_048_576,
      threads: 1,
      tempDirectory: join(directory, 'spill'),
      allowedDirectories: [directory],
      allowedPaths: [],
    })
    const file = `'${join(directory, 'a.parquet')}'`
    await engine.run(`COPY (SELECT 1 AS a) TO ${file}; CREATE SCHEMA "default.bronze"`)
    await engine.run(`CREATE VIEW "default.bronze".a AS SELECT * FROM read_parquet([${file}])`)
    await engine.run('SELECT * FROM "default.bronze".a')
  })
  afterAll(async () => {
    engine.close()
    await rm(directory, { recursive: true })
  })

  test.each([
    ["select current_setting('temp_directory') as a", 'the function current_setting()'],
    ['select 1 where exists (from "DUCKDB_SETTINGS"())', 'the function duckdb_settings()'],
    ['from main.duckdb_views', 'the view duckdb_views'],
    ['from memory.main.sqlite_master', 'the view sqlite_master'],
    ['select (select any_value(definition) from pg_views)', 'the view pg_views'],
    ['with a as (select * from INFORMATION_SCHEMA."VIEWS") from a', 'the view views'],
  ])('is refused: %s', async (sql, what) => {
    expect(await refused(sql)).toBe(`${what} is not allowed`)
  })

  // A new version of the engine may bring another one.
  test('is all that names a file or directory of the engine', async () => {
    const listed = async (sql: string) => (await engine.read(sql)).getRows().map((row) => row.map(String))
    const functions = await listed(`
      SELECT DISTINCT function_name, function_type IN ('table', 'table_macro') FROM duckdb_functions()
      WHERE function_type IN ('table', 'table_macro', 'scalar', 'macro') AND function_name NOT SIMILAR TO '.*(sleep|\\W).*'`)
    const views = await listed('SELECT DISTINCT schema_name, view_name FROM duckdb_views() WHERE internal')
    const texts = [
      ...functions.flatMap(([name, isTable]) =>
        ['', "'temp_directory'", "'a'", '(SELECT max(table_oid) FROM duckdb_tables())'].map((given) =>
          isTable === 'true' ? `FROM ${name}(${given})` : `SELECT ${name}(${given})`,
        ),
      ),
      ...views.map(([schema, name]) => `FROM "${schema}"."${name}"`),
    ]
    expect(texts.length).toBeGreaterThan(2_000)
    const telling: string[] = []
    for (const sql of texts) {
      if ((await refused(sql)) !== null) continue
      const told = await engine
        .read(`SELECT t::VARCHAR FROM (${sql}) AS t`)
        .then((reader) => String(reader.getRows()), String)
      if (told.includes(directory)) telling.push(sql)
    }
    expect(telling).toEqual([])
  }, 60_000)
})

/** They read files of those that an engine may read, tell of the engine, or compute. */
const READING =
  /^(read_\w+|parquet_\w+|duckdb_\w+|pragma_\w+|json_(each|tree)|test_(all|vector)_types|range|generate_series|unnest|repeat|repeat_row|glob|sniff_csv|icu_calendar_names|pg_timezone_names|seq_scan|sql_auto_complete|summary|which_secret)$/
