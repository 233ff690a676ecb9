import {
  foldName,
  isObject,
  type Json,
  offsetCounter,
  type SyntaxTree,
  tryParse,
} from '../../../lake/engine/parser.ts'
import { referenceOf, textOf, visitTree } from '../../../lake/engine/statement.ts'
import { type Token, tokensOf } from '../../../lake/engine/tokens.ts'
import { quoteIdentifier, quoteList, quoteLiteral } from '../../../lake/quote.ts'

// Finds the calls in a text that read files, by the engine's parse tree.

type ReaderKind = 'csv' | 'json' | 'json_objects' | 'parquet'

/** An argument as written. `name` is in lower case; null: an argument by position. */
interface Argument {
  name: string | null
  text: string
}

/** A call of a reader, or a quoted path in place of a table. */
export interface ReaderCall {
  kind: ReaderKind
  name: string
  arguments: Argument[]
  /** The call is the text from `start` to `end`. More arguments belong at `close`. */
  start: number
  close: number
  end: number
  /** The name by which the text refers to a quoted path; null for a call. */
  alias: string | null
  /** The text of the argument with the files, from `start` to `end`; null: the call has no such argument, or is a quoted path. */
  paths: { start: number; end: number } | null
}

const READERS: ReadonlyMap<string, ReaderKind> = new Map<string, ReaderKind>([
  ['read_csv', 'csv'],
  ['read_csv_auto', 'csv'],
  ['read_json', 'json'],
  ['read_json_auto', 'json'],
  ['read_ndjson', 'json'],
  ['read_ndjson_auto', 'json'],
  ['read_json_objects', 'json_objects'],
  ['read_json_objects_auto', 'json_objects'],
  ['read_ndjson_objects', 'json_objects'],
  ['read_parquet', 'parquet'],
  ['parquet_scan', 'parquet'],
])

/** The reader that the engine uses for a quoted path, by the end of the path. */
const READERS_OF_PATHS: readonly [RegExp, string][] = [
  [/\.[ct]sv(?:\.gz|\.zst)?$/i, 'read_csv_auto'],
  [/\.(?:json|jsonl|ndjson)(?:\.gz|\.zst)?$/i, 'read_json_auto'],
  [/\.parquet$/i, 'read_parquet'],
]

/** Returns the calls of readers, from the last to the first. A text that does not parse has none. */
export async function readerCalls(
  tree: SyntaxTree,
  sql: string,
  /** The value of each parameter, as SQL. */
  parameters: ReadonlyMap<string, string> = new Map(),
): Promise<ReaderCall[]> {
  const statements = await tryParse(tree, sql)
  if (!Array.isArray(statements)) return []
  const offsetOf = offsetCounter(sql)
  const offsetAt = (location: Json | undefined) => offsetOf(Number(location ?? 0))
  const found: { at: number; kind: ReaderKind | null; name: string; isAliased: boolean }[] = []
  for (const statement of statements)
    visitTree(statement, (node, isCte) => {
      const isAliased = textOf(node.alias) !== ''
      if (node.type === 'TABLE_FUNCTION' && isObject(node.function)) {
        const name = foldName(textOf(node.function.function_name))
        const kind = READERS.get(name)
        if (kind) found.push({ at: offsetAt(node.function.query_location), kind, name, isAliased })
      } else if (node.type === 'BASE_TABLE') {
        const table = referenceOf(node)
        const isPlain = table.catalog === '' && table.schema === '' && !isCte(table)
        if (isPlain)
          found.push({ at: offsetAt(node.query_location), kind: null, name: table.name, isAliased })
      }
    })
  if (found.length === 0) return []
  const tokens = tokensOf(sql)
  const values = parameterValues(tokens, parameters)
  return found
    .flatMap(({ at, kind, name, isAliased }) =>
      kind === null
        ? pathAt(tokens, at, { path: name, isAliased })
        : callAt(tokens, at, { kind, name, sql, values }),
    )
    .sort((one, other) => other.start - one.start)
}

/** A quoted path in place of a table, as a call. */
function pathAt(
  tokens: readonly Token[],
  at: number,
  { path, isAliased }: { path: string; isAliased: boolean },
): ReaderCall[] {
  const name = READERS_OF_PATHS.find(([pattern]) => pattern.test(path))?.[1]
  const kind = name === undefined ? undefined : READERS.get(name)
  const index = tokens.findIndex((token) => token.at === at)
  const token = tokens[index]
  // SUMMARIZE and DESCRIBE accept a path, but no call.
  const before = tokens[index - 1]?.text.toLowerCase() ?? ''
  if (name === undefined || kind === undefined || token === undefined) return []
  if (!['from', 'join', ',', '('].includes(before)) return []
  // The engine names such a table after its file, unless the path is a pattern.
  const alias = isAliased || /[*?[\]{}]/.test(path) ? null : (path.split('/').at(-1)?.split('.')[0] ?? null)
  const end = at + token.text.length
  return [
    {
      kind,
      name,
      arguments: [{ name: null, text: quoteLiteral(path) }],
      start: at,
      close: end,
      end,
      alias,
      paths: null,
    },
  ]
}

function callAt(
  tokens: readonly Token[],
  at: number,
  {
    kind,
    name,
    sql,
    values,
  }: { kind: ReaderKind; name: string; sql: string; values: ReadonlyMap<number, string> },
): ReaderCall[] {
  const open = tokens.findIndex((token) => token.at >= at && token.text === '(')
  if (open === -1) return []
  const parts: Token[][] = [[]]
  let depth = 0
  for (const token of tokens.slice(open + 1)) {
    if (depth === 0 && token.text === ')') {
      const written = parts.filter((part) => part.length > 0).map((part) => argumentOf(part, sql, values))
      const end = token.at + 1
      const paths = placeOfPaths(
        parts.filter((part) => part.length > 0)[written.findIndex((each) => each.name === null)],
      )
      return [{ kind, name, arguments: written, start: at, close: token.at, end, alias: null, paths }]
    }
    if (depth === 0 && token.text === ',') {
      parts.push([])
      continue
    }
    if ('([{'.includes(token.text)) depth += 1
    if (')]}'.includes(token.text)) depth -= 1
    parts.at(-1)?.push(token)
  }
  return []
}

