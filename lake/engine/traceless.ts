// Finds texts that change no state of an instance and see no earlier state. Such texts of several users may share an instance,
// one after the other. Every other text gets its own instance.
import type { DuckDBConnection } from '@duckdb/node-api'
import { EngineError } from './error.ts'
import { foldName, treeOn } from './parser.ts'
import { readStatement, StatementRefused, type TableReference } from './statement.ts'

export interface TableName {
  schema: string
  name: string
}

/**
 * Functions that reveal the instance, its connections or the surrounding text; and `setseed`, which determines later random
 * numbers. Functions that reveal more are refused in every read-only text.
 */
const REVEALING_FUNCTIONS: ReadonlySet<string> = new Set([
  'current_connection_id',
  'current_query',
  'current_query_id',
  'current_transaction_id',
  'setseed',
  'stats',
  'txid_current',
])

/**
 * Whether the engine's parser finds one SELECT that only computes and reads only these tables. A table must be written as
 * `schema.name`, because only the instance can resolve a name without a schema.
 */
export async function isTraceless(
  connection: DuckDBConnection,
  sql: string,
  tables: readonly TableName[],
): Promise<boolean> {
  try {
    const rules = { isTable: isOneOf(tables) }
    const { kind, listsTables, functions } = await readStatement(treeOn(connection), sql, rules)
    return kind === 'select' && !listsTables && functions.isDisjointFrom(REVEALING_FUNCTIONS)
  } catch (error) {
    if (error instanceof StatementRefused || error instanceof EngineError) return false
    throw error
  }
}

/** Whether a reference is one of these tables, written as `schema.name`. */
export function isOneOf(tables: readonly TableName[]): (table: TableReference) => boolean {
  const tableKeys = new Set(tables.map(keyOf))
  return (table) => table.catalog === '' && tableKeys.has(keyOf(table))
}

const keyOf = ({ schema, name }: TableName) => foldName(JSON.stringify([schema, name]))
