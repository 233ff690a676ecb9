import { AppError } from '../../app/core/errors.ts'
import { isPassing } from '../../drizzle/errors.ts'

/** Whether an error is one that nothing in a simulation may cause: neither an answer to a client nor a fault. */
export function isIllegal(error: unknown): boolean {
  if (error instanceof AppError && error.status !== 500) return false
  if (isPassing(error)) return false
  if (!(error instanceof Error)) return true
  // Two dispatchers that start different runs of one pipeline: the index lets one of them through, the other tries again.
  if ('constraint_name' in error && error.constraint_name === 'run_attempt_one_open') return false
  if (/transaction of this statement has ended/.test(error.message)) return false
  return error.cause === undefined || isIllegal(error.cause)
}
