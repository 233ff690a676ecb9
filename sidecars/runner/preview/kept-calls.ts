import { quoteName } from '../../../lake/iceberg/sql.ts'
import type { KeptCall } from '../engine/engine-messages.ts'

// Calls of a SELECT that read files of landing zones, and tables of the engine that have their rows already. A text is
// searched by pattern, and what was made of it is believed only where the engine's own parser has seen the same.

/** `read_csv_auto('/path/*', header = true)`, on one line; options are plain values. */
const CALL =
  /\bread_(?:csv|csv_auto|parquet|json|json_auto|ndjson|ndjson_auto)\s*\(\s*'((?:[^'\n]|'')*)'(?:[ \t]*,[ \t]*(?!filename\b|store_rejects\b|rejects_)\w+[ \t]*(?:=|:=|=>)[ \t]*(?:'(?:[^'\n]|'')*'|[\w.]+))*[ \t]*\)/gi

/** Columns that belong to the files, not to their rows. */
const OF_FILES = /\b(?:filename|file_row_number|file_index|rowid)\b/i

/** The calls in a text that read one of these paths, each once. */
export function callsOf(sql: string, paths: ReadonlySet<string>): string[] {
  if (OF_FILES.test(sql)) return []
  const calls = new Set<string>()
  for (const [call, path = ''] of sql.matchAll(CALL))
    if (paths.has(path.replaceAll("''", "'"))) calls.add(call)
  return [...calls]
}

/** The table that gets the rows of a call. Its name is the function's: so the columns keep the name they had without an alias. */
export const tableFor = (call: string, number: number): KeptCall['table'] => ({
  schema: `${SCHEMA}${number}`,
  name: /^\w+/.exec(call)?.[0].toLowerCase() ?? 'rows',
})
const SCHEMA = 'sluice_kept_'

/** Creates it. */
export const keepSql = ({ call, table }: KeptCall): string =>
  `CREATE SCHEMA ${quoteName(table.schema)}; CREATE TABLE ${nameOf(table)} AS SELECT * FROM ${call}`

const nameOf = ({ schema, name }: KeptCall['table']) => `${quoteName(schema)}.${quoteName(name)}`

/** A text with tables in place of calls, and how many there are, as far as the pattern can tell. Null: none. */
export function withKept(sql: string, kept: readonly KeptCall[]): { text: string; count: number } | null {
  if (kept.length === 0 || OF_FILES.test(sql)) return null
  const tables = new Map(kept.map(({ call, table }) => [call, table]))
  let count = 0
  const text = sql.replace(CALL, (call) => {
    const table = tables.get(call)
    if (table === undefined) return call
    count += 1
    return nameOf(table)
  })
  return count === 0 ? null : { text, count }
}

/** Whether the parser has seen as many calls become tables as the pattern, by its trees of the text before and after. */
export function isReplaced(before: string, after: string, count: number): boolean {
  const [was, is] = [countsOf(before), countsOf(after)]
  return was.calls - is.calls === count && is.tables - was.tables === count
}

/** How many calls of table functions, and references to tables that are kept, a tree has. */
function countsOf(tree: string) {
  const count = (pattern: RegExp) => tree.match(pattern)?.length ?? 0
  return {
    calls: count(/"type":"TABLE_FUNCTION"/g),
    tables: count(/"schema_name":"sluice_kept_\d+"/g),
  }
}
