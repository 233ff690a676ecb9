// Classifies a SQL text with the engine's own parser, never by pattern matching. A query of a user must be one statement that
// only reads. It may name only allowed tables, and may call only functions that compute. The locked instance is the second
// barrier.
import { EngineError } from './error.ts'
import { foldName, isObject, type Json, type JsonObject, parse, type SyntaxTree } from './parser.ts'
import { afterBlanks, tokensOf } from './tokens.ts'

/** A table as written. Omitted parts are empty. */
export interface TableReference {
  catalog: string
  schema: string
  name: string
}

interface ReadStatement {
  /** The checked text, which the caller runs. */
  sql: string
  kind: 'select' | 'explain'
  /** Every table that the statement reads, each once, without CTEs. */
  tables: TableReference[]
  /** The statement lists the existing tables (SHOW TABLES, information_schema), so the engine must know all of them. */
  listsTables: boolean
  /** The statement calls setseed(), which determines later random numbers. */
  setsSeed: boolean
  /** The statement may mean something else a moment later, because it names the current time or transaction. */
  isMomentary: boolean
}

/** The statement parses, but it is not allowed. */
export class StatementRefused extends Error {
  override readonly name = 'StatementRefused'
}

interface ReadRules {
  /** Whether a query may read a table. Without this rule every table may be read. */
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
 * Scalar functions that reveal process state, write to its log or plan another SQL text. Also macros that read the engine's own
 * tables or wait: the parser's tree does not show their bodies.
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

/**
 * Functions and macros whose value depends on the time or the transaction of the call. The engine computes them while it plans.
 * Some can be written like a column.
 */
export const MOMENTARY_NAMES: ReadonlySet<string> = new Set([
  'age',
  'ago',
  'current_date',
  'current_localtime',
  'current_localtimestamp',
  'current_time',
  'current_timestamp',
  'get_current_time',
  'get_current_timestamp',
  'localtime',
  'localtimestamp',
  'now',
  'pg_conf_load_time',
  'pg_postmaster_start_time',
  'today',
  'transaction_timestamp',
  'txid_current',
])

/** Clients need these views to find tables. The other views of these schemas reveal files and settings. */
const INFORMATION_TABLES: ReadonlySet<string> = new Set(['tables', 'columns', 'schemata'])
/** The parser's names for SHOW TABLES, and for SHOW ALL TABLES or a bare DESCRIBE. */
const LISTINGS: ReadonlySet<string> = new Set(['"tables"', '__show_tables_expanded'])

const ALLOWED = 'only one SELECT, EXPLAIN, DESCRIBE or SHOW statement is allowed'

/**
 * Checks that a text is one read-only statement, and returns the statement. The engine only parses, so the tables need not
 * exist. Throws `EngineError` (syntax) or `StatementRefused`.
 */
export async function checkReadOnly(
  tree: SyntaxTree,
  sql: string,
  rules: ReadRules = {},
): Promise<ReadStatement> {
  const { functions, ...statement } = await readStatement(tree, sql, rules)
  return { ...statement, setsSeed: functions.has('setseed') }
}

/** Like `checkReadOnly`, but returns the names of all called functions, in lower case. */
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

/** Limits the rows of a checked statement and preserves their order. EXPLAIN stays unchanged, because its output is short. */
export function limited({ sql, kind }: Pick<ReadStatement, 'sql' | 'kind'>, rowsLimit: number): string {
  if (kind === 'explain') return sql
  const [text = sql] = splitStatements(sql).map((statement) => statement.text)
  // The line breaks end a comment at the end of the statement.
  return `SELECT * FROM (\n${text}\n) LIMIT ${rowsLimit}`
}

/**
 * Corrects the line numbers in an engine error of a limited statement, which begins on the second line of the executed text.
 */
export function withOwnLines(error: unknown, { kind }: Pick<ReadStatement, 'kind'>): unknown {
  if (kind === 'explain' || !(error instanceof EngineError) || error.line === undefined) return error
  const message = error.message.replace(/^LINE (\d+): /m, (_, line) => `LINE ${Number(line) - 1}: `)
  return new EngineError(error.kind, message, error.line - 1, { cause: error })
}

/** Names of CTEs that are visible in a part of the tree, innermost first. */
type Scope = { name: string; outer: Scope } | undefined

const isInScope = (scope: Scope, name: string): boolean => {
  for (let at = scope; at !== undefined; at = at.outer) if (at.name === foldName(name)) return true
  return false
}

/** Keys of a tree node that hold its sources of rows. */
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
): Pick<ReadStatement, 'tables' | 'listsTables' | 'isMomentary'> & { functions: ReadonlySet<string> } {
  const tables = new Map<string, TableReference>()
  let listsTables = false
  let isMomentary = false
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
    if (MOMENTARY_NAMES.has(columnOf(node))) isMomentary = true
  })
  isMomentary ||= !functions.isDisjointFrom(MOMENTARY_NAMES)
  return { tables: [...tables.values()], listsTables, isMomentary, functions }
}

