import type { MessageInitShape } from '@bufbuild/protobuf'
import { Code, ConnectError } from '@connectrpc/connect'
import { NO_SPARK } from '../../lake/pipeline/config.ts'
import type {
  RunQualityTestsRequestSchema,
  RunQualityTestsResponse,
  ValidatePipelineRequestSchema,
  ValidatePipelineResponse,
} from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { AppError, retryLater, unavailable } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import type { RunnerClient } from './clients.ts'
import type { Pool } from './pool.ts'

/** A runner compiles a source for 10 s at most and reports its timeout in the answer. */
const VALIDATION_MS = 20_000
/** Time limit of all tests of a pipeline on production data, in one request. */
const QUALITY_TESTS_MS = 60_000

/** The calls of HTTP slices to runners. Null: no runner can be reached, and the slice decides on the response. */
interface RunnerPort {
  validate(
    request: MessageInitShape<typeof ValidatePipelineRequestSchema>,
  ): Promise<ValidatePipelineResponse | null>
  runQualityTests(
    request: MessageInitShape<typeof RunQualityTestsRequestSchema>,
    signal: AbortSignal,
  ): Promise<RunQualityTestsResponse | null>
}

export function makeRunnerPort(runners: Pool<RunnerClient>): RunnerPort {
  const callOrNull = <Answer>(call: (runner: RunnerClient) => Promise<Answer>) =>
    runners.call(call).catch((error): null => {
      if (error instanceof AppError && error.status === 503) return null
      throw error
    })
  return {
    async validate(request) {
      const ask = (runner: RunnerClient) => runner.validatePipeline(request, { timeoutMs: VALIDATION_MS })
      const answer = await callOrNull(ask).catch((error): null => {
        // A runner that has stopped answering counts as unreachable.
        if (ConnectError.from(error).code === Code.DeadlineExceeded) return null
        throw error
      })
      if (answer === null || !lacksSpark(answer)) return answer
      // Runs of the draft go to runners with this engine only, so one of them decides.
      return (await runners.callAll(ask)).find((other) => !lacksSpark(other)) ?? answer
    },
    runQualityTests(request, signal) {
      // The runner enforces the time limit. This timeout covers a runner that has stopped answering.
      const unresponsive = AbortSignal.timeout(QUALITY_TESTS_MS + limits.rpcTimeoutMs)
      const options = { signal: AbortSignal.any([signal, unresponsive]) }
      return callOrNull((runner) => runner.runQualityTests(request, options)).catch(refusedByRunner)
    },
  }
}

const lacksSpark = ({ files }: ValidatePipelineResponse) =>
  files.some(({ errors }) => errors.includes(NO_SPARK))

/** Codes of errors that the pipeline itself causes. */
const PIPELINE_ERRORS: ReadonlySet<Code> = new Set([
  Code.InvalidArgument,
  Code.FailedPrecondition,
  Code.DeadlineExceeded,
])

/** The runner has no engine now: all are in use, or a new one did not start in time. */
const BUSY: ReadonlySet<Code> = new Set([Code.ResourceExhausted, Code.Aborted])

/** Converts the refusal of a runner to an error of this API, for work with a waiting caller. */
export function refusedByRunner(error: unknown): never {
  if (error instanceof AppError) throw error
  const { code, rawMessage } = ConnectError.from(error)
  if (PIPELINE_ERRORS.has(code)) throw new AppError(400, 'INVALID_ARGUMENT', rawMessage, { cause: error })
  if (BUSY.has(code)) throw retryLater(rawMessage, error)
  if (code === Code.Canceled) throw unavailable('runner', error)
  throw error
}
