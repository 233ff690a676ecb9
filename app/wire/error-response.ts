// The only place that converts a thrown value into the error envelope. An unexpected error shows no details, because they may
// contain tables, files or secrets.
import { NotFoundError, ParseError, ValidationError } from 'elysia'
import { isOfConnection } from '../../drizzle/errors.ts'
import { isDiskFull } from '../../lake/disk-floor.ts'
import {
  AppError,
  diskFull,
  invalid,
  notFound,
  RETRY_AFTER_SECONDS,
  retryLater,
  TYPE_OF,
} from '../core/errors.ts'
import { refusalOf } from './validation.ts'

/** The error envelope of the specification, with the headers of the error. */
export const errorResponse = (error: AppError): Response =>
  Response.json(
    { error: { code: error.code, type: TYPE_OF[error.status], message: error.message }, ...error.body },
    { status: error.status, headers: error.headers },
  )

/** Maps a thrown value to an error for the client. Every 5xx keeps the original as `cause`, for the log. */
export function toAppError(error: unknown): AppError {
  if (error instanceof AppError) return error
  if (error instanceof ParseError)
    return isError(error.cause)
      ? toAppError(error.cause)
      : invalid('body', 'cannot be read: send a complete, valid body')
  if (error instanceof ValidationError) return error.type === 'response' ? internal(error) : refusalOf(error)
  if (error instanceof NotFoundError) return notFound('route')
  return fromDependency(error) ?? internal(error)
}

const internal = (cause: unknown) => new AppError(500, 'INTERNAL', 'internal error', { cause })

/** Postgres refused or ended a connection, or cancelled the statement. */
const UNAVAILABLE = new Set([
  '40001', // serialization_failure
  '40P01', // deadlock_detected
  '53300', // too_many_connections
  '55P03', // lock_not_available
  '57014', // query_canceled
  '57P01', // admin_shutdown
  '57P02', // crash_shutdown
  '57P03', // cannot_connect_now
])

const DATABASE_DISK_FULL = '53100'

/** Values that no column can store. Schemas refuse them first; these codes cover gaps in a schema. */
const UNSTORABLE = new Set([
  '22003', // numeric_value_out_of_range
  '22008', // datetime_field_overflow
  '22021', // character_not_in_repertoire
  '22P05', // untranslatable_character
])

function fromDependency(error: unknown): AppError | null {
  if (isOfConnection(error)) return dependencyUnavailable(error)
  for (let cause = error; isError(cause); cause = cause.cause) {
    const code = 'code' in cause ? String(cause.code) : ''
    if (isDiskFull(cause)) return diskFull('the disk is full', error)
    if (code === DATABASE_DISK_FULL) return diskFull('the disk of the database is full', error)
    if (UNAVAILABLE.has(code) || code.startsWith('08')) return dependencyUnavailable(error)
    if (UNSTORABLE.has(code))
      return new AppError(400, 'INVALID_ARGUMENT', 'a value is outside the range that can be stored', {
        cause: error,
      })
  }
  return null
}

const dependencyUnavailable = (cause: unknown) =>
  retryLater(`a dependency of the service is not available: retry in ${RETRY_AFTER_SECONDS} s`, cause)

const isError = (value: unknown): value is Error => value instanceof Error
