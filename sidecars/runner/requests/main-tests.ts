import { Code, ConnectError } from '@connectrpc/connect'
import { LAYERS, layerOf, type TableName, tableKey } from '../../../ground/names.ts'
import { parseConfig, type TextFile } from '../../../lake/pipeline/config.ts'
import { TemplateError } from '../../../lake/pipeline/template.ts'
import type { RunQualityTestsRequest } from '../../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { EngineEnded, onceMoreIfKilled } from '../../engine/engine-process.ts'
import { findIn } from '../author/slips.ts'
import { reasonOf } from '../author/wording.ts'
import { limits } from '../core/limits.ts'
import { EnginesBusy } from '../engine/engine-lease.ts'
import { sparkDialect, tableExpression } from '../engine/sql-names.ts'
import {
  type AttemptResources,
  type AttemptResourcesOptions,
  openAttemptResources,
} from '../session/attempt-resources.ts'
import { Inputs } from '../session/inputs.ts'
import { type NamedTest, testsIn } from '../session/pipeline-files.ts'
import { openForTexts } from '../session/shared-instance.ts'
import { inShares, NoTimeLeft, type Shares } from '../session/shares.ts'
import {
  type DraftedTest,
  draftsOf,
  draftTests,
  failedTest,
  ofDuckdb,
  runTest,
  type TestResult,
} from '../write/quality-gate.ts'
import { variablesOf } from '../write/watermark.ts'

export type TestMain = ReturnType<typeof makeTestMain>

/** The results of tests, and the `ns.layer.name` of every table that they name. */
interface TestedMain {
  results: TestResult[]
  tables: string[]
}

/** Makes the function that runs quality tests against main or a branch, outside any run. It throws ConnectError. */
export function makeTestMain(options: AttemptResourcesOptions, time?: Shares['time']) {
  return async function testMain(
    request: RunQualityTestsRequest,
    files: readonly TextFile[],
    caller: AbortSignal,
  ): Promise<TestedMain> {
    const { lake } = request
    if (lake === undefined) throw new ConnectError('lake is missing', Code.InvalidArgument)
    const tests = testsIn(files)
    if (tests.length === 0) return { results: [], tables: [] }
    let resources: AttemptResources | null = null
    let bench: Bench | null = null
    let tables: string[] = []
    const ready = async (signal: AbortSignal): Promise<void> => {
      if (bench !== null) return
      const previous = resources
      resources = null
      resources = await (previous?.reopen(signal) ?? openAttemptResources(options, lake, signal))
      bench = await prepare(request, files, tests, resources, signal)
      tables = bench.tables
    }
    const judgeOnce = async (test: NamedTest, timeout: AbortSignal): Promise<TestResult> => {
      await ready(timeout)
      const drafted = bench?.drafted.get(test)
      if (bench === null || drafted === undefined) throw new Error(`test ${test.name} was not drafted`)
      try {
        return await runTest(drafted, { ...bench, signal: timeout, write: () => {} })
      } catch (error) {
        // The engine may be gone, or unfit for the other tests.
        bench = null
        timeout.throwIfAborted()
        throw error
      }
    }
    const judge = async (test: NamedTest, timeout: AbortSignal): Promise<TestResult> => {
      try {
        return await onceMoreIfKilled(() => judgeOnce(test, timeout), timeout)
      } catch (error) {
        if (error instanceof EngineEnded) return failedTest(test, error.message)
        throw error
      }
    }
    try {
      const shares = { ms: limits.testsMs, signal: caller, time }
      return { results: await inShares(tests, shares, { ready, work: judge, late: tooLong }), tables }
    } catch (error) {
      if (error instanceof EnginesBusy) throw new ConnectError(error.message, Code.ResourceExhausted)
      if (error instanceof NoTimeLeft)
        throw new ConnectError(
          `the tests took longer than ${limits.testsMs / 1_000} s`,
          Code.DeadlineExceeded,
        )
      const reason = caller.aborted ? null : reasonOf(error)
      if (reason === null) throw error
      throw new ConnectError(reason, error instanceof EngineEnded ? Code.Aborted : Code.FailedPrecondition)
    } finally {
      await (resources as AttemptResources | null)?.clear()
    }
  }
}

const tooLong = (test: NamedTest, durationMs: number): TestResult => ({
  ...failedTest(
    test,
    `${test.file.path}: the test exceeded its share of the ${limits.testsMs / 1_000} s for all tests`,
  ),
  durationMs: Math.round(durationMs),
})

/** The instance in which tests run, with everything that the tests read. */
type Bench = Awaited<ReturnType<typeof prepare>>

async function prepare(
  { namespace, layer: text, pipelineName: name }: RunQualityTestsRequest,
  files: readonly TextFile[],
  tests: readonly NamedTest[],
  resources: AttemptResources,
  signal: AbortSignal,
) {
  const { lake, engine: lease } = resources
  const layer = layerOf(text)
  if (layer === undefined)
    throw new ConnectError(`unknown layer '${text}': use ${LAYERS.join(', ')}`, Code.InvalidArgument)
  const own = { namespace, layer, name }
  const { config } = parseConfig({
    config: files.find(({ path }) => path === 'config.yaml'),
    source: ['pipeline.sql', 'pipeline.py'].flatMap(
      (source) => files.find(({ path }) => path === source) ?? [],
    )[0],
  })
  const table = await lake.catalog.load(own)
  const written = { config, name: own, table, runStartedAt: new Date().toISOString() }
  const texts = tests.map(({ file }) => file.text)
  // Warnings are ignored here, because runs and previews report them.
  const variables = await variablesOf({ ...written, texts, warn: () => {} }, resources, signal)
  const inputs = new Inputs({ namespace, variables, landing: null, engine: lease, signal })
  const drafts = await draftTests(tests, inputs, sparkDialect({ root: lake.root, namespace }))
  const tables = [own, ...draftsOf(drafts).flatMap((draft) => draft.tables)]
  await inputs.openTables(tables, lake, new Map([[tableKey(own), table]]))
  const drafted = inputs.table(own) === null ? drafts.map((each) => withoutTable(each, own)) : drafts
  const engine = await lease
  const sqls = ofDuckdb(drafted).map(({ sql }) => sql)
  const found = inputs.found()
  const opened = await openForTexts(engine, { texts: sqls, tables: found, found, own }, resources, signal)
  return {
    drafted: new Map(drafted.map((each) => [each.test, each])),
    inputs,
    // A change of a table below a view may change the result of a test, too.
    tables: [...new Set([...tables, ...found.map((input) => input.name)].map(tableKey))],
    own,
    find: findIn(lake, namespace),
    engine,
    spark: resources.spark,
    instance: opened.number,
  }
}

/** A table that no run has created cannot be tested. Its tests get an error for people instead of the engine's message. */
function withoutTable({ test, draft }: DraftedTest, own: TableName): DraftedTest {
  if (draft instanceof TemplateError || !draft.sql.includes(tableExpression(own))) return { test, draft }
  const reason = `table ${tableKey(own)} does not exist: no run has created it yet`
  return { test, draft: new TemplateError(test.file.path, reason) }
}
