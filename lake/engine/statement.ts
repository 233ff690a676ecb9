/**
 * What a SQL text is, by the engine's own parser: never by pattern matching. A query of a user must be one statement
 * that reads, only tables it is told of, and only functions that compute; the locked instance is the second wall.
 */
import { EngineError } from './error.ts'
import { foldName, isObject, type Json, type JsonObject, parse, type SyntaxTree } from './parser.ts'

/** A table as written; parts that were not written are empty. */
export interface TableReference {
  catalog: string
  schema: string
  name: string
}

export interface ReadStatement {
  /** What to run: the text that was checked. */
  sql: string
  kind: 'select' | 'explain'
  /** Every table it reads, CTEs left out, each once. */
  tables: TableReference[]
  /** It lists what tables there are (SHOW TABLES, information_schema): all of them should be there to see. */
  listsTables: boolean
  /** It decides what random numbers come next. */
  setsSeed: boolean
}

/** A statement that parses and may not run. */
export class StatementRefused extends Error {
  override readonly name = 'StatementRefused'
}

export interface ReadRules {
  /** Whether a table a query names may be read; left out, every table may. */
  isTable?: (table: TableReference) => boolean
}

/** Table functions that compute from their arguments alone. Any other one can reach files, settings or SQL texts. */
const TABLE_FUNCTIONS: ReadonlySet<string> = new Set([
  'range',
  'generate_series',
  'unnest',
  'repeat',
  'repeat_row',
  'json_each',
  'json_tree',
  'icu_calendar_names',
  'pg_timezone_names',
])

/**
 * Scalar functions that say something of the process, write to its log or plan another SQL text; and macros, whose
 * bodies the parser's tree does not show, that read the engine's own tables or wait.
 */
const REFUSED_FUNCTIONS: ReadonlySet<string> = new Set([
  'current_setting',
  'getenv',
  'getvariable',
  'json_serialize_plan',
  'write_log',
  'nextval',
  'currval',
  'sleep_ms',
  'pg_sleep',
  'pg_get_viewdef',
  'pg_get_constraintdef',
  'get_block_size',
])

/** What a client needs to find tables; the rest of these schemas tells of files and settings. */
const INFORMATION_TABLES: ReadonlySet<string> = new Set(['tables', 'columns', 'schemata'])
/** The parser's names for SHOW TABLES and for SHOW ALL TABLES, DESCRIBE alone. */
const LISTINGS: ReadonlySet<string> = new Set(['"tables"', '__show_tables_expanded'])

const ALLOWED = 'only one SELECT, EXPLAIN, DESCRIBE or SHOW statement is allowed'

/**
 * The one read-only statement of a text, checked. The engine only parses: no table needs to be there.
 * Throws `EngineError` (syntax) or `StatementRefused`.
 */
export async function checkReadOnly(
  tree: SyntaxTree,
  sql: string,
  rules: ReadRules = {},
): Promise<ReadStatement> {
  const { functions, ...statement } = await readStatement(tree, sql, rules)
  return { ...statement, setsSeed: functions.has('setseed') }
}

/** The same, with the names of all functions that it calls on values, in lower case. */
export async function readStatement(
  tree: SyntaxTree,
  sql: string,
  rules: ReadRules = {},
): Promise<Omit<ReadStatement, 'setsSeed'> & { functions: ReadonlySet<string> }> {
  const explain = splitExplain(sql)
  const body = explain?.body ?? sql
  const parsed = await parse(tree, body)
  if (parsed === undefined) throw new StatementRefused(refusal(body))
  const [statement] = parsed
  if (statement === undefined) throw new StatementRefused(`there is no statement: ${ALLOWED}`)
  if (parsed.length > 1) throw new StatementRefused(`there are ${parsed.length} statements: ${ALLOWED}`)
  const found = readTree(statement)
  for (const table of found.tables)
    if (rules.isTable?.(table) === false) throw new StatementRefused(`there is no table ${nameOf(table)}`)
  return {
    ...found,
    kind: explain === undefined ? 'select' : 'explain',
    sql: explain === undefined ? sql : `${explain.prefix} ${body}`,
  }
}

/** The SQL that gives at most so many rows of a checked statement, in its order; EXPLAIN is short as it is. */
export function limited({ sql, kind }: Pick<ReadStatement, 'sql' | 'kind'>, rowsLimit: number): string {
  if (kind === 'explain') return sql
  const [text = sql] = splitStatements(sql).map((statement) => statement.text)
  // The line breaks end a comment that the statement ends with.
  return `SELECT * FROM (\n${text}\n) LIMIT ${rowsLimit}`
}

