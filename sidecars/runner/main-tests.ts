import { randomUUID } from 'node:crypto'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { Code, ConnectError } from '@connectrpc/connect'
import { parseConfig, type TextFile } from '../../lake/pipeline/config.ts'
import { LAYERS } from '../../lake/pipeline/names.ts'
import type { RunQualityTestsRequest } from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import type { TestResult } from './attempts.ts'
import { EngineEnded } from './engine-process.ts'
import { Inputs, openTables, tablesAsked } from './inputs.ts'
import type { JourneyOptions } from './journey.ts'
import { openInstance, tableExpression } from './lake-session.ts'
import { limits } from './limits.ts'
import { testsIn } from './pipeline-files.ts'
import { askedByTests, runTests } from './quality-gate.ts'
import { reasonOf } from './wording.ts'

export type TestMain = ReturnType<typeof makeTestMain>

/** Makes the function that runs quality tests against main, outside any run. It throws ConnectError. */
export function makeTestMain({ openLake, pool, directory: root }: JourneyOptions) {
  return async function testMain(
    request: RunQualityTestsRequest,
    files: readonly TextFile[],
    caller: AbortSignal,
  ): Promise<TestResult[]> {
    const layer = LAYERS.find((known) => known === request.layer)
    const { namespace, pipelineName: name, lake: access } = request
    if (layer === undefined || access === undefined)
      throw new ConnectError('layer and lake are needed', Code.InvalidArgument)
    const tests = testsIn(files)
    if (tests.length === 0) return []

    const signal = AbortSignal.any([caller, AbortSignal.timeout(limits.testsMs)])
    const directory = join(root, randomUUID())
    const opened = openLake(access, signal)
    const taken = pool.take(signal)
    try {
      const [lake, engine] = await Promise.all([opened, taken, mkdir(directory, { recursive: true })])
      const own = { namespace, layer, name }
      const config = parseConfig({
        config: files.find(({ path }) => path === 'config.yaml'),
        source: files.find(({ path }) => path === 'pipeline.sql'),
      })
      const variables = {
        strategy: config.config.mergeStrategy,
        this: tableExpression(own),
        runStartedAt: new Date().toISOString(),
        watermarkValue: null,
      }
      const inputs = new Inputs(namespace)
      const asked = { refs: [`${namespace}.${layer}.${name}`], zones: [] }
      const tables = tablesAsked([asked, ...askedByTests(tests, variables)], namespace)
      await openTables(inputs, tables, lake, new Map())
      const instance = await openInstance(engine, inputs.found(), directory, signal)
      const resolver = { ref: (table: string) => inputs.ref(table), landingZone: refuseLanding }
      return await runTests({ tests, variables, resolver, engine, instance, signal, write: () => {} })
    } catch (error) {
      if (caller.aborted || error instanceof ConnectError) throw error
      if (signal.aborted)
        throw new ConnectError(
          `the tests took longer than ${limits.testsMs / 1_000} s`,
          Code.DeadlineExceeded,
        )
      const reason = reasonOf(error)
      throw reason === null
        ? error
        : new ConnectError(reason, error instanceof EngineEnded ? Code.Internal : Code.FailedPrecondition)
    } finally {
      const [lake, engine] = await Promise.allSettled([opened, taken])
      if (engine.status === 'fulfilled') await engine.value.release()
      if (lake.status === 'fulfilled') lake.value.close()
      await rm(directory, { recursive: true, force: true })
    }
  }
}

function refuseLanding(): never {
  throw new Error('landing zones can be read in runs only: their files are frozen when a run starts')
}
