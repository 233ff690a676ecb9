// The SQL of stored views. It names tables as `"namespace"."layer"."name"`, which every reader replaces by its own names.
import { tokensOf } from '../engine/tokens.ts'
import { quoteIdentifier } from '../quote.ts'
import { LAYERS, type TableName, tableKey } from './names.ts'

/** A view may read views. A longer chain is refused, and so is a cycle. */
export const VIEW_DEPTH_MAX = 16

/** The name of a table in the SQL of a stored view. */
export const storedName = ({ namespace, layer, name }: TableName): string =>
  [namespace, layer, name].map(quoteIdentifier).join('.')

/** Replaces the names of these tables in the SQL of a stored view. `reads` are keys from `tableKey`. */
export function withTables(
  sql: string,
  reads: readonly string[],
  expressionOf: (table: TableName) => string,
): string {
  const known = new Set(reads)
  const tokens = tokensOf(sql)
  let result = ''
  let copied = 0
  for (const [index, first] of tokens.entries()) {
    const [dot, second, secondDot, third] = tokens.slice(index + 1, index + 5)
    if (first.at < copied || tokens[index - 1]?.text === '.') continue
    if (dot?.text !== '.' || secondDot?.text !== '.') continue
    const layer = LAYERS.find((candidate) => candidate === second?.name)
    if (first.name === undefined || layer === undefined || third?.name === undefined) continue
    const table = { namespace: first.name, layer, name: third.name }
    if (!known.has(tableKey(table))) continue
    result += sql.slice(copied, first.at) + expressionOf(table)
    copied = third.at + third.text.length
  }
  return result + sql.slice(copied)
}
