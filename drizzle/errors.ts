/** Codes of postgres.js and the operating system for a connection that failed or was lost. */
const CONNECTION =
  /^(CONNECTION_|CONNECT_|ECONN|EPIPE|ETIMEDOUT|ENOTCONN|EHOSTDOWN|EHOSTUNREACH|ENETDOWN|ENETUNREACH|ENETRESET|EAI_|ERR_SSL|ERR_TLS)/
/** SQLSTATE classes of temporary errors: connection, rollback (deadlock), resources, operator, lock not available. */
const TEMPORARY = /^(08|40|53|57|55P03)/

/** Whether the error or one of its causes is a failed or lost connection. */
export const isOfConnection = (error: unknown): boolean =>
  error instanceof Error &&
  (('code' in error && CONNECTION.test(String(error.code))) || isOfConnection(error.cause))

/** Codes of a database that is silent or unreachable. */
const AWAY =
  /^(CONNECTION_SILENT|CONNECT_|ECONNREFUSED|ETIMEDOUT|EHOSTDOWN|EHOSTUNREACH|ENETDOWN|ENETUNREACH|EAI_)/

/** Whether the error or one of its causes means that the whole database is away, not just one lost connection. */
export const isAway = (error: unknown): boolean =>
  error instanceof Error && (('code' in error && AWAY.test(String(error.code))) || isAway(error.cause))

/** Whether a statement failed for a temporary reason, so that a retry may succeed. */
export function isPassing(error: unknown): boolean {
  if (isOfConnection(error)) return true
  // A SQLSTATE is always a string, so a number is a different kind of code.
  return (
    error instanceof Error && 'code' in error && typeof error.code === 'string' && TEMPORARY.test(error.code)
  )
}

/** Whether a statement failed because another transaction inserted the same key first, in one of these unique indexes. */
export const hasMet = (error: unknown, indexes: readonly string[]): boolean =>
  error instanceof Error &&
  'code' in error &&
  error.code === '23505' &&
  'constraint_name' in error &&
  indexes.some((index) => index === error.constraint_name)
