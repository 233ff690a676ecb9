// Specification: Query and schema (read-only). A forbidden query is refused with a message that reveals nothing of the machine.
// The next query works.
import { type APIRequestContext, expect, test } from '@playwright/test'
import { expectError } from '../../kit/resources.ts'
import { newTable } from '../../kit/runs.ts'
import { expectNothingTold } from './attempts.ts'

let table: string
test.beforeAll(async ({ request }) => {
  const { layer, name } = await newTable(
    request,
    { namespace: 'default', layer: 'gold' },
    "select 1 as id, 'JFK' as origin",
  )
  table = `${layer}."${name}"`
})

const query = (request: APIRequestContext, sql: string) =>
  request.post('/api/v1/query', { data: { sql: sql.replaceAll('{table}', table) } })

/** The service is healthy and its engines answer. */
async function expectService(request: APIRequestContext): Promise<void> {
  const answer = await query(request, 'select count(*) as n, 42 as answer from {table}')
  expect([answer.status(), (await answer.json()).rows]).toEqual([200, [{ n: 1, answer: 42 }]])
}

const ATTEMPTS: Record<string, [sql: string, message: RegExp][]> = {
  'files by function': [
    ["select * from read_csv('/etc/passwd')", /read_csv\(\) is not allowed/],
    ["select * from read_csv_auto('/etc/passwd', delim = ':')", /read_csv_auto\(\) is not allowed/],
    ["select * from read_text('/proc/self/environ')", /read_text\(\) is not allowed/],
    ["select * from read_blob('/proc/1/environ')", /read_blob\(\) is not allowed/],
    ["select content from read_text('/proc/self/root/etc/shadow')", /read_text\(\) is not allowed/],
    ["select * from read_parquet('/**/_lake/**/*.parquet')", /read_parquet\(\) is not allowed/],
    ["select * from parquet_scan('../../objects/_lake/**')", /parquet_scan\(\) is not allowed/],
    ["select * from parquet_metadata('/**/*.parquet')", /parquet_metadata\(\) is not allowed/],
    ["select * from parquet_schema('/**/*.parquet')", /parquet_schema\(\) is not allowed/],
    ["select * from read_json('/etc/os-release')", /read_json\(\) is not allowed/],
    ["select * from read_ndjson_objects('/etc/passwd')", /read_ndjson_objects\(\) is not allowed/],
    ["select * from sniff_csv('/etc/passwd')", /sniff_csv\(\) is not allowed/],
    ["select * from glob('/**')", /glob\(\) is not allowed/],
    ["select * from glob('/proc/*/cmdline')", /glob\(\) is not allowed/],
    ["select * from iceberg_scan('/_lake/default')", /iceberg_scan\(\) is not allowed/],
    ["select * from system.main.read_csv('/etc/passwd')", /read_csv\(\) is not allowed/],
    ['select * from "READ_TEXT"(\'/etc/passwd\')', /read_text\(\) is not allowed/i],
  ],
  'files by name': [
    ["from '/etc/passwd'", /there is no table/],
    ['from "/etc/passwd"', /there is no table/],
    ["from '/proc/self/fd/0'", /there is no table/],
    ["from '../../objects/_lake/default/gold/a/data/b.parquet'", /there is no table/],
    ["from 'symlink.csv'", /there is no table/],
    ["from 'https://example.com/a.parquet'", /there is no table/],
    ["from 's3://bucket/a.parquet'", /there is no table/],
    ["from 'file:///etc/passwd'", /there is no table/],
    ["describe '/etc/passwd'", /there is no table/],
    ["summarize '/etc/passwd'", /there is no table/],
    ["with x as (from '/etc/passwd') select * from x", /there is no table/],
    ["select (select count(*) from '/etc/passwd')", /there is no table/],
    ["select * from {table} t, lateral (from '/etc/passwd')", /there is no table/],
    ["explain analyze from '/etc/passwd'", /there is no table/],
    ["pivot '/etc/passwd' on column0 in ('a')", /there is no table/],
  ],
  'SQL inside of SQL': [
    ["from query('from read_text(''/etc/passwd'')')", /query\(\) is not allowed/],
    ["from query_table('/etc/passwd')", /query_table\(\) is not allowed/],
    ["from query_table(['default.gold.x'])", /query_table\(\) is not allowed/],
    [
      "from json_execute_serialized_sql(json_serialize_sql('select 1'))",
      /json_execute_serialized_sql\(\) is not allowed/,
    ],
    ["prepare p as select * from read_csv('/etc/passwd')", /PREPARE is not allowed/],
    ['execute p', /EXECUTE is not allowed/],
    ['deallocate p', /DEALLOCATE is not allowed/],
    ["create macro m() as table from read_csv('/etc/passwd')", /CREATE is not allowed/],
  ],
  writing: [
    ["copy (select 1) to '/tmp/out.csv'", /COPY is not allowed/],
    ["copy {table} from '/etc/passwd'", /COPY is not allowed/],
    ["copy (select 1) to '/dev/stdout'", /COPY is not allowed/],
    ["export database '/tmp/out'", /EXPORT is not allowed/],
    ["import database '/tmp/out'", /IMPORT is not allowed/],
    ['create table x as select 1', /CREATE is not allowed/],
    ['create or replace view {table} as select 2 as id', /CREATE is not allowed/],
    ['drop view {table}', /DROP is not allowed/],
    ['delete from {table}', /DELETE is not allowed/],
    ["update {table} set origin = 'x'", /UPDATE is not allowed/],
    ['with x as (select 1) insert into {table} from x', /not allowed/],
    ['truncate {table}', /TRUNCATE is not allowed/],
    ['select 1; drop view {table}', /not allowed/],
    ['select 1; select 2', /2 statements/],
  ],
  'the engine, its settings and the environment': [
    ["attach '/tmp/x.db' as x", /ATTACH is not allowed/],
    ["attach 'postgres://127.0.0.1/sluice' as x (type postgres)", /ATTACH is not allowed/],
    ['detach "default"', /DETACH is not allowed/],
    ['use system', /USE is not allowed/],
    ['install httpfs', /INSTALL is not allowed/],
    ["load '/tmp/evil.duckdb_extension'", /LOAD is not allowed/],
    ['set enable_external_access = true', /SET is not allowed/],
    ["set memory_limit = '1TB'", /SET is not allowed/],
    ['set variable x = 1', /SET is not allowed/],
    ['reset all', /RESET is not allowed/],
    ['pragma database_list', /PRAGMA is not allowed|not allowed/],
    ["pragma enable_profiling = 'json'", /not allowed/],
    ["call enable_logging(storage = 'stdout')", /CALL is not allowed/],
    ['checkpoint', /CHECKPOINT is not allowed/],
    ['vacuum', /VACUUM is not allowed/],
    ['begin transaction', /BEGIN is not allowed/],
    ['select * from duckdb_settings()', /duckdb_settings\(\) is not allowed/],
    ['select * from duckdb_secrets()', /duckdb_secrets\(\) is not allowed/],
    ["select * from which_secret('s3://b', 's3')", /which_secret\(\) is not allowed/],
    ['select * from duckdb_views()', /duckdb_views\(\) is not allowed/],
    ['select * from duckdb_databases()', /duckdb_databases\(\) is not allowed/],
    ['select * from duckdb_temporary_files()', /duckdb_temporary_files\(\) is not allowed/],
    ['select * from duckdb_logs', /there is no table/],
    ['select * from pg_catalog.pg_views', /there is no table/],
    ['select sql from sqlite_master', /there is no table/],
    ['select view_definition from information_schema.views', /there is no table/],
    ["select getenv('DATABASE_URL')", /getenv\(\) is not allowed/],
    ["select current_setting('allowed_directories')", /current_setting\(\) is not allowed/],
    ["select getvariable('x')", /getvariable\(\) is not allowed/],
    ["create secret s (type s3, key_id 'x', secret 'y')", /CREATE is not allowed/],
    ['show databases', /not allowed/],
    ['select ?', /parameters are not allowed/],
  ],
  'excessive memory': [
    ["select repeat(repeat('x', 1_000_000), 1_000_000)", /./],
    ["select array_agg(repeat('x', 100_000)) from range(10_000_000_000)", /memory/],
  ],
  'statements beyond the limits of the parser': [
    [`select ${'('.repeat(40_000)}1${')'.repeat(40_000)}`, /./],
    [`select ${'abs('.repeat(15_000)}1${')'.repeat(15_000)}`, /./],
    [`select ${'not '.repeat(20_000)}true`, /./],
    [`from ${'(from '.repeat(12_000)}x${')'.repeat(12_000)}`, /./],
  ],
}