/** What the engine said of a limited statement, with the lines of the statement itself: it begins on the second one. */
export function withOwnLines(error: unknown, { kind }: Pick<ReadStatement, 'kind'>): unknown {
  if (kind === 'explain' || !(error instanceof EngineError) || error.line === undefined) return error
  const message = error.message.replace(/^LINE (\d+): /m, (_, line) => `LINE ${Number(line) - 1}: `)
  return new EngineError(error.kind, message, error.line - 1, { cause: error })
}

/** Names of CTEs that a part of the tree sees, innermost first. */
type Scope = { name: string; outer: Scope } | undefined

const isInScope = (scope: Scope, name: string): boolean => {
  for (let at = scope; at !== undefined; at = at.outer) if (at.name === foldName(name)) return true
  return false
}

/** Where a tree names what it reads from. */
const FROM_KEYS = ['from_table', 'left', 'right', 'source'] as const
const FROM_TYPES: ReadonlySet<Json | undefined> = new Set([
  'EMPTY',
  'BASE_TABLE',
  'JOIN',
  'SUBQUERY',
  'TABLE_FUNCTION',
  'EXPRESSION_LIST',
  'PIVOT',
  'SHOW_REF',
])

function readTree(
  statement: JsonObject,
): Pick<ReadStatement, 'tables' | 'listsTables'> & { functions: ReadonlySet<string> } {
  const tables = new Map<string, TableReference>()
  let listsTables = false
  const functions = new Set<string>()
  visitTree(statement, (node, isCte) => {
    if (node.type === 'BASE_TABLE') {
      const table = referenceOf(node)
      if (isInformation(table)) listsTables = true
      else if (!isCte(table)) tables.set(foldName(nameOf(table)), table)
    } else if (node.type === 'SHOW_REF' && !isObject(node.query)) {
      checkListing(node)
      listsTables = true
    } else checkNode(node)
    if (textOf(node.function_name) !== '') functions.add(textOf(node.function_name).toLowerCase())
  })
  return { tables: [...tables.values()], listsTables, functions }
}

/** Visits every node of a statement's tree. `isCte` says whether a table's name means a CTE where the node stands. */
export function visitTree(
  statement: JsonObject,
  visit: (node: JsonObject, isCte: (table: TableReference) => boolean) => void,
): void {
  const open: { node: Json; scope: Scope }[] = [{ node: statement, scope: undefined }]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { node } = next
    let { scope } = next
    if (Array.isArray(node)) {
      for (const child of node) open.push({ node: child, scope })
      continue
    }
    if (!isObject(node)) continue
    if (isObject(node.cte_map)) {
      for (const { name, query } of ctesOf(node.cte_map)) {
        open.push({ node: query, scope })
        scope = { name, outer: scope }
      }
    }
    const inner = scope
    visit(node, ({ catalog, schema, name }) => catalog === '' && schema === '' && isInScope(inner, name))
    for (const [key, child] of Object.entries(node)) {
      if (key === 'cte_map') continue
      // What a recursive query begins with does not see itself: the name means a table there, or a file.
      const seesItself = node.type === 'RECURSIVE_CTE_NODE' && key === 'right'
      open.push({
        node: child,
        scope: seesItself ? { name: foldName(textOf(node.cte_name)), outer: scope } : scope,
      })
    }
  }
}

function ctesOf(map: JsonObject): { name: string; query: Json }[] {
  const entries = Array.isArray(map.map) ? map.map.filter(isObject) : []
  return entries.map(({ key, value }) => ({ name: foldName(textOf(key)), query: value ?? null }))
}

/** Refuses functions that are not known to be harmless, and sources of rows of a kind not known at all. */
function checkNode(node: JsonObject): void {
  for (const key of FROM_KEYS) {
    const source = node[key]
    if (!isObject(source) || (key !== 'from_table' && node.type !== 'JOIN' && node.type !== 'PIVOT')) continue
    if (!FROM_TYPES.has(source.type))
      throw new StatementRefused(`${textOf(source.type)} is not allowed in a query`)
  }
  if (node.type === 'TABLE_FUNCTION') {
    const name = isObject(node.function) ? textOf(node.function.function_name) : ''
    if (!TABLE_FUNCTIONS.has(name.toLowerCase()))
      throw new StatementRefused(
        `the table function ${name}() is not allowed in a query: read tables by their name`,
      )
  } else if (REFUSED_FUNCTIONS.has(functionOf(node)))
    throw new StatementRefused(`the function ${textOf(node.function_name)}() is not allowed in a query`)
  if (node.class === 'PARAMETER') throw new StatementRefused('parameters are not allowed in a query')
}

