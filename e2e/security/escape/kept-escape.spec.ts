// Attack class: a run learns about the run before it. SQL runs use the same engine process one after the other, and many of
// them the same instance. Two users take turns on a runner with a single engine. The first user reads data and leaves objects.
// The second user looks for them by name, pattern, guess and error text.
import { type APIRequestContext, expect, test } from '@playwright/test'
import { type MadePipeline, pipelineWith, rowsOf, writeFile } from '../../kit/resources.ts'
import { newTable, requestRun } from '../../kit/runs.ts'
import { type Caller, type ProService, startProService } from '../rights/pro-service.ts'
import { ended, expectFailed, expectHealthy, expectRefused, newPreview } from './attempts.ts'

const HERS = 'canary-row-of-hers'

let service: ProService
let she: APIRequestContext
let he: APIRequestContext
let machine: APIRequestContext
let table: MadePipeline
let reader: MadePipeline

test.beforeAll(async ({ playwright }) => {
  service = await startProService({ RUNNER_URLS: '', QUERY_URLS: '', RUNNER_CONCURRENCY: '1' })
  const context = (extraHTTPHeaders: Caller) =>
    playwright.request.newContext({ baseURL: service.url, extraHTTPHeaders: { ...extraHTTPHeaders } })
  she = await context(service.user('she'))
  he = await context(service.user('he'))
  machine = await context(service.machine)
  const at = { namespace: 'default', layer: 'silver' }
  table = await newTable(she, at, `select '${HERS}' as hers, 1 as id`)
  reader = await newTable(she, at, `select * from {{ ref('silver.${table.name}') }}`)
})
test.afterAll(() => service?.stop())

/** Requests a run of a new pipeline with this SQL. Runs execute in the order of their requests. */
async function ask(request: APIRequestContext, sql: string, tests: Record<string, string> = {}) {
  const pipeline = await pipelineWith(request, sql, { layer: 'silver' })
  for (const [name, text] of Object.entries(tests))
    await writeFile(request, `${pipeline.prefix}tests/quality/${name}.sql`, text)
  return requestRun(request, pipeline)
}

const NOT_THERE = /does not exist|is a bare table name/
const LOCKED = /disabled by configuration|Permission Error|does not exist/
const ONLY_SELECT = /only a SELECT can be run|one SELECT statement is expected|does not exist/
const NOTHING_LEFT = /nothing is left/

/** Queries of the second user in an engine that has just read the first user's table; `{table}` is its name. */
const LOOKS: [sql: string, message: RegExp][] = [
  ["select * from {{ ref('silver.{table}') }}", NOT_THERE],
  ['select * from "default.silver"."{table}"', NOT_THERE],
  ['select * from "default.silver"."{table} "', NOT_THERE],
  ['select * from memory."default.silver"."{table}"', NOT_THERE],
  ['select * from temp."{table}"', NOT_THERE],
  ['select hers from "default.silver"."{table}" as t', NOT_THERE],
  ["select * from query_table('{table}')", /query_table\(\) is not allowed|does not exist/],
  ['select * from sluice_result', /sluice_result/],
  ['select hers as a', /hers/],
  ["select * from glob('*')", LOCKED],
  ["select * from glob('**/*')", LOCKED],
  ["select * from glob('../**')", LOCKED],
  ["select * from glob('../../inputs/**')", LOCKED],
  ["select * from read_parquet('in-*.parquet')", LOCKED],
  ["select * from read_parquet('**/*.parquet')", LOCKED],
  ["select * from read_parquet('../../inputs/*/in-*.parquet')", LOCKED],
  ["select * from read_parquet('../../inputs/1/in-00000000-0000-4000-8000-000000000000.parquet')", LOCKED],
  ["select * from read_parquet('../1/**/*.parquet')", LOCKED],
  ["select * from read_parquet(['../../inputs/1/*', '../../inputs/2/*'])", LOCKED],
  ["select * from read_parquet('../../cache/**')", LOCKED],
  ["select * from parquet_metadata('../../inputs/*/*.parquet')", LOCKED],
  ["select * from parquet_kv_metadata('../../inputs/*/*.parquet')", LOCKED],
  ["select * from parquet_bloom_probe('../../inputs/*/*.parquet', 'hers', 'a')", LOCKED],
  ["select * from read_blob('../../inputs/*/*')", LOCKED],
  ["select * from read_text('../../inputs/*/*')", LOCKED],
  ["select * from read_csv('../**/*.csv')", LOCKED],
  ["from '../../inputs/1/in-*.parquet'", LOCKED],
  ["select * from read_parquet('/proc/self/cwd/**')", LOCKED],
  ["select * from read_blob('/proc/self/fd/*')", LOCKED],
  ["select * from read_blob('/proc/self/map_files/*')", LOCKED],
]

