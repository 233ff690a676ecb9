/** The engine's own parser: a text becomes its syntax tree, and nothing of it is bound or run. */
import type { DuckDBConnection } from '@duckdb/node-api'
import { quoteLiteral } from '../quote.ts'
import { EngineError, engineError } from './error.ts'

/** Answers the engine's tree of a text, as it writes it. */
export type SyntaxTree = (sql: string) => Promise<string>

const treeOf = (text: string) =>
  `SELECT CAST(json_serialize_sql(${text}, skip_null := true, skip_empty := true, skip_default := true) AS VARCHAR)`

/** For few texts. The text stands in the statement, because a parameter would take four calls of the engine instead of one. */
export const treeOn =
  (connection: DuckDBConnection): SyntaxTree =>
  async (sql) => {
    const result = await connection.run(treeOf(quoteLiteral(sql)))
    return String(result.getChunk(0).getColumnValues(0)[0])
  }

/**
 * For many texts, one at a time: most of the work is to plan the statement that has the parser called, which is done once here.
 * It lasts as long as the connection.
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

/** A text that does not parse; `at` is the offset of the fault in the text, where the parser says one. */
export interface SyntaxFault {
  message: string
  at: number | undefined
}

/**
 * The trees of the statements; undefined when one of them is no SELECT (DESCRIBE and SHOW are, to the parser).
 * Throws `EngineError` (syntax).
 */
export async function parse(tree: SyntaxTree, sql: string): Promise<JsonObject[] | undefined> {
  const parsed = await tryParse(tree, sql)
  if (parsed === undefined || Array.isArray(parsed)) return parsed
  const { message, at } = parsed
  const line = at === undefined ? undefined : sql.slice(0, at).split('\n').length
  const place = line === undefined ? '' : ` (line ${line})`
  throw new EngineError('syntax', `Parser Error: ${message}${place}`, line)
}

/** As `parse`, with a fault of the syntax as a value. */
export async function tryParse(
  tree: SyntaxTree,
  sql: string,
): Promise<JsonObject[] | SyntaxFault | undefined> {
  if (sql.includes('\0')) return { message: 'the text holds a null byte', at: sql.indexOf('\0') }
  const text = await tree(sql).catch((error: unknown) => {
    throw engineError(error)
  })
  const answer = jsonOf(text)
  if (!isObject(answer)) throw new TypeError('the parser answered no object')
  if (answer.error !== true) return Array.isArray(answer.statements) ? answer.statements.filter(isObject) : []
  if (answer.error_type === 'not implemented') return undefined
  const position = Number(answer.position)
  // The parser counts characters for a fault, and bytes for everything else.
  const at = Number.isNaN(position) ? undefined : [...sql].slice(0, position).join('').length
  return { message: String(answer.error_message), at }
}

/** As the engine compares names: letters beyond ASCII, like the sign of Kelvin, are themselves alone. */
export const foldName = (name: string): string => name.replace(/[A-Z]+/g, (letters) => letters.toLowerCase())

/** Numbers too large for a DOUBLE, such as 1e400, stand in the engine's tree as words that JSON does not have. */
const NO_JSON = /"(?:[^"\\]|\\.)*"|-?\b(?:Infinity|NaN)\b/g
const NO_JSON_WORD = /Infinity|NaN/

/** The engine's tree as a value. */
export function jsonOf(tree: string): Json {
  if (!NO_JSON_WORD.test(tree)) return JSON.parse(tree)
  return JSON.parse(tree.replace(NO_JSON, (token) => (token.startsWith('"') ? token : 'null')))
}

/** The offset in the text of a position in its UTF-8, in which the engine counts where a name stands. */
export const offsetOf = (sql: string, byte: number): number =>
  new TextDecoder('utf-8', { ignoreBOM: true }).decode(new TextEncoder().encode(sql).subarray(0, byte)).length
