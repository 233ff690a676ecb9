import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import type { TableName } from '../../lake/pipeline/names.ts'
import { RunStatus } from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { openTestService, type RunnerProcess, runToEnd, startRunner, type TestService } from './testing.ts'

setDefaultTimeout(60_000)

let service: TestService
let runner: RunnerProcess
beforeAll(async () => {
  service = await openTestService()
  runner = await startRunner({ RUNNER_CONCURRENCY: '1' })
})
afterAll(async () => {
  await runner.stop()
  await service.close()
})

async function run(table: TableName, sql: string, config: string) {
  const submit = await service.attempt(table, { 'pipeline.sql': sql, 'config.yaml': config })
  const { facts } = await runToEnd(runner.client, submit)
  if (facts.status === RunStatus.COMPLETED) await service.merge(submit, facts.testedCommit)
  return facts
}

test.each(['append_only', 'incremental', 'scd2'])(
  'a column of bare NULL has the type that the table has for it: %s',
  async (strategy) => {
    const table: TableName = { namespace: 'default', layer: 'silver', name: `nulls-${strategy}` }
    const config = `merge_strategy: ${strategy}\nunique_key: id`
    const first = "select 1 as id, 'a' as text, date '2026-01-01' as day, [1.5] as list"
    expect(await run(table, first, config)).toMatchObject({ error: '', rowsWritten: 1n })
    const nulls = 'select 2 as id, null as Text, null as day, case when false then null end as list'
    expect(await run(table, nulls, config)).toMatchObject({ error: '', rowsWritten: 1n })
    const whole = 'select 3 as id, 7 as text'
    expect((await run(table, whole, config)).error).toContain('"text" is VARCHAR in the table and INTEGER')
  },
)