function placeOfPaths(part: readonly Token[] | undefined) {
  const [first, last] = [part?.[0], part?.at(-1)]
  return first && last ? { start: first.at, end: last.at + last.text.length } : null
}

/** `name = value`, `name := value`, `name => value`, or a value. */
function argumentOf(part: readonly Token[], sql: string, values: ReadonlyMap<number, string>): Argument {
  const [first, second, third] = part
  const signs = `${second?.text ?? ''}${third?.text ?? ''}`
  const length = signs.startsWith(':=') || signs.startsWith('=>') ? 3 : second?.text === '=' ? 2 : 0
  const isNamed = first?.name !== undefined && length > 0
  const value = isNamed ? part.slice(length) : part
  const start = value[0]?.at ?? 0
  const last = value.at(-1)
  let text = ''
  let from = start
  for (const token of value) {
    const bound = values.get(token.at)
    if (bound === undefined) continue
    text += sql.slice(from, token.at) + bound
    // The name of a parameter is a token of its own.
    from = (token.text === '$' ? (value[value.indexOf(token) + 1] ?? token) : token).at
    from += token.text === '$' ? (value[value.indexOf(token) + 1]?.text.length ?? 0) : token.text.length
  }
  text += sql.slice(from, last === undefined ? start : last.at + last.text.length)
  return { name: isNamed ? (first?.name ?? '').toLowerCase() : null, text }
}

/** The value of each parameter, by the position of its token. */
function parameterValues(
  tokens: readonly Token[],
  parameters: ReadonlyMap<string, string>,
): ReadonlyMap<number, string> {
  const values = new Map<number, string>()
  if (parameters.size === 0) return values
  let count = 0
  for (const [index, { at, text }] of tokens.entries()) {
    if (text !== '?' && text !== '$') continue
    if (text === '?') count += 1
    const value = parameters.get(text === '?' ? String(count) : (tokens[index + 1]?.text ?? ''))
    if (value !== undefined) values.set(at, value)
  }
  return values
}

/** The call with other arguments, for queries of the runner. An argument with the value null is left out. */
export function callWith(call: ReaderCall, more: Readonly<Record<string, string | null>>): string {
  const kept = call.arguments.filter(({ name }) => name === null || !(name in more))
  const added = Object.entries(more).flatMap(([name, text]) => (text === null ? [] : { name, text }))
  const all = [...kept, ...added].map(({ name, text }) => (name === null ? text : `${name}=${text}`))
  return `${call.name}(${all.join(', ')})`
}

/** The call with one of its files. */
export const ofFile = (call: ReaderCall, file: string): ReaderCall => withPaths(call, quoteLiteral(file))
/** The call with some of its files. */
export const ofFiles = (call: ReaderCall, files: readonly string[]): ReaderCall =>
  withPaths(call, quoteList(files))

const withPaths = (call: ReaderCall, text: string): ReaderCall => ({
  ...call,
  arguments: [{ name: null, text }, ...call.arguments.filter(({ name }) => name !== null)],
})

/** The changes of a call: arguments that it gets, and the files that it keeps. Null: it keeps all files. */
export interface Changes {
  more: Readonly<Record<string, string>>
  files: readonly string[] | null
}

/** The text with changes in one call. The number of lines stays the same. */
export function extended(sql: string, call: ReaderCall, { more, files }: Changes): string {
  const added = Object.entries(more).map(([name, text]) => `${name}=${text}`)
  const { start, close, end, alias, paths } = call
  if (close !== end) {
    const list = added.map((each) => `, ${each}`).join('')
    const rest = list + sql.slice(close)
    if (files === null || paths === null) return sql.slice(0, close) + rest
    const lines = sql.slice(paths.start, paths.end).split('\n').length
    const listed = quoteList(files) + '\n'.repeat(lines - 1)
    return sql.slice(0, paths.start) + listed + sql.slice(paths.end, close) + rest
  }
  const name = alias === null ? '' : ` AS ${quoteIdentifier(alias)}`
  const kept = files === null ? call : ofFiles(call, files)
  return sql.slice(0, start) + callWith(kept, more) + name + sql.slice(end)
}

/** The text of a named argument; undefined: the author did not write it. */
export const argument = (call: ReaderCall, ...names: string[]): string | undefined =>
  call.arguments.find(({ name }) => name !== null && names.includes(name))?.text

/** True if the engine chooses the types: it does, unless the author writes `auto_detect=false`. */
export const isDetecting = (call: ReaderCall): boolean => {
  const written = argument(call, 'auto_detect')?.replaceAll("'", '').toLowerCase()
  return written === undefined || written === 'true' || written === '1'
}

/** The files of the call, as the author wrote them. */
export const pathsArgument = (call: ReaderCall): string | undefined =>
  call.arguments.find(({ name }) => name === null)?.text

/** True if the call stores rejected rows in a table. The engine cannot unite files by name then. */
export const storesRejects = (call: ReaderCall): boolean =>
  argument(call, 'store_rejects', 'rejects_table', 'rejects_scan') !== undefined

/** True if the call may get `union_by_name`. */
export const canUnite = (call: ReaderCall): boolean =>
  argument(call, 'union_by_name') === undefined && !storesRejects(call)
