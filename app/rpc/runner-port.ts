import type { MessageInitShape } from '@bufbuild/protobuf'
import { Code, ConnectError } from '@connectrpc/connect'
import type {
  RunQualityTestsRequestSchema,
  RunQualityTestsResponse,
  ValidatePipelineRequestSchema,
  ValidatePipelineResponse,
} from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { AppError, unavailable } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import type { RunnerClient } from './clients.ts'
import type { Pool } from './pool.ts'

/** A runner compiles a source for 10 s at most, and says so in its answer. */
const VALIDATION_MS = 20_000
/** All tests of a pipeline on production data, asked for in one request. */
const QUALITY_TESTS_MS = 60_000

/** What the HTTP slices ask of runners. Null: none can be reached, and the slice says what that means. */
export interface RunnerPort {
  validate(
    request: MessageInitShape<typeof ValidatePipelineRequestSchema>,
  ): Promise<ValidatePipelineResponse | null>
  runQualityTests(
    request: MessageInitShape<typeof RunQualityTestsRequestSchema>,
    signal: AbortSignal,
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
      asked((runner) => runner.validatePipeline(request, { timeoutMs: VALIDATION_MS })).catch(
        (error): null => {
          // One that has stopped answering is none.
          if (ConnectError.from(error).code === Code.DeadlineExceeded) return null
          throw error
        },
      ),
    runQualityTests(request, signal) {
      // The runner keeps the time limit; this one is for a runner that has stopped answering.
      const lost = AbortSignal.timeout(QUALITY_TESTS_MS + limits.rpcTimeoutMs)
      const options = { signal: AbortSignal.any([signal, lost]) }
      return asked((runner) => runner.runQualityTests(request, options)).catch(refusedByRunner)
    },
  }
}

/** What the pipeline itself is to blame for. */
const OF_THE_PIPELINE: ReadonlySet<Code> = new Set([
  Code.InvalidArgument,
  Code.FailedPrecondition,
  Code.DeadlineExceeded,
])

/** What a runner refused of work that somebody waits for, as this API says it. */
export function refusedByRunner(error: unknown): never {
  if (error instanceof AppError) throw error
  const { code, rawMessage } = ConnectError.from(error)
  if (OF_THE_PIPELINE.has(code)) throw new AppError(400, 'INVALID_ARGUMENT', rawMessage, { cause: error })
  if (code === Code.ResourceExhausted) throw new AppError(503, 'UNAVAILABLE', rawMessage, { cause: error })
  if (code === Code.Canceled) throw unavailable('runner', error)
  throw error
}
