import { describe, expect, test } from 'bun:test'
import type { TableName } from '../../../ground/names.ts'
import { RunPhase, RunStatus } from '../../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { until } from '../../../tools/kit/until.ts'
import { engineAtWork } from '../../core/testing.ts'
import { useRunner } from '../test-runner.ts'
import { runToEnd } from '../testing.ts'

// The errors of failed runs, as authors of pipelines see them.

const { service, runner, failureOf } = await useRunner({
  RUNNER_CONCURRENCY: '1',
  ENGINE_MEMORY_LIMIT: '200MB',
})
const TABLE: TableName = { namespace: 'default', layer: 'bronze', name: 'failing' }

describe('a failed SQL run', () => {
  test.each([
    [
      'select 1 as a,\n  nope as b',
      /^executing: pipeline.sql line 2: Binder Error: Referenced column "nope" was not found/,
    ],
    // This statement triggers a bug of the engine. If a new version fixes the bug, find another.
    [
      'select is_histogram_other_bin((select max(a) from range(0) t(a))) as b',
      /^executing: pipeline.sql: internal error of the engine: INTERNAL Error: [^\n/]*$/,
    ],
    ['selec 1', /^executing: pipeline.sql line 1: Parser Error: syntax error at or near "selec"$/],
    ['', /^executing: pipeline.sql: there is no SELECT statement$/],
    ['select 1; select 2', /^executing: pipeline.sql: one SELECT statement is expected, not 2$/],
    [
      "select '{{ a_variable }}' as a",
      /^rendering: pipeline.sql line 1 column \d+: "a_variable" is undefined$/,
    ],
    [
      "select * from {{ ref('bronze.no_such') }}",
      /^rendering: .* table default.bronze.no_such does not exist$/,
    ],
    [
      'select interval 1 day as i',
      /^executing: pipeline.sql: column "i": INTERVAL cannot be stored in a table; cast it/,
    ],
    [
      'select 1 as a, 2 as b, 3 as a',
      /^executing: pipeline.sql: two columns are named "a": give one of them another name$/,
    ],
    ['select 1 as day, 2 as "Day"', /^executing: pipeline.sql: two columns are named "Day": /],
    ['select * from (select 1 as id) x, (select 2 as id) y', /: two columns are named "id": /],
    [
      "select 'x'::integer as a",
      /^executing: pipeline.sql line 1: Conversion Error: Could not convert string 'x'/,
    ],
    [
      "select 'ä€' as a,\n  cast(b as integer) as b\nfrom (values ('1'), ('x')) t(b)",
      /^executing: pipeline.sql line 2: Conversion Error: Could not convert string 'x'/,
    ],
    [
      "-- @merge_strategy: incremental\n-- @unique_key: b\nselect 1 as a,\n  cast(b as integer) as b\nfrom (values ('1'), ('x')) t(b)",
      /^executing: pipeline.sql line 4: Conversion Error: Could not convert string 'x'/,
    ],
    // The author's text has no such cast: the value does not fit the type of the table.
    [
      'select 1 as a,\n  170141183460469231731687303715884105727::hugeint as b',
      /^executing: pipeline.sql: Conversion Error: Could not cast value 170141183460469231731687303715884105727/,
    ],
    ['select (\n 1 as a', /^executing: pipeline.sql line 2: Parser Error: syntax error at or near "as"/],
    ['select (\n 1 +\n', /^executing: pipeline.sql line 2: Parser Error: syntax error at end of input$/],
    [
      'select array_agg(range) as all_of_them from range(50_000_000)',
      /^executing: pipeline.sql: the query needs more memory than the engine may use: Out of Memory Error/,
    ],
    ['-- @merge_strategy: upsert\nselect 1', /^rendering: pipeline.sql line 1: merge_strategy: .*"upsert"/],
    [
      '-- @merge_strategy: scd2\nselect 1',
      /^rendering: pipeline.sql line 1: merge_strategy scd2 needs unique_key$/,
    ],
    [
      '-- @merge_strategy: incremental\n-- @unique_key: id\nselect 1 as a, 2 as b',
      /^executing: pipeline.sql: unique_key: the result has no column "id", it has a, b$/,
    ],
    [
      '-- @partition_by: [{column: a, transform: hour}]\nselect current_date as a',
      /^executing: pipeline.sql: partition_by: transform hour does not support column "a" of type DATE: use a TIMESTAMP$/,
    ],
  ])('names the mistake and its line: %j', async (sql, expected) => {
    const error = await failureOf(sql)
    expect(error).toMatch(expected)
    expect(error).not.toMatch(/at .*\.ts:|sluice-runner-/)
  })
})

describe('an engine process that ends', () => {
  /** Minutes of work for one thread. */
  const SLOW = 'select max(hash(x.range, y.range)) as a from range(200000) x, range(200000) y'

  async function killed(signal: NodeJS.Signals) {
    const submit = await service.attempt(TABLE, { 'pipeline.sql': SLOW })
    const { handle } = await runner.client.submitPipeline(submit)
    for await (const { phase } of runner.client.streamLogs({ handle }))
      if (phase === RunPhase.EXECUTING) break
    process.kill(await engineAtWork(runner.engines), signal)
    return until(
      () => runner.client.getRunStatus({ handle }),
      ({ status }) => status !== RunStatus.RUNNING,
    )
  }

  test.each(['SIGKILL', 'SIGTERM', 'SIGSEGV', 'SIGBUS'] as const)(
    'an attempt whose engine was ended by %s may be executed again',
    async (signal) => {
      const { status, isEngineLost, error } = await killed(signal)
      expect([status, isEngineLost]).toEqual([RunStatus.FAILED, true])
      expect(error).toBe(`executing: engine process ended (${signal})`)
    },
  )

  test('a query beyond the memory limit fails its run with that reason', async () => {
    const submit = await service.attempt(TABLE, {
      'pipeline.sql': 'select array_agg(range) as all_of_them from range(50_000_000)',
    })
    const { facts } = await runToEnd(runner.client, submit)
    expect([facts.isEngineLost, facts.error]).toEqual([
      false,
      expect.stringContaining('the query needs more memory than the engine may use'),
    ])
  })
})
