import { afterAll, expect } from 'bun:test'
import type { TableName } from '../../ground/names.ts'
import { RunStatus } from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { openTestService, runToEnd, startRunner } from './testing.ts'

type Files = Record<string, string>

/**
 * Starts a service and a runner for one test file, and stops both after its tests. `env` configures the runner. `language` is
 * the language of the pipelines.
 */
export async function useRunner(env: Record<string, string>, language: 'sql' | 'python' = 'sql') {
  const service = await openTestService()
  const runner = await startRunner(env)
  afterAll(async () => {
    await runner.stop()
    await service.close()
  })

  let tables = 0
  function aTable(layer: TableName['layer'] = 'bronze'): TableName {
    tables += 1
    return { namespace: 'default', layer, name: `t${tables}` }
  }

  const path = language === 'python' ? 'pipeline.py' : 'pipeline.sql'

  /** Runs a pipeline to its end. `more` contains its other files. */
  async function run(table: TableName, source: string, more: Files = {}, by = runner) {
    const submit = await service.attempt(table, { [path]: source, ...more })
    return { submit, ...(await runToEnd(by.client, { ...submit, type: language })) }
  }

  /** Runs a pipeline and merges its branch. The run must succeed. */
  async function publish(table: TableName, source: string, more: Files = {}, by = runner) {
    const ended = await run(table, source, more, by)
    expect(ended.facts).toMatchObject({ error: '', status: RunStatus.COMPLETED })
    if (ended.facts.testedCommit !== '')
      expect(await service.merge(ended.submit, ended.facts.testedCommit)).toBe('merged')
    return ended
  }

  /** The error of a run that must fail. */
  async function failureOf(source: string, more: Files = {}, table = aTable()): Promise<string> {
    const { facts, lines } = await run(table, source, more)
    expect(facts.status).toBe(RunStatus.FAILED)
    // The dispatcher adds the error to the log. In the runner's log, the error would appear twice.
    expect(lines).not.toContain(facts.error)
    return facts.error
  }

  /** Runs quality tests on main and returns their results. */
  async function judgeMain({ namespace, layer, name: pipelineName }: TableName, tests: Files) {
    const files = Object.entries(tests).map(([name, content]) => ({
      path: `tests/quality/${name}.sql`,
      content,
    }))
    const lake = await service.readMain()
    const { results } = await runner.client.runQualityTests({ namespace, layer, pipelineName, files, lake })
    return results
  }

  return { service, runner, aTable, run, publish, failureOf, judgeMain }
}
