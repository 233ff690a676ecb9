/** SQLSTATE classes that say "not now": connection, resources, operator, rollback (deadlock), lock not available. */
const PASSING = /^(08|40|53|57|55P03)/

/** Whether a statement failed for a reason that passes by itself, so that the same one may succeed later. */
export function isPassing(error: unknown): boolean {
  if (!(error instanceof Error) || !('code' in error) || typeof error.code !== 'string') return false
  return PASSING.test(error.code) || /^(CONNECTION_|CONNECT_|ECONN|EPIPE|ETIMEDOUT)/.test(error.code)
}

/** Whether a statement met another transaction that was first, at one of these unique indexes. */
export const hasMet = (error: unknown, indexes: readonly string[]): boolean =>
  error instanceof Error &&
  'code' in error &&
  error.code === '23505' &&
  'constraint_name' in error &&
  indexes.some((index) => index === error.constraint_name)
