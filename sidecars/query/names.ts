import type { TableReference } from '../../lake/engine/statement.ts'
import { LAYERS, type TableName } from '../../lake/pipeline/names.ts'
import { quoteIdentifier } from '../../lake/quote.ts'

// How SQL names tables: a namespace is a catalog of the engine, a layer a schema in it. So `layer.table` is found in the
// catalog in use and `namespace.layer.table` everywhere, by the engine's own rules for names.

/** What a request without a namespace means (specification, Naming rules). */
export const DEFAULT_NAMESPACE = 'default'

/** Names the engine keeps for itself, and names of layers, which would make `gold.routes` mean two things. */
const TAKEN: ReadonlySet<string> = new Set(['main', 'memory', 'system', 'temp', ...LAYERS])
/** No namespace can have it in its name. */
const MARK = '_'

/** The catalog that holds a namespace's tables. */
export const catalogOf = (namespace: string): string => (TAKEN.has(namespace) ? namespace + MARK : namespace)
const namespaceOf = (catalog: string): string =>
  catalog.endsWith(MARK) && TAKEN.has(catalog.slice(0, -1)) ? catalog.slice(0, -1) : catalog

/** The table that a reference means; null when it cannot be the name of one. */
export function tableOf(reference: TableReference, namespace: string): TableName | null {
  const layer = LAYERS.find((known) => known === reference.schema.toLowerCase())
  if (layer === undefined) return null
  const catalog = reference.catalog.toLowerCase()
  return {
    namespace: catalog === '' ? namespace : namespaceOf(catalog),
    layer,
    name: reference.name.toLowerCase(),
  }
}

/** As the query wrote it. */
export const writtenName = ({ catalog, schema, name }: TableReference): string =>
  [namespaceOf(catalog), schema, name].filter((part) => part !== '').join('.')

/**
 * A text in which every namespace of a `namespace.layer.` is a quoted name, and the engine's name for it: `default` is
 * a word of SQL and does not parse otherwise. Texts, quoted names and comments stay as they are; what the text may do
 * is decided on what this answers.
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
const isLayer = (name: string) => LAYERS.some((layer) => layer === name.toLowerCase())

interface Token {
  at: number
  text: string
  /** Of an identifier, without its quotes. */
  name?: string
}

/** What the engine's scanner tells apart; what is not closed reaches to the end. */
const TOKEN =
  /(?<blank>\s+|--[^\n\r]*)|(?<comment>\/\*)|(?<text>[eE]'(?:[^'\\]|\\[\s\S]|'')*(?:'|$)|'(?:[^']|'')*(?:'|$))|(?<dollar>\$(?:[A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*)?\$)|"(?<quoted>(?:[^"]|"")*)(?:"|$)|(?<word>[A-Za-z_\u0080-\uffff][\w$\u0080-\uffff]*)|\d\w*|[\s\S]/y

function tokensOf(sql: string): Token[] {
  const tokens: Token[] = []
  TOKEN.lastIndex = 0
  for (let match = TOKEN.exec(sql); match !== null; match = TOKEN.exec(sql)) {
    const { index: at, 0: text } = match
    const { blank, comment, dollar, quoted, word } = match.groups ?? {}
    if (comment !== undefined) TOKEN.lastIndex = afterComment(sql, at)
    else if (dollar !== undefined) TOKEN.lastIndex = afterText(sql, dollar, at + dollar.length)
    else if (blank === undefined) tokens.push({ at, text, name: quoted?.replaceAll('""', '"') ?? word })
  }
  return tokens
}

/** Comments stand inside of comments. */
function afterComment(sql: string, start: number): number {
  const mark = /\/\*|\*\//g
  mark.lastIndex = start
  let depth = 0
  for (let match = mark.exec(sql); match !== null; match = mark.exec(sql)) {
    depth += match[0] === '/*' ? 1 : -1
    if (depth === 0) return mark.lastIndex
  }
  return sql.length
}

function afterText(sql: string, closing: string, from: number): number {
  const at = sql.indexOf(closing, from)
  return at === -1 ? sql.length : at + closing.length
}
