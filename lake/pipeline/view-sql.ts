// The SQL of stored views. It names tables as `"namespace"."layer"."name"`, which every reader replaces by its own names.

import { layerOf, type TableName, tableKey } from '../../ground/names.ts'
import { tokensOf } from '../engine/tokens.ts'
import { quoteIdentifier } from '../quote.ts'

/** A view may read views. A longer chain is refused, and so is a cycle. */
export const VIEW_DEPTH_MAX = 16

/** The name of a table in the SQL of a stored view. */
export const storedName = ({ namespace, layer, name }: TableName): string =>
  [namespace, layer, name].map(quoteIdentifier).join('.')

/** The tables that a text may name, as keys from `tableKey`, each once. */
export function keysIn(sql: string): string[] {
  const tokens = tokensOf(sql)
  const keys = tokens.flatMap(({ name }, index) => {
    const [dot, layer, secondDot, table] = tokens.slice(index + 1, index + 5)
    const isName = name !== undefined && dot?.text === '.' && secondDot?.text === '.'
    return isName && layer?.name && table?.name
      ? [[name, layer.name, table.name].join('.').toLowerCase()]
      : []
  })
  return [...new Set(keys)]
}

/** The names `layer.table` in a text, in lower case, each once. They name no namespace. */
export function partialNamesIn(sql: string): string[] {
  const tokens = tokensOf(sql)
  const names = tokens.flatMap(({ name }, index) => {
    const [dot, table, next] = tokens.slice(index + 1, index + 4)
    const isName = dot?.text === '.' && next?.text !== '.' && tokens[index - 1]?.text !== '.'
    return isName && name && table?.name ? [`${name}.${table.name}`.toLowerCase()] : []
  })
  return [...new Set(names)]
}

/** Whether each bracket of a text closes one that was opened in the text. */
export function isBalanced(sql: string): boolean {
  let depth = 0
  for (const { text } of tokensOf(sql)) {
    if (text === '(') depth += 1
    if (text === ')') depth -= 1
    if (depth < 0) return false
  }
  return depth === 0
}

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
    // The engine compares names without case, and names of tables have no capital letters.
    const layer = layerOf(second?.name?.toLowerCase())
    if (first.name === undefined || layer === undefined || third?.name === undefined) continue
    const table = { namespace: first.name.toLowerCase(), layer, name: third.name.toLowerCase() }
    if (!known.has(tableKey(table))) continue
    result += sql.slice(copied, first.at) + expressionOf(table)
    copied = third.at + third.text.length
  }
  return result + sql.slice(copied)
}