for (const [kind, attempts] of Object.entries(ATTEMPTS))
  test.describe(`a query is refused for ${kind}`, () => {
    for (const [sql, message] of attempts)
      test(sql.slice(0, 80), async ({ request }) => {
        const response = await query(request, sql)
        await expectError(response, 400, message)
        expectNothingTold(await response.text(), sql)
        await expectService(request)
      })
  })

test('endless queries are stopped after their client disconnects', async ({ request }) => {
  const endless = [
    'with recursive r as (select 1 as n union all select n + 1 from r) select max(n) from r',
    'select count(*) from range(100_000) a, range(100_000) b, range(100_000) c where a.range + b.range < 0',
    'select sum(range) from generate_series(1, 100_000_000_000) t(range)',
  ]
  const left = await Promise.allSettled(
    endless.map((sql) => request.post('/api/v1/query', { data: { sql }, timeout: 500 })),
  )
  expect(left.map(({ status }) => status)).toEqual(endless.map(() => 'rejected'))
  await expectService(request)
})

test('large but harmless queries are answered', async ({ request }) => {
  for (const sql of [
    `select 1 where 5 in (${Array.from({ length: 12_000 }, (_, n) => n).join(', ')})`,
    "select regexp_matches(repeat('a', 100_000), '(a+)+$') as slow",
    `select 1 ${'union all select 1 '.repeat(3_000)}`,
  ])
    expect((await query(request, sql)).status()).toBe(200)
  await expectService(request)
})
