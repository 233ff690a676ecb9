import type { MessageInitShape } from '@bufbuild/protobuf'
import { testNameOf, testPathOf } from '../../lake/pipeline/quality.ts'
import {
  type LakeAccessSchema,
  type QualityTestResult,
  type RunQualityTestsRequestSchema,
  type RunQualityTestsResponse,
  Severity,
} from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import type { Reader } from '../access/code-visibility.ts'
import { alreadyExists, notFound, unavailable } from '../core/errors.ts'
import type { Page } from '../core/pagination.ts'
import { type PipelineRef, prefixOf } from '../core/pipeline-ref.ts'
import type { ObjectStore } from '../objects/port.ts'
import type { PipelineService } from '../pipelines/service.ts'
import type { CreateTest } from './schema.ts'
import { readTestFile, testFile } from './test-file.ts'

export interface QualityTestDeps {
  objects: ObjectStore
  pipelines: Pick<PipelineService, 'draft' | 'changeDraft'>
  /** Null if no runner is available. */
  runQualityTests(
    request: MessageInitShape<typeof RunQualityTestsRequestSchema>,
    signal: AbortSignal,
  ): Promise<RunQualityTestsResponse | null>
  /** Address and token with which a runner reads the current main, as the caller sees it. */
  readLake(as: { reader: Reader | null }): Promise<MessageInitShape<typeof LakeAccessSchema>>
}

export type QualityTestService = ReturnType<typeof makeQualityTestService>

export function makeQualityTestService({ objects, pipelines, runQualityTests, readLake }: QualityTestDeps) {
  /** Lists the draft's tests. `published` is true if the last publish pinned the test's file. */
  async function list(ref: PipelineRef, page: Page) {
    const { code, published } = await pipelines.draft(ref)
    const tests = code.flatMap(({ name: path, text }) => {
      const name = testNameOf(path)
      return name === undefined
        ? []
        : [
            {
              ...readTestFile(name, { path, text }),
              published: Object.hasOwn(published, prefixOf(ref) + path),
            },
          ]
    })
    return { tests: tests.slice(page.offset, page.offset + page.limit), total: tests.length }
  }

  async function create(ref: PipelineRef, test: CreateTest, by: string | null = null) {
    const { name, severity } = test
    const path = pathOf(ref, name)
    await pipelines.changeDraft(ref, { cause: `test ${name} created`, by }, async () => {
      if ((await objects.head(path)) !== null) throw alreadyExists(`test ${name}`)
      await objects.put(path, new TextEncoder().encode(testFile(test)))
    })
    return { name, severity, path }
  }

  async function remove(ref: PipelineRef, name: string, by: string | null = null) {
    const path = pathOf(ref, name)
    await pipelines.changeDraft(ref, { cause: `test ${name} deleted`, by }, async () => {
      if ((await objects.head(path)) === null) throw notFound(`test ${name}`)
      await objects.delete(path)
    })
  }

  /**
   * Evaluates the draft's tests outside any run, against data on main that `reader` may see. A null `reader` sees everything.
   * `signal` stops the evaluation.
   */
  async function run(ref: PipelineRef, signal: AbortSignal, reader: Reader | null = null) {
    const { code } = await pipelines.draft(ref)
    const request = {
      namespace: ref.namespace,
      layer: ref.layer,
      pipelineName: ref.name,
      files: code.map(({ name, text }) => ({ path: name, content: text })),
      lake: await readLake({ reader }),
    }
    const response = await runQualityTests(request, signal)
    if (response === null) throw unavailable('runner')
    const results = response.results.map(resultOf)
    const passed = results.filter(({ status }) => status === 'passed').length
    return { results, passed, failed: results.length - passed, total: results.length }
  }

  return { list, create, remove, run }
}

/** A result of a runner, as clients see it. */
export const resultOf = (result: QualityTestResult) => ({
  name: result.name,
  status: result.passed ? ('passed' as const) : ('failed' as const),
  severity: result.severity === Severity.WARN ? ('warn' as const) : ('error' as const),
  value: Number(result.value),
  expected: 0 as const,
  duration_ms: Number(result.durationMs),
  error: result.error || null,
  samples: result.samples,
})

const pathOf = (ref: PipelineRef, name: string) => prefixOf(ref) + testPathOf(name)
