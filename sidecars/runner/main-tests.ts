import { Code, ConnectError } from '@connectrpc/connect'
import { parseConfig, type TextFile } from '../../lake/pipeline/config.ts'
import { LAYERS } from '../../lake/pipeline/names.ts'
import type { RunQualityTestsRequest } from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { EngineEnded } from '../engine-process.ts'
import type { TestResult } from './attempts.ts'
import { EnginesBusy } from './engine-pool.ts'
import { Inputs } from './inputs.ts'
import { openInstance, tableExpression } from './lake-session.ts'
import { limits } from './limits.ts'
import { type NamedTest, testsIn } from './pipeline-files.ts'
import { draftsOf, draftTests, runTests } from './quality-gate.ts'
import { reasonOf } from './wording.ts'
import { openWorkplace, type Workplace, type WorkplaceOptions } from './workplace.ts'

export type TestMain = ReturnType<typeof makeTestMain>

/** Makes the function that runs quality tests against main, outside any run. It throws ConnectError. */
export function makeTestMain(options: WorkplaceOptions) {
  return async function testMain(
    request: RunQualityTestsRequest,
    files: readonly TextFile[],
    caller: AbortSignal,
  ): Promise<TestResult[]> {
    if (request.lake === undefined) throw new ConnectError('lake is missing', Code.InvalidArgument)
    const tests = testsIn(files)
    if (tests.length === 0) return []
    const late = AbortSignal.timeout(limits.testsMs)
    const signal = AbortSignal.any([caller, late])
    const place = await openWorkplace(options, request.lake, signal)
    try {
      return await judge(request, files, tests, place, signal)
    } catch (error) {
      if (error instanceof EnginesBusy) throw new ConnectError(error.message, Code.ResourceExhausted)
      if (late.aborted)
        throw new ConnectError(
          `the tests took longer than ${limits.testsMs / 1_000} s`,
          Code.DeadlineExceeded,
        )
      const reason = signal.aborted ? null : reasonOf(error)
      if (reason === null) throw error
      throw new ConnectError(reason, error instanceof EngineEnded ? Code.Internal : Code.FailedPrecondition)
    } finally {
      await place.clear()
    }
  }
}

async function judge(
  { namespace, layer: text, pipelineName: name }: RunQualityTestsRequest,
  files: readonly TextFile[],
  tests: readonly NamedTest[],
  { lake, engine: taken, directory }: Workplace,
  signal: AbortSignal,
): Promise<TestResult[]> {
  const layer = LAYERS.find((known) => known === text)
  if (layer === undefined) throw new ConnectError(`there is no layer ${text}`, Code.InvalidArgument)
  const own = { namespace, layer, name }
  const { config } = parseConfig({
    config: files.find(({ path }) => path === 'config.yaml'),
    source: files.find(({ path }) => path === 'pipeline.sql'),
  })
  const inputs = new Inputs({
    namespace,
    variables: {
      strategy: config.mergeStrategy,
      this: tableExpression(own),
      runStartedAt: new Date().toISOString(),
      watermarkValue: null,
    },
    landingDirectory: null,
  })
  const drafted = draftTests(tests, inputs)
  await inputs.openTables([own, ...draftsOf(drafted).flatMap(({ tables }) => tables)], lake)
  const engine = await taken
  const instance = await openInstance(engine, inputs.found(), directory, signal)
  return runTests(drafted, { inputs, engine, instance, signal, write: () => {} })
}
