import type { PendingQuery, Row } from 'postgres'
import type { Part, Sql, SqlTx } from './sql.ts'

/**
 * One statement of many parts, `name as (insert, update or delete ...)`: each sees what was there before all of them, and
 * none the other's change, so no two may write the same row. `answer` is the query that it ends with; it may read what parts
 * return, by their names.
 */
export function together(tx: Sql | SqlTx, parts: readonly Part[], answer: Part): PendingQuery<Row[]> {
  const [first, ...others] = parts
  if (first === undefined) return tx`${answer}`
  return tx`with ${others.reduce((all, part) => tx`${all}, ${part}`, first)} ${answer}`
}
