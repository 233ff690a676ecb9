// Specification: Pipelines, Quality tests. Runs that try to get out of their engine fail with words for their author, and
// the runs beside them do not notice.
import { expect, test } from '@playwright/test'
import { newPipeline, writeFile } from '../resources.ts'
import { expectFailed, expectHealthy, expectNothingTold, runOf } from './attempts.ts'

const LOCKED =
  /^executing: .*(disabled by configuration|Permission Error|does not exist|disabled through configuration)/s
const ONLY_SELECT =
  /^executing: .*(only a SELECT can be run|one SELECT statement is expected|Permission Error)/s

const NO_ACTING = /^executing: .*the function \w+\(\) is not allowed/s

const RUNS: [sql: string, message: RegExp][] = [
  ["select * from read_text('/etc/passwd')", LOCKED],
  ["select * from read_blob('/proc/self/environ')", LOCKED],
  ["select * from read_text('/proc/1/environ')", LOCKED],
  ["select * from glob('/**')", LOCKED],
  ["select * from glob('../../../../**')", LOCKED],
  ["select * from read_parquet('../**/*.parquet')", LOCKED],
  ["select * from read_csv('../../../postgres/postgresql.conf')", LOCKED],
  ["from '/etc/passwd'", LOCKED],
  ["select * from read_csv('http://127.0.0.1:1/a.csv')", LOCKED],
  ["select getenv('DATABASE_URL') as a", /getenv/],
  ["copy (select 1) to '/tmp/sluice-was-here.csv'", ONLY_SELECT],
  ["attach '/tmp/sluice-was-here.db' as a", ONLY_SELECT],
  ["attach 'host=127.0.0.1' as a (type postgres)", ONLY_SELECT],
  ['install httpfs', ONLY_SELECT],
  ['set enable_external_access = true', ONLY_SELECT],
  // SELECTs that do more than read
  ["select * from enable_logging('QueryLog', storage = 'file', storage_path = 'x.csv')", NO_ACTING],
  ['select (select count(*) from system.main."ENABLE_PEG_PARSER" /* /* */ */ ()) as a', NO_ACTING],
  ["select * from query('from enable_' || 'logging()')", NO_ACTING],
  ['from arrow_scan(1::POINTER, 2::POINTER, 3::POINTER)', NO_ACTING],
  // What tells of the engine
  ["select current_setting('allowed_paths') as a", NO_ACTING],
  ['select * exclude (tags) from duckdb_views()', NO_ACTING],
  ['select * from information_schema.views', /^executing: .*the view views is not allowed/s],
  ['select 1; select 2', ONLY_SELECT],
  ['drop view sluice_result', /View with name sluice_result does not exist/],
  // Its way into the statements that the service itself makes
  ["select 1 as a) to '/tmp/sluice-was-here.csv'; copy (select 2", /^executing: /],
  ['select 1 as "a) FROM x; attach \'/tmp/x.db\'; --"; select 2', ONLY_SELECT],
  [
    "-- @merge_strategy: incremental\n-- @unique_key: id\\\"); attach '/tmp/x.db' as x; --\nselect 1 as id",
    /^(rendering|executing): /,
  ],
  [
    "-- @merge_strategy: snapshot\n-- @partition_column: a\"; attach '/tmp/x.db' as x; --\nselect 1 as a",
    /^(rendering|executing): /,
  ],
  [
    "-- @watermark_column: a\"); select * from read_text('/etc/passwd'); --\nselect 1 as a where '{{ watermark_value }}' = 'x' and nothing",
    /^(rendering|executing): /,
  ],
  [
    "select string_agg(repeat('x', 1000), '') as a from range(100_000_000)",
    /needs more memory|used up its memory/,
  ],
]

test(`a run does not leave its engine: ${RUNS.length} attempts`, async ({ request }) => {
  const all = await Promise.all(
    RUNS.map(async ([sql, message]) => ({
      sql,
      message,
      run: await runOf(request, { 'pipeline.sql': sql }),
    })),
  )
  for (const { sql, message, run } of all) expectFailed(run, sql, message)
  await expectHealthy(request)
})

const TESTS: Record<string, string> = {
  'reads-a-file': "select * from read_text('/etc/passwd')",
  'reads-environments': "select * from read_blob('/proc/self/environ')",
  'lists-files': "select * from glob('/**')",
  'copies-out': "copy (select 1) to '/tmp/sluice-was-here.csv'",
  attaches: "attach '/tmp/sluice-was-here.db' as a",
  installs: 'install httpfs',
  sets: "set memory_limit = '100GB'",
  'asks-environments': "select getenv('DATABASE_URL') as a",
  'says-two-things': 'select 1; select 2',
  fetches: "select * from read_csv('http://127.0.0.1:1/a.csv')",
  'walks-objects': "select '{{ ref.__class__.__mro__ }}' as a",
  includes: 'select \'{% include "/etc/passwd" %}\' as a',
  'reads-by-name': "from '/etc/shadow'",
  'logs-to-a-file': "from enable_logging('QueryLog', storage = 'file', storage_path = 'x.csv')",
  'calls-addresses': 'from arrow_scan(1::POINTER, 2::POINTER, 3::POINTER)',
  'reads-settings': 'from duckdb_settings()',
  'writes-main': 'drop table default.bronze.a',
}

test(`quality tests are judged and reach nothing, outside of runs and in them: ${2 * Object.keys(TESTS).length} attempts`, async ({
  request,
}) => {
  const files = Object.fromEntries(
    Object.entries(TESTS).map(([name, sql]) => [`tests/quality/${name}.sql`, `-- @severity: error\n${sql}`]),
  )
  const pipeline = await newPipeline(request)
  await writeFile(request, `${pipeline.prefix}pipeline.sql`, 'select 1 as a')
  for (const [path, content] of Object.entries(files))
    await writeFile(request, `${pipeline.prefix}${path}`, content)
  const response = await request.post(`${pipeline.url}/tests/run`, { data: {} })
  const text = await response.text()
  expect(response.status(), text).toBe(200)
  expectNothingTold(text, Object.values(TESTS).join('\n'))
  const { results } = JSON.parse(text) as { results: { name: string; status: string }[] }
  expect(results.map(({ status }) => status)).toEqual(Object.keys(TESTS).map(() => 'failed'))

  const run = await runOf(request, { 'pipeline.sql': 'select 1 as a', ...files })
  expectFailed(
    run,
    Object.values(TESTS).join('\n'),
    new RegExp(`${Object.keys(TESTS).length} quality tests failed`),
  )
  await expectHealthy(request)
})
