import { describe, expect, test } from 'bun:test'
import { useConnection } from './test-connection.ts'
import { isTraceless } from './traceless.ts'

const connection = await useConnection()

const isShared = (sql: string) => isTraceless(connection, sql, [{ schema: 'default.gold', name: 'one' }])
const namesOf = async (sql: string) =>
  (await connection.runAndReadAll(sql)).getRows().map((row) => row.map(String))

describe('a query that only computes from its tables', () => {
  test.each([
    'select 1 as a',
    'select count(*) - 1 from "default.gold"."one"',
    'with one as (select 1 as a) select * from one, "DEFAULT.gold".ONE; -- done',
    "select 'set x = 1; attach ''/etc/passwd''' as \"pragma\", $$copy$$ as b",
    'select random(), uuid(), now() from range(3) tablesample 10%',
    'describe "default.gold"."one"',
  ])('shares an instance: %s', async (sql) => expect(await isShared(sql)).toBeTrue())
})

describe('a query that may change or reveal state', () => {
  test.each([
    // Statements that are not a SELECT, or contain another statement.
    '',
    'select 1; select 2',
    'select 1; set threads = 2',
    'set memory_limit = 1',
    "attach ':memory:' as x",
    'create temp table t as select 1',
    'create or replace macro abs(a) as 7',
    'prepare p as select 1',
    'begin',
    'explain analyze select 1',
    'pragma enable_profiling',
    'call enable_logging()',
    'select $1',
    'select 1 \0; set threads = 2',
    'pivot "default.gold"."one" on a using count(*)',
    'with a as (insert into t values (1) returning 1) select * from a',
    // The state of the instance, of its connections, and of random numbers.
    'select setseed(0.5)',
    'select a from "default.gold"."one" order by SETSEED(0.5)',
    'select list_transform([0.5], x -> "setseed"(x))',
    "select main.setseed(0.5) where exists (select nextval('s'))",
    'select txid_current()',
    'select current_transaction_id(), current_connection_id(), current_query_id()',
    'select current_query()',
    'select sum(1) over (order by txid_current())',
    "select getvariable('x')",
    "select current_setting('temp_directory')",
    'select * from duckdb_tables()',
    'select * from duckdb_memory()',
    'select * from duckdb_settings()',
    'select * from pg_catalog.pg_class',
    'select * from sqlite_master',
    'select table_name from information_schema.tables',
    'show tables',
    'show all tables',
    "select write_log('x')",
    "from query('select setseed(1)')",
    "from query_table('sluice_result')",
    "select json_serialize_plan('select 1')",
    "from json_execute_serialized_sql(json_serialize_sql('select 1'))",
    'from enable_logging()',
    'from checkpoint()',
    'from seq_scan()',
    // Files and tables of other users.
    "select * from read_parquet('in-*.parquet')",
    "select * from parquet_scan('/tmp/*')",
    "select * from '/tmp/a.parquet'",
    "from glob('*')",
    'from sluice_result',
    'from one',
    'from memory."default.gold".one',
    'from "default.gold".two',
    'from "default.gold.one"',
    'from temp.sluice_result',
    'select * from "default.gold"."one", lateral (from read_text(\'/etc/passwd\'))',
    'with "in.parquet" as (from "out.parquet") from "in.parquet"',
    'with recursive "*.parquet" as (from "*.parquet" union all select 1 where false) from "*.parquet"',
    'with recursive r as (from (with r as (from r) from r) union all select 1 where false) from r',
    'with "in.par\u212Auet" as (select 1) from "in.parkuet"',
    'from "default.gold"."on\u212A"',
  ])('needs its own instance: %j', async (sql) => expect(await isShared(sql)).toBeFalse())
})

/** The results of these functions differ per call, but reveal nothing about the instance. */
const CHANGING = new Set(
  `current_database current_date current_schema current_schemas error gen_random_uuid get_current_time
   get_current_timestamp in_search_path now random today transaction_timestamp uuid uuidv4 uuidv7`.split(
    /\s+/,
  ),
)

// A new version of the engine may bring a new function. Check what it reveals before you add it here.
test('knows every function that does not only compute', async () => {
  const rows = await namesOf(`
    select distinct function_name from duckdb_functions()
    where function_type in ('scalar', 'aggregate') and stability is distinct from 'CONSISTENT'
    and not (function_type = 'aggregate' and stability is null) order by 1`)
  const shared: string[] = []
  for (const [name = ''] of rows) if (await isShared(`select ${name}()`)) shared.push(name)
  expect(shared.filter((name) => !CHANGING.has(name))).toEqual([])
})

test('needs an instance for macros whose bodies need one', async () => {
  const macros = await namesOf(`
    select distinct function_name, macro_definition from duckdb_functions()
    where function_type = 'macro' and regexp_full_match(function_name, '[a-z_0-9]+')`)
  expect(macros.length).toBeGreaterThan(50)
  for (const [name, body] of macros) {
    if (await isShared(`select ${body}`)) continue
    // The name of an engine's type reveals nothing about this process.
    if (name !== 'format_type') expect([name, await isShared(`select ${name}()`)]).toEqual([name, false])
  }
})
