// Finds the syntax errors and table names of one query with the engine's parser, without binding or running the query.
import type { DuckDBConnection } from '@duckdb/node-api'
import { mapped } from './error.ts'
import {
  foldName,
  isObject,
  type JsonObject,
  offsetCounter,
  type SyntaxFault,
  treeOn,
  tryParse,
} from './parser.ts'
import { referenceOf, splitStatements, type TableReference, visitTree } from './statement.ts'

/** A table reference with its offset in the text. */
export interface WrittenTable extends TableReference {
  at: number
}

/** `fault` says why the text is not a query, and is null for a query. */
interface QueryText {
  fault: SyntaxFault | null
  /** Every table that the query names, except CTEs and the engine's own tables. */
  tables: WrittenTable[]
}

/** Reads a text without running it. */
export async function readQueryText(connection: DuckDBConnection, sql: string): Promise<QueryText> {
  const { parsed, quoted } = await parseQuoted(connection, sql)
  if (parsed === undefined) return faulty(await notQuery(connection, sql))
  if (!Array.isArray(parsed)) return faulty(parsed)
  const [statement, second] = parsed
  if (statement === undefined) return faulty({ message: 'there is no SELECT statement', at: undefined })
  if (second !== undefined) return faulty(tooMany(sql, parsed.length))
  if (isListing(statement) && !(await isViewBody(connection, sql))) return faulty(notSelect(sql))
  const builtIns = await builtInTables(connection)
  const tables = tablesIn(statement, sql).map((table) =>
    quoted.has(table.at) ? { ...table, catalog: DEFAULT } : table,
  )
  return { fault: null, tables: tables.filter((table) => !isBuiltIn(table, builtIns)) }
}

const faulty = (fault: SyntaxFault): QueryText => ({ fault, tables: [] })

const DEFAULT = 'default'
/** Has the length of the replaced word, so that offsets stay the same. */
const STAND_IN = '_efault'
/** The largest number of times that a text is parsed again. */
const QUOTED_MAX = 100

/** `default` is a keyword of SQL and also the name of a namespace. Before a dot it is parsed as a name. */
async function parseQuoted(connection: DuckDBConnection, sql: string) {
  const quoted = new Set<number>()
  let text = sql
  for (;;) {
    const parsed = await tryParse(treeOn(connection), text)
    const at = parsed === undefined || Array.isArray(parsed) ? undefined : parsed.at
    if (at === undefined || quoted.size === QUOTED_MAX || !isNamespace(text, at)) return { parsed, quoted }
    quoted.add(at)
    text = text.slice(0, at) + STAND_IN + text.slice(at + STAND_IN.length)
  }
}

const isNamespace = (sql: string, at: number) => {
  const end = at + DEFAULT.length
  return foldName(sql.slice(at, end)) === DEFAULT && sql.slice(end).trimStart().startsWith('.')
}

async function notQuery(connection: DuckDBConnection, sql: string): Promise<SyntaxFault> {
  const { count } = await mapped(() => connection.extractStatements(sql))
  return count === 1 ? notSelect(sql) : tooMany(sql, count)
}

function notSelect(sql: string): SyntaxFault {
  const [statement] = splitStatements(sql)
  const word = /^[a-z]+/i.exec(statement?.text ?? '')?.[0].toUpperCase() ?? 'this text'
  return { message: `only a SELECT can be run, not ${word}`, at: statement?.at }
}

/** The parser treats DESCRIBE, SUMMARIZE and SHOW as SELECT, but they can replace a query only in parentheses. */
const isListing = ({ node }: JsonObject) =>
  isObject(node) && isObject(node.from_table) && node.from_table.type === 'SHOW_REF'

/**
 * Whether the text can be the body of a view, because a run creates a view of the query. The text is parsed and not executed.
 */
const isViewBody = (connection: DuckDBConnection, sql: string): Promise<boolean> =>
  connection.extractStatements(`CREATE TEMP VIEW query AS\n${sql}`).then(
    () => true,
    () => false,
  )

/** The engine's parser makes two statements of a PIVOT without values: the first one finds the values. */
function tooMany(sql: string, count: number): SyntaxFault {
  const statements = splitStatements(sql)
  const hint = /\bpivot\b/i.test(sql) ? ' (a PIVOT has to name its values: ON column IN (...))' : ''
  return {
    message: `one SELECT statement is expected, not ${count}${hint}`,
    at: (statements[1] ?? statements[0])?.at,
  }
}

function tablesIn(statement: JsonObject, sql: string): WrittenTable[] {
  const tables: (TableReference & { byte: number })[] = []
  visitTree(statement, (node, isCte) => {
    if (node.type !== 'BASE_TABLE') return
    const table = referenceOf(node)
    if (!isCte(table)) tables.push({ ...table, byte: Number(node.query_location ?? 0) })
  })
  const offsetOf = offsetCounter(sql)
  return tables
    .sort((a, b) => a.byte - b.byte)
    .map(({ byte, ...table }) => ({ ...table, at: offsetOf(byte) }))
}

/** Names of the engine's built-in views, in lower case. */
async function builtInTables(connection: DuckDBConnection): Promise<ReadonlySet<string>> {
  const reader = await mapped(() =>
    connection.runAndReadAll(
      `SELECT DISTINCT lower(view_name) FROM duckdb_views() WHERE internal AND schema_name IN ('main', 'pg_catalog')`,
    ),
  )
  return new Set(reader.getRows().map(([name]) => String(name)))
}

const BUILT_IN_SCHEMAS: ReadonlySet<string> = new Set(['information_schema', 'pg_catalog'])

const isBuiltIn = ({ schema, name }: TableReference, builtIns: ReadonlySet<string>) =>
  BUILT_IN_SCHEMAS.has(foldName(schema)) || (schema === '' && builtIns.has(foldName(name)))
