import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { checkHarmless } from './harmless.ts'
import { type Engine, openLocked } from './instance.ts'
import { StatementRefused } from './statement.ts'
import { useConnection } from './test-connection.ts'

const connection = await useConnection()

const refused = (sql: string) =>
  checkHarmless(connection, sql).then(
    () => null,
    (error: unknown) => (error instanceof StatementRefused ? error.message : error),
  )

describe('a SELECT with side effects', () => {
  test.each([
    'from enable_logging()',
    'select * from SYSTEM.main."Enable_Logging" -- so\n /* /* */ */ (storage = 1)',
    'values ((select count(*) from disable_logging()))',
    'with a as materialized (from checkpoint()) select 1 from range(2) where exists (from a)',
    'describe from enable_profiling()',
    'summarize from truncate_duckdb_logs()',
    "pivot (from query('select 1')) on a in (1)",
    "select json_serialize_plan('select 1')",
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
  ])('allows a harmless SELECT: %s', async (sql) => {
    expect(await refused(sql)).toBeNull()
  })

  test.each(['pragma enable_profiling', 'create table x as select 1 as views'])(
    'accepts only a SELECT: %s',
    async (sql) => {
      expect(await refused(sql)).toBe('only a SELECT can be run')
    },
  )

  test('checks a list longer than the arguments of a call', async () => {
    const list = `[${'1,'.repeat(200_000)}1]`
    expect(await refused(`select ${list} as query`)).toBeNull()
  })

  // A new version of the engine may bring a new function. Check its effects before you add it to READING.
  test('refuses every table function of the engine that does not only read', async () => {
    const rows = await connection.runAndReadAll(`
      select distinct function_name from duckdb_functions() where function_type = 'table' order by 1`)
    const names = rows.getRows().map(([name]) => String(name))
    const acting = await Promise.all(names.map((name) => refused(`from ${name}()`)))
    expect(names.filter((name, n) => acting[n] === null && !READING.test(name))).toEqual([])
  })
})

describe('a SELECT that reveals the engine', () => {
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
      profilePath: join(directory, 'profile.json'),
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
    ['from system.sqlite_master', 'the view sqlite_master'],
    ['select current_query()', 'the function current_query()'],
    ['select (select any_value(definition) from pg_views)', 'the view pg_views'],
    ['with a as (select * from INFORMATION_SCHEMA."VIEWS") from a', 'the view views'],
  ])('is refused: %s', async (sql, what) => {
    expect(await refused(sql)).toBe(`${what} is not allowed`)
  })

  // A new version of the engine may bring a new function or view.
  test("refuses every function and view that reveals the engine's paths", async () => {
    // Functions that wait, and one that makes the engine unresponsive, are left out.
    const listed = async (sql: string) => (await engine.read(sql)).getRows().map((row) => row.map(String))
    const functions = await listed(`
      SELECT DISTINCT function_name, function_type IN ('table', 'table_macro') FROM duckdb_functions()
      WHERE function_type IN ('table', 'table_macro', 'scalar', 'macro') AND function_name NOT SIMILAR TO '.*(sleep|is_histogram_other_bin|\\W).*'`)
    const views = await listed('SELECT DISTINCT schema_name, view_name FROM duckdb_views() WHERE internal')
    const texts = [
      ...functions.flatMap(([name, isTable]) =>
        ['', "'temp_directory'", "'a'", '(SELECT max(table_oid) FROM duckdb_tables())'].map((argument) =>
          isTable === 'true' ? `FROM ${name}(${argument})` : `SELECT ${name}(${argument})`,
        ),
      ),
      ...views.flatMap(([schema, name]) =>
        [`"${schema}".`, 'system.', ''].map((before) => `FROM ${before}"${name}"`),
      ),
    ]
    expect(texts.length).toBeGreaterThan(2_000)
    const outcomeOf = (sql: string) => engine.read(sql).then((reader) => String(reader.getRows()), String)
    const outputPath = `'${join(directory, 'kept.parquet')}'`
    // Returns the text that a statement of the service writes when it reads the SELECT through a view. An error there is not
    // checked, because the author sees only lines of their own text.
    const written = async (sql: string) => {
      await engine.run(`CREATE OR REPLACE TEMP VIEW result AS ${sql}`)
      await engine.run(`COPY (SELECT r::VARCHAR AS r FROM result AS r) TO ${outputPath}`)
      return outcomeOf(`FROM ${outputPath}`)
    }
    const telling: string[] = []
    for (const sql of texts) {
      if ((await refused(sql)) !== null) continue
      const read = await outcomeOf(`SELECT t::VARCHAR FROM (${sql}) AS t`)
      const copied = sql.startsWith('SELECT') ? await written(sql).catch(() => '') : ''
      if (`${read} ${copied}`.includes(directory)) telling.push(sql)
    }
    expect(telling).toEqual([])
    expect(await outcomeOf('SELECT 1')).toBe('1')
  }, 60_000)
})

/** These functions read files that the engine may read, describe the engine, or compute. */
const READING =
  /^(read_\w+|parquet_\w+|duckdb_\w+|pragma_\w+|json_(each|tree)|test_(all|vector)_types|range|generate_series|unnest|repeat|repeat_row|glob|sniff_csv|icu_calendar_names|pg_timezone_names|seq_scan|sql_auto_complete|summary|which_secret)$/
