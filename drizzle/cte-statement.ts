import type { PendingQuery, Row } from 'postgres'
import type { Part, Sql, SqlTx } from './sql.ts'

/**
 * One statement of several CTEs, `name as (insert, update or delete ...)`. All CTEs see the same snapshot and no changes of
 * each other. So two CTEs must not write the same row. `finalQuery` may read the returned rows of the CTEs by name.
 */
export function cteStatement(tx: Sql | SqlTx, parts: readonly Part[], finalQuery: Part): PendingQuery<Row[]> {
  const [first, ...others] = parts
  if (first === undefined) return tx`${finalQuery}`
  return tx`with ${others.reduce((all, part) => tx`${all}, ${part}`, first)} ${finalQuery}`
}
