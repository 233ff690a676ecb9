import { LAYERS, layerOf, type TableName } from '../../ground/names.ts'
import type { TableReference } from '../../lake/engine/statement.ts'
import { tokensOf } from '../../lake/engine/tokens.ts'
import { quoteIdentifier } from '../../lake/quote.ts'

// Names of tables in SQL. A namespace is a catalog of the engine, and a layer is a schema in that catalog. The engine's own
// rules therefore resolve `layer.table` in the current catalog and `namespace.layer.table` everywhere.

/** The namespace of a request that names none (specification, Naming rules). */
export const DEFAULT_NAMESPACE = 'default'

/** Names that the engine reserves, and names of layers, which would make `gold.routes` ambiguous. */
const RESERVED: ReadonlySet<string> = new Set(['main', 'memory', 'system', 'temp', ...LAYERS])
/** A suffix that no name of a namespace can contain. */
const MARK = '_'

/** The catalog that contains a namespace's tables. */
export const catalogOf = (namespace: string): string =>
  RESERVED.has(namespace) ? namespace + MARK : namespace
const namespaceOf = (catalog: string): string =>
  catalog.endsWith(MARK) && RESERVED.has(catalog.slice(0, -1)) ? catalog.slice(0, -1) : catalog

/** The table that a reference names, or null if no table can have that name. */
export function tableOf(reference: TableReference, namespace: string): TableName | null {
  const layer = layerOf(reference.schema.toLowerCase())
  if (layer === undefined) return null
  const catalog = reference.catalog.toLowerCase()
  return {
    namespace: catalog === '' ? namespace : namespaceOf(catalog),
    layer,
    name: reference.name.toLowerCase(),
  }
}

/** The name as the query wrote it. */
export const writtenName = ({ catalog, schema, name }: TableReference): string =>
  [namespaceOf(catalog), schema, name].filter((part) => part !== '').join('.')

/**
 * Quotes the namespace of every `namespace.layer.` and replaces it with the engine's name for it. Without quotes, `default` is
 * a keyword of SQL and does not parse. Strings, quoted names and comments stay unchanged. Statements are checked only after
 * this rewrite.
 */
export function quoteNamespaces(sql: string): string {
  if (!MENTIONS_LAYER.test(sql)) return sql
  const tokens = tokensOf(sql)
  let result = ''
  let copied = 0
  for (const [index, first] of tokens.entries()) {
    const [dot, layer, second] = tokens.slice(index + 1, index + 4)
    if (first.name === undefined || dot?.text !== '.' || second?.text !== '.') continue
    if (layer?.name === undefined || !isLayer(layer.name) || tokens[index - 1]?.text === '.') continue
    result += sql.slice(copied, first.at) + quoteIdentifier(catalogOf(first.name.toLowerCase()))
    copied = first.at + first.text.length
  }
  return result + sql.slice(copied)
}

const MENTIONS_LAYER = new RegExp(`\\b(${LAYERS.join('|')})\\b`, 'i')
const isLayer = (name: string) => layerOf(name.toLowerCase()) !== undefined