/** Visits every node of a statement's tree. `isCte` says whether a table name refers to a CTE at that node. */
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
      // The first part of a recursive query does not see its own name: the name means a table or a file there.
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

/** Refuses functions that are not known to be harmless, and unknown kinds of row sources. */
function checkNode(node: JsonObject): void {
  for (const key of FROM_KEYS) {
    const source = node[key]
    if (!isObject(source) || (key !== 'from_table' && node.type !== 'JOIN' && node.type !== 'PIVOT')) continue
    if (!FROM_TYPES.has(source.type))
      throw new StatementRefused(`a row source of type ${textOf(source.type)} is not allowed in a query`)
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

/** The lower-case name of the scalar function that a node calls. */
const functionOf = (node: JsonObject): string =>
  node.class === 'FUNCTION' ? textOf(node.function_name).toLowerCase() : ''

/** The lower-case name of a column that a node names without its table. */
const columnOf = ({ column_names: names }: JsonObject): string =>
  Array.isArray(names) && names.length === 1 ? textOf(names[0]).toLowerCase() : ''

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

const nameOf = ({ catalog, schema, name }: TableReference): string =>
  [catalog, schema, name].filter((part) => part !== '').join('.')

export const textOf = (value: Json | undefined): string => (typeof value === 'string' ? value : '')

/** Only this message uses pattern matching: the statement is already refused. */
function refusal(sql: string): string {
  const word = /[A-Za-z]+/.exec(sql.slice(afterBlanks(sql, 0)))?.[0].toUpperCase() ?? 'this text'
  if (/\bPIVOT\b/i.test(sql)) return `${ALLOWED}; a PIVOT needs its values: PIVOT ... ON column IN (...)`
  return `${word} is not allowed: ${ALLOWED}`
}

/**
 * The parser's trees do not represent EXPLAIN, so it is removed before the check and added again afterwards. Only this prefix
 * and the checked text run, however the text was split.
 */
function splitExplain(sql: string): { prefix: string; body: string } | undefined {
  const word = wordAt(sql, afterBlanks(sql, 0))
  if (word?.text !== 'EXPLAIN') return undefined
  const second = wordAt(sql, afterBlanks(sql, word.end))
  if (second?.text === 'ANALYZE') return { prefix: 'EXPLAIN ANALYZE', body: sql.slice(second.end) }
  return { prefix: 'EXPLAIN', body: sql.slice(word.end) }
}

function wordAt(sql: string, at: number): { text: string; end: number } | undefined {
  const match = /^[A-Za-z_]+/.exec(sql.slice(at, at + 32))
  return match === null ? undefined : { text: match[0].toUpperCase(), end: at + match[0].length }
}

/** Splits a text at the semicolons between statements. `at` is the offset of a statement in the text. */
export function splitStatements(sql: string): { text: string; at: number }[] {
  const statements: { text: string; at: number }[] = []
  let start: number | undefined
  const end = (at: number) => {
    if (start !== undefined) statements.push({ text: sql.slice(start, at).trimEnd(), at: start })
    start = undefined
  }
  for (const { at, text } of tokensOf(sql)) {
    if (text === ';') end(at)
    else start ??= at
  }
  end(sql.length)
  return statements
}