/** Objects that the first user tries to leave, and how the second user would find them. */
const LEFT: [leave: string, find: string, message: RegExp][] = [
  [`create temp table left_a as select '${HERS}' as a`, 'select * from left_a', NOT_THERE],
  [`create table left_b as select '${HERS}' as a`, 'select * from left_b', NOT_THERE],
  [`create view left_c as select '${HERS}' as a`, 'select * from left_c', NOT_THERE],
  [
    `create or replace temp view sluice_result as select '${HERS}' as a`,
    'from sluice_result',
    /sluice_result/,
  ],
  [`create macro left_d() as '${HERS}'`, 'select left_d() as a', NOT_THERE],
  [`create macro left_e() as table select '${HERS}'`, 'select * from left_e()', NOT_THERE],
  [
    `create macro abs(a) as '${HERS}'`,
    "select error(concat('nothing is left: ', abs(-1))) as a",
    NOTHING_LEFT,
  ],
  ['create sequence left_f start 7', "select nextval('left_f') as a", NOT_THERE],
  [`prepare left_g as select '${HERS}' as a`, 'execute left_g', ONLY_SELECT],
  [
    `set variable left_h = '${HERS}'`,
    "select coalesce(getvariable('left_h'), error('nothing is left')) as a",
    /nothing is left|getvariable/,
  ],
  [`create type left_i as enum ('${HERS}')`, 'select null::left_i as a', NOT_THERE],
  ['create schema left_j', 'select * from left_j.a', NOT_THERE],
  ["attach ':memory:' as left_k", 'select * from left_k.a', NOT_THERE],
  [
    `create secret left_l (type s3, secret '${HERS}')`,
    "select error('nothing is left') as a where not exists (from duckdb_secrets())",
    NOTHING_LEFT,
  ],
  [
    "set search_path = 'pg_catalog'",
    "select error('nothing is left') as a where current_schema() = 'main'",
    NOTHING_LEFT,
  ],
  ['set threads = 1', "select error('nothing is left') as a", NOTHING_LEFT],
  [
    "set timezone = 'Pacific/Kiritimati'",
    "select error('nothing is left') as a where timestamptz '2024-01-01' = timestamptz '2024-01-01 00:00:00+00'",
    NOTHING_LEFT,
  ],
  [
    `comment on table left_b is '${HERS}'`,
    "select error('nothing is left') as a where not exists (from duckdb_tables() where comment is not null)",
    NOTHING_LEFT,
  ],
]

const named = (sql: string) => sql.replaceAll('{table}', table.name)

test(`a run reads nothing of another user's previous run: ${LOOKS.length} attempts`, async () => {
  const runs = []
  for (const [text, message] of LOOKS) {
    await requestRun(she, reader)
    runs.push({ sql: named(text), message, id: await ask(he, named(text)) })
  }
  for (const { id, sql, message } of runs) expectFailed(await ended(he, id), sql, message)
  await expectHealthy(machine)
})

test(`a run leaves nothing for the next run: ${LEFT.length} attempts`, async () => {
  const runs = []
  for (const [leave, find, message] of LEFT)
    runs.push({ leave, find, message, ids: [await ask(she, leave), await ask(he, find)] as const })
  for (const { leave, find, message, ids } of runs) {
    expectFailed(await ended(she, ids[0]), leave, ONLY_SELECT)
    expectFailed(await ended(he, ids[1]), find, message)
  }
  await expectHealthy(machine)
})

test(`quality tests read nothing of previous runs: ${LOOKS.length + LEFT.length} attempts`, async () => {
  const texts = [...LOOKS.map(([sql]) => named(sql)), ...LEFT.map(([, find]) => find)]
  const tests = Object.fromEntries(texts.map((sql, place) => [`t${place}`, `-- @severity: error\n${sql}`]))
  await requestRun(she, reader)
  const run = await ended(he, await ask(he, 'select 1 as a', tests))
  expectFailed(run, texts.join('\n'), new RegExp(`${texts.length} quality tests failed`))
  await expectHealthy(machine)
})

test(`previews read nothing of previous runs: ${LOOKS.length} attempts`, async () => {
  const preview = await newPreview(he)
  const ownPreview = await she.post(`${reader.url}/preview`, { data: {} })
  expect([ownPreview.status(), await ownPreview.text()]).toEqual([200, expect.stringContaining(HERS)])
  for (const [text, message] of LOOKS) {
    const code = named(text)
    await expectRefused(await preview.ask(code), code, message)
  }
  await expectHealthy(machine)
})

test('control: the owner can read her table and the other user cannot', async () => {
  const run = await ended(she, await requestRun(she, reader))
  expect([run.status, run.error]).toEqual(['success', null])
  const sql = `select hers from default.silver."${table.name}"`
  expect(await rowsOf(she, sql)).toEqual([{ hers: HERS }])
  await expectRefused(await he.post('/api/v1/query', { data: { sql } }), sql, /there is no table/)
})
