// The engine's own parser: turns a text into its syntax tree, without binding or running anything.
import type { DuckDBConnection } from '@duckdb/node-api'
import { quoteLiteral } from '../quote.ts'
import { EngineError, engineError } from './error.ts'

/** Returns the engine's syntax tree of a text, as the JSON that the engine writes. */
export type SyntaxTree = (sql: string) => Promise<string>

const treeOf = (text: string) =>
  `SELECT CAST(json_serialize_sql(${text}, skip_null := true, skip_empty := true, skip_default := true) AS VARCHAR)`

/** For few texts. The text is a literal of the statement, because a parameter needs four engine calls instead of one. */
export const treeOn =
  (connection: DuckDBConnection): SyntaxTree =>
  async (sql) => {
    const result = await connection.run(treeOf(quoteLiteral(sql)))
    return String(result.getChunk(0).getColumnValues(0)[0])
  }

/**
 * For many texts, one at a time. Most of the work is planning the statement that calls the parser, so it is planned once. The
 * function works as long as the connection is open.
 */
export async function plannedTreeOn(connection: DuckDBConnection): Promise<SyntaxTree> {
  const statement = await connection.prepare(treeOf('$1::VARCHAR'))
  return async (sql) => {
    statement.bindVarchar(1, sql)
    const result = await statement.run()
    return String(result.getChunk(0).getColumnValues(0)[0])
  }
}

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json }
export type JsonObject = { [key: string]: Json }

export const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** A text that does not parse. `at` is the offset of the error in the text, when the parser reports one. */
export interface SyntaxFault {
  message: string
  at: number | undefined
}

/**
 * Returns the trees of the statements, or undefined when a statement is not a SELECT. The parser treats DESCRIBE and SHOW as
 * SELECT. Throws `EngineError` (syntax).
 */
export async function parse(tree: SyntaxTree, sql: string): Promise<JsonObject[] | undefined> {
  const parsed = await tryParse(tree, sql)
  if (parsed === undefined || Array.isArray(parsed)) return parsed
  const { message, at } = parsed
  const line = at === undefined ? undefined : sql.slice(0, at).split('\n').length
  const location = line === undefined ? '' : ` (line ${line})`
  throw new EngineError('syntax', `Parser Error: ${message}${location}`, line)
}

/** Like `parse`, but returns a syntax error as a value. */
export async function tryParse(
  tree: SyntaxTree,
  sql: string,
): Promise<JsonObject[] | SyntaxFault | undefined> {
  if (sql.includes('\0')) return { message: 'the SQL text contains a null byte', at: sql.indexOf('\0') }
  const text = await tree(sql).catch((error: unknown) => {
    throw engineError(error)
  })
  const result = jsonOf(text)
  if (!isObject(result)) throw new TypeError('the SQL parser returned no JSON object')
  if (result.error !== true) return Array.isArray(result.statements) ? result.statements.filter(isObject) : []
  if (result.error_type === 'not implemented') return undefined
  const position = Number(result.position)
  // The parser counts characters for an error, and bytes for everything else.
  const at = Number.isNaN(position) ? undefined : [...sql].slice(0, position).join('').length
  return { message: String(result.error_message), at }
}

/** Folds a name like the engine does: only ASCII letters. Other letters, such as the Kelvin sign, stay unchanged. */
export const foldName = (name: string): string => name.replace(/[A-Z]+/g, (letters) => letters.toLowerCase())

/** The engine's tree holds numbers too large for a DOUBLE, such as 1e400, as words that JSON does not have. */
const NO_JSON = /"(?:[^"\\]|\\.)*"|-?\b(?:Infinity|NaN)\b/g
const NO_JSON_WORD = /Infinity|NaN/

/** The engine's tree as JSON. Numbers that JSON does not have become null. */
export const jsonText = (tree: string): string =>
  NO_JSON_WORD.test(tree) ? tree.replace(NO_JSON, (token) => (token.startsWith('"') ? token : 'null')) : tree

/** Parses the engine's tree. */
const jsonOf = (tree: string): Json => JSON.parse(jsonText(tree))

/**
 * Converts byte positions in the UTF-8 text to offsets in the string. The engine counts bytes for the position of a name. Increasing
 * positions take one pass over the text.
 */
export function offsetCounter(sql: string): (byte: number) => number {
  let bytes = 0
  let offset = 0
  return (byte) => {
    if (byte < bytes) bytes = offset = 0
    while (bytes < byte && offset < sql.length) {
      const code = sql.codePointAt(offset) ?? 0
      bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4
      offset += code < 0x10000 ? 1 : 2
    }
    return offset
  }
}
