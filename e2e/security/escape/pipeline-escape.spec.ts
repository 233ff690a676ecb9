// Specification: Pipelines, Quality tests. Runs that try to escape their engine fail with a message for their author.
// Concurrent runs are not affected.
import { expect, test } from '@playwright/test'
import { pipelineWith, writeFile } from '../../kit/resources.ts'
import { expectFailed, expectHealthy, expectNothingTold, runOf } from './attempts.ts'
import { STATEMENTS } from './statements.ts'

const RUNS: [sql: string, message: RegExp][] = [
  ...Object.values(STATEMENTS)
    .flat()
    .map(([sql, { source }]): [string, RegExp] => [sql, new RegExp(`^executing: .*(${source})`, 's')]),
  // Injections into statements that the service itself makes
  ['drop view sluice_result', /View with name sluice_result does not exist/],
  ["select 1 as a) to '/tmp/sluice-was-here.csv'; copy (select 2", /^executing: /],
  [
    'select 1 as "a) FROM x; attach \'/tmp/x.db\'; --"; select 2',
    /^executing: .*one SELECT statement is expected/s,
  ],
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
    /needs more memory|memory limit exceeded/,
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

const TESTS = [
  ...Object.values(STATEMENTS).flatMap((statements) => statements.map(([sql]) => sql)),
  "select '{{ ref.__class__.__mro__ }}' as a",
  'select \'{% include "/etc/passwd" %}\' as a',
]

test(`quality tests reach nothing, alone and in runs: ${2 * TESTS.length} attempts`, async ({ request }) => {
  const files = Object.fromEntries(
    TESTS.map((sql, n) => [`tests/quality/t${n}.sql`, `-- @severity: error\n${sql}`]),
  )
  const pipeline = await pipelineWith(request, 'select 1 as a')
  for (const [path, content] of Object.entries(files))
    await writeFile(request, `${pipeline.prefix}${path}`, content)
  const response = await request.post(`${pipeline.url}/tests/run`, { data: {} })
  const text = await response.text()
  expect(response.status(), text).toBe(200)
  expectNothingTold(text, TESTS.join('\n'))
  const { results } = JSON.parse(text) as { results: { name: string; status: string }[] }
  expect(results.map(({ status }) => status)).toEqual(TESTS.map(() => 'failed'))

  const run = await runOf(request, { 'pipeline.sql': 'select 1 as a', ...files })
  expectFailed(run, TESTS.join('\n'), new RegExp(`${TESTS.length} quality tests failed`))
  await expectHealthy(request)
})
