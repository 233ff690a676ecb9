import { AppError } from '../app/core/errors.ts'
import { isPassing } from '../drizzle/errors.ts'

/** Returns whether an error is a bug: it is neither an expected answer to a client nor caused by a fault. */
export function isIllegal(error: unknown): boolean {
  if (error instanceof AppError && error.status !== 500) return false
  if (isPassing(error)) return false
  if (!(error instanceof Error)) return true
  // Two dispatchers may start different runs of one pipeline. The index accepts one of them; the other tries again.
  if ('constraint_name' in error && error.constraint_name === 'run_attempt_one_open') return false
  if (/transaction of this statement has ended/.test(error.message)) return false
  return error.cause === undefined || isIllegal(error.cause)
}
