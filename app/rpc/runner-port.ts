import type { MessageInitShape } from '@bufbuild/protobuf'
import type {
  RunQualityTestsRequestSchema,
  RunQualityTestsResponse,
  ValidatePipelineRequestSchema,
  ValidatePipelineResponse,
} from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { AppError } from '../http/errors.ts'
import { limits } from '../limits.ts'
import type { RunnerClient } from './clients.ts'
import type { Pool } from './pool.ts'

/** What the HTTP slices ask of runners. Null: none can be reached, and the slice says what that means. */
export interface RunnerPort {
  validate(
    request: MessageInitShape<typeof ValidatePipelineRequestSchema>,
  ): Promise<ValidatePipelineResponse | null>
  runQualityTests(
    request: MessageInitShape<typeof RunQualityTestsRequestSchema>,
  ): Promise<RunQualityTestsResponse | null>
}

export function makeRunnerPort(runners: Pool<RunnerClient>): RunnerPort {
  const asked = <Answer>(ask: (runner: RunnerClient) => Promise<Answer>) =>
    runners.call(ask).catch((error): null => {
      if (error instanceof AppError && error.status === 503) return null
      throw error
    })
  return {
    validate: (request) =>
      asked((runner) => runner.validatePipeline(request, { timeoutMs: limits.rpcTimeoutMs })),
    runQualityTests: (request) =>
      asked((runner) => runner.runQualityTests(request, { timeoutMs: limits.qualityTestsTimeoutMs })),
  }
}
