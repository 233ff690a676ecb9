import { type TableName, tableKey } from '../../../ground/names.ts'
import { splitStatements } from '../../../lake/engine/statement.ts'
import { VIEW_SQL_BYTES } from '../../../lake/iceberg/format/wire.ts'
import { AuthorError } from '../../../lake/pipeline/author-error.ts'
import { tableExpression } from '../engine/sql-names.ts'
import type { Draft } from './inputs.ts'

// The rules for the text of a view, apart from the engine's.

/** Why the draft cannot be a view: it may name other tables only. Null: it may be one. */
export function refusalOfView({ sql, zones }: Draft, own: TableName): string | null {
  const [zone] = zones
  if (zone !== undefined) return `a view cannot read landing zone ${zone}: use materialized: table`
  if (sql.includes(tableExpression(own)))
    return `a view cannot read itself: remove this and the reference to ${tableKey(own)}`
  return null
}

/** The statement without a semicolon and without comments before it. */
export const statementOf = (sql: string): string => splitStatements(sql)[0]?.text ?? sql

/** The statement as the catalog stores it. Throws AuthorError for one that is too long. */
export function storedText(sql: string): string {
  const text = statementOf(sql)
  if (Buffer.byteLength(text) <= VIEW_SQL_BYTES) return text
  throw new AuthorError(`the SQL of a view may have at most ${VIEW_SQL_BYTES} bytes`, { where: '' })
}
