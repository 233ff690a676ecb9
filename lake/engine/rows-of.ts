/** Which statements give rows of one table and nothing else, by the engine's tree: they give no more than it has. */
import { foldName, isObject, type Json, type JsonObject } from './parser.ts'

/**
 * The table of a statement that picks columns of it and, maybe, leaves out rows; null: it may give any number of rows. Only what
 * is known to be such a statement is one: anything else in its tree, a function among the columns, for one, could make more rows.
 */
export function rowsOf(statement: JsonObject): JsonObject | null {
  const { node } = statement
  if (!hasOnly(statement, ['node']) || !hasOnly(node, NODE_KEYS) || node.type !== 'SELECT_NODE') return null
  const { select_list: columns, from_table: source, modifiers = [] } = node
  if (node.aggregate_handling !== 'STANDARD_HANDLING' || !hasOnly(source, TABLE_KEYS)) return null
  const isPlain = source.type === 'BASE_TABLE' && areOwnColumns(columns) && all(modifiers, isOrderOrLimit)
  return isPlain ? source : null
}

const NODE_KEYS = ['type', 'select_list', 'from_table', 'where_clause', 'modifiers', 'aggregate_handling']
const TABLE_KEYS = ['type', 'alias', 'query_location', 'catalog_name', 'schema_name', 'table_name']
const STAR_KEYS = ['class', 'type', 'query_location', 'relation_name']
const COLUMN_KEYS = ['class', 'type', 'query_location', 'alias', 'column_names']

function hasOnly(node: Json | undefined, keys: readonly string[]): node is JsonObject {
  return isObject(node) && Object.keys(node).every((key) => keys.includes(key))
}

const all = (list: Json, holds: (item: Json) => boolean): boolean => Array.isArray(list) && list.every(holds)

/** All of the table's, or some by name; each has a name that no other has, as in a subquery. */
function areOwnColumns(columns: Json | undefined): boolean {
  if (!Array.isArray(columns)) return false
  const [first] = columns
  if (columns.length === 1 && hasOnly(first, STAR_KEYS) && first.class === 'STAR') return true
  const names = columns.map(nameOfColumn)
  return !names.includes(null) && new Set(names).size === names.length
}

function nameOfColumn(column: Json): string | null {
  if (!hasOnly(column, COLUMN_KEYS) || column.class !== 'COLUMN_REF') return null
  const { alias, column_names: path } = column
  const name = alias ?? (Array.isArray(path) ? path.at(-1) : undefined)
  return typeof name === 'string' ? foldName(name) : null
}

function isOrderOrLimit(modifier: Json): boolean {
  if (!isObject(modifier)) return false
  if (modifier.type !== 'ORDER_MODIFIER') return modifier.type === 'LIMIT_MODIFIER'
  return all(
    modifier.orders ?? null,
    (order) => isObject(order) && nameOfColumn(order.expression ?? null) !== null,
  )
}