/** The scalar function that a node calls, in lower case. */
const functionOf = (node: JsonObject): string =>
  node.class === 'FUNCTION' ? textOf(node.function_name).toLowerCase() : ''

function checkListing(node: JsonObject): void {
  if (node.show_type === 'SHOW_FROM' || LISTINGS.has(textOf(node.table_name))) return
  throw new StatementRefused(`SHOW ${textOf(node.table_name)} is not allowed in a query`)
}

const isInformation = ({ schema, name }: TableReference): boolean =>
  schema.toLowerCase() === 'information_schema' && INFORMATION_TABLES.has(name.toLowerCase())

export const referenceOf = (node: JsonObject): TableReference => ({
  catalog: textOf(node.catalog_name),
  schema: textOf(node.schema_name),
  name: textOf(node.table_name),
})

export const nameOf = ({ catalog, schema, name }: TableReference): string =>
  [catalog, schema, name].filter((part) => part !== '').join('.')

export const textOf = (value: Json | undefined): string => (typeof value === 'string' ? value : '')

/** The message alone is by pattern: what may run has been decided. */
function refusal(sql: string): string {
  const word = /[A-Za-z]+/.exec(sql.slice(skipBlank(sql, 0)))?.[0].toUpperCase() ?? 'this'
  if (/\bPIVOT\b/i.test(sql)) return `${ALLOWED}; a PIVOT needs its values: PIVOT ... ON column IN (...)`
  return `${word} is not allowed: ${ALLOWED}`
}

/**
 * EXPLAIN is not in the parser's trees, so it is taken off and put back: what runs is this prefix and the text that
 * was checked, whatever the text did to the splitting.
 */
function splitExplain(sql: string): { prefix: string; body: string } | undefined {
  const word = wordAt(sql, skipBlank(sql, 0))
  if (word?.text !== 'EXPLAIN') return undefined
  const second = wordAt(sql, skipBlank(sql, word.end))
  if (second?.text === 'ANALYZE') return { prefix: 'EXPLAIN ANALYZE', body: sql.slice(second.end) }
  return { prefix: 'EXPLAIN', body: sql.slice(word.end) }
}

function wordAt(sql: string, at: number): { text: string; end: number } | undefined {
  const match = /^[A-Za-z_]+/.exec(sql.slice(at, at + 32))
  return match === null ? undefined : { text: match[0].toUpperCase(), end: at + match[0].length }
}

const BLANK = /\s+|--[^\n]*|\/\*[\s\S]*?\*\//y

function skipBlank(sql: string, start: number): number {
  let at = start
  for (;;) {
    BLANK.lastIndex = at
    const match = BLANK.exec(sql)
    if (match === null) return at
    at += match[0].length
  }
}

/** A quoted text (with escapes after E), a quoted name, a dollar-quoted text, a comment, or the end of a statement. */
const PIECE =
  /[eE]'(?:[^'\\]|\\[\s\S]|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|\$([A-Za-z_]\w*)?\$|--[^\n]*|\/\*|;/g

/** Cuts at the semicolons between statements. `at`: where a statement begins in the text. */
export function splitStatements(sql: string): { text: string; at: number }[] {
  const pieces: { text: string; at: number }[] = []
  let start = 0
  let at = 0
  for (;;) {
    PIECE.lastIndex = at
    const piece = PIECE.exec(sql)
    if (piece === null) break
    at = piece.index + piece[0].length
    if (piece[0] === ';') {
      pieces.push({ text: sql.slice(start, piece.index), at: start })
      start = at
    } else if (piece[0] === '/*') at = after(sql, '*/', at)
    else if (piece[0].startsWith('$')) at = after(sql, piece[0], at)
  }
  pieces.push({ text: sql.slice(start), at: start })
  return pieces.flatMap(({ text, at }) => {
    const blank = skipBlank(text, 0)
    const own = text.slice(blank).trimEnd()
    return own === '' ? [] : [{ text: own, at: at + blank }]
  })
}

function after(sql: string, closing: string, from: number): number {
  const index = sql.indexOf(closing, from)
  return index === -1 ? sql.length : index + closing.length
}
