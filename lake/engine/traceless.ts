/**
 * Texts that leave nothing behind and see nothing of what was before: they may share an instance with those of others,
 * one after the other. What is not known to be such a text is none, and gets an instance of its own.
 */
import type { DuckDBConnection } from '@duckdb/node-api'
import { EngineError } from './error.ts'
import { foldName, treeOn } from './parser.ts'
import { readStatement, StatementRefused, type TableReference } from './statement.ts'

export interface TableName {
  schema: string
  name: string
}

/**
 * Functions whose answer tells of the instance, its connections or the text around them; and the one that decides what random
 * numbers come next. Those that tell more are refused to all that read only.
 */
const TELLING_FUNCTIONS: ReadonlySet<string> = new Set([
  'current_connection_id',
  'current_query',
  'current_query_id',
  'current_transaction_id',
  'setseed',
  'stats',
  'txid_current',
])

/**
 * Whether the text is one SELECT, by the engine's own parser, that reads nothing but these tables and computes. Only by their
 * names as `schema.name`: what a name alone means is for the instance to find.
 */
export async function isTraceless(
  connection: DuckDBConnection,
  sql: string,
  tables: readonly TableName[],
): Promise<boolean> {
  const known = new Set(tables.map(keyOf))
  const isTable = (table: TableReference) => table.catalog === '' && known.has(keyOf(table))
  try {
    const { kind, listsTables, functions } = await readStatement(treeOn(connection), sql, { isTable })
    return kind === 'select' && !listsTables && functions.isDisjointFrom(TELLING_FUNCTIONS)
  } catch (error) {
    if (error instanceof StatementRefused || error instanceof EngineError) return false
    throw error
  }
}

const keyOf = ({ schema, name }: TableName) => foldName(JSON.stringify([schema, name]))
