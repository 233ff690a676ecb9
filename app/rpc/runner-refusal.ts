import { Code, ConnectError } from '@connectrpc/connect'
import { AppError, unavailable } from '../core/errors.ts'

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
