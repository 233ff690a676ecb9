import postgres from 'postgres'

/** What the client and the system say of a connection that cannot be had or is lost. */
const CONNECTION =
  /^(CONNECTION_|CONNECT_|ECONN|EPIPE|ETIMEDOUT|ENOTCONN|EHOSTDOWN|EHOSTUNREACH|ENETDOWN|ENETUNREACH|ENETRESET|EAI_|ERR_SSL|ERR_TLS)/
/** SQLSTATE classes that say "not now": connection, resources, operator, rollback (deadlock), lock not available. */
const PASSING = /^(08|40|53|57|55P03)/

/** Whether this, or what caused it, says that a connection cannot be had or is lost. */
export const isOfConnection = (error: unknown): boolean =>
  error instanceof Error &&
  (('code' in error && CONNECTION.test(String(error.code))) || isOfConnection(error.cause))

/** What is said of a database that says nothing, or to which there is no connection to be had. */
const AWAY =
  /^(CONNECTION_SILENT|CONNECT_|ECONNREFUSED|ETIMEDOUT|EHOSTDOWN|EHOSTUNREACH|ENETDOWN|ENETUNREACH|EAI_)/

/** Whether this, or what caused it, is news for everybody who waits for the database: more than one connection that is lost. */
export const isAway = (error: unknown): boolean =>
  error instanceof Error && (('code' in error && AWAY.test(String(error.code))) || isAway(error.cause))

/** Whether a statement failed for a reason that passes by itself, so that the same one may succeed later. */
export function isPassing(error: unknown): boolean {
  if (isOfConnection(error)) return true
  // A number is nobody's SQLSTATE.
  return (
    error instanceof Error && 'code' in error && typeof error.code === 'string' && PASSING.test(error.code)
  )
}

/** Whether the answer of a statement that failed is unknown: its connection has ended, or the server has said that it will. */
export const isConnectionLost = (error: unknown): boolean =>
  error instanceof postgres.PostgresError
    ? error.severity === 'FATAL' || error.severity === 'PANIC'
    : isOfConnection(error)

/** Whether a statement met another transaction that was first, at one of these unique indexes. */
export const hasMet = (error: unknown, indexes: readonly string[]): boolean =>
  error instanceof Error &&
  'code' in error &&
  error.code === '23505' &&
  'constraint_name' in error &&
  indexes.some((index) => index === error.constraint_name)
