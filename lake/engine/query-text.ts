/** Faults and table names that the engine's parser finds in one query. Nothing is bound or run. */
import type { DuckDBConnection } from '@duckdb/node-api'
import { mapped } from './error.ts'
import {
  foldName,
  isObject,
  type JsonObject,
  offsetOf,
  type SyntaxFault,
  treeOn,
  tryParse,
} from './parser.ts'
import { referenceOf, splitStatements, type TableReference, visitTree } from './statement.ts'

/** A table as written, and the offset in the text where it is. */
export interface WrittenTable extends TableReference {
  at: number
}

/** `fault`: why the text is no query; null: it is one. */
export interface QueryText {
  fault: SyntaxFault | null
  /** Every table named, CTEs and the engine's own tables left out. */
  tables: WrittenTable[]
}

/** Reads a text. `connection` may be one that runs nothing. */
export async function readQueryText(connection: DuckDBConnection, sql: string): Promise<QueryText> {
  const { parsed, quoted } = await parseQuoted(connection, sql)
  if (parsed === undefined) return faulty(await notQuery(connection, sql))
  if (!Array.isArray(parsed)) return faulty(parsed)
  const [statement, second] = parsed
  if (statement === undefined) return faulty({ message: 'there is no SELECT statement', at: undefined })
  if (second !== undefined) return faulty(tooMany(sql, parsed.length))
  if (isListing(statement) && !(await isViewBody(connection, sql))) return faulty(notSelect(sql))
  const own = await ownTables(connection)
  const tables = tablesIn(statement, sql).map((table) =>
    quoted.has(table.at) ? { ...table, catalog: DEFAULT } : table,
  )
  return { fault: null, tables: tables.filter((table) => !isOwn(table, own)) }
}

const faulty = (fault: SyntaxFault): QueryText => ({ fault, tables: [] })

const DEFAULT = 'default'
/** As long as the word it stands for, so that offsets stay the same. */
const STAND_IN = '_efault'
/** Times that a text is parsed anew. */
const QUOTED_MAX = 100

/** `default` is a word of SQL and the name of a namespace: where a dot follows it is read as a name. */
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
  const word = /^[a-z]+/i.exec(statement?.text ?? '')?.[0].toUpperCase() ?? 'this'
  return { message: `only a SELECT can be run, not ${word}`, at: statement?.at }
}

/** DESCRIBE, SUMMARIZE and SHOW are SELECTs to the parser, but only in parentheses can they stand where a query does. */
const isListing = ({ node }: JsonObject) =>
  isObject(node) && isObject(node.from_table) && node.from_table.type === 'SHOW_REF'

/** Runs make a view of a query. The text is parsed and not executed. */
const isViewBody = (connection: DuckDBConnection, sql: string): Promise<boolean> =>
  connection.extractStatements(`CREATE TEMP VIEW query AS\n${sql}`).then(
    () => true,
    () => false,
  )

/** The engine's parser makes two statements of a PIVOT without values: the first one finds them. */
function tooMany(sql: string, count: number): SyntaxFault {
  const statements = splitStatements(sql)
  const hint = /\bpivot\b/i.test(sql) ? ' (a PIVOT has to name its values: ON column IN (...))' : ''
  return {
    message: `one SELECT statement is expected, not ${count}${hint}`,
    at: (statements[1] ?? statements[0])?.at,
  }
}

function tablesIn(statement: JsonObject, sql: string): WrittenTable[] {
  const tables: WrittenTable[] = []
  visitTree(statement, (node, isCte) => {
    if (node.type !== 'BASE_TABLE') return
    const table = referenceOf(node)
    const at = offsetOf(sql, Number(node.query_location ?? 0))
    if (!isCte(table)) tables.push({ ...table, at })
  })
  return tables.sort((a, b) => a.at - b.at)
}

/** Names of the views that the engine has itself, in lower case. */
async function ownTables(connection: DuckDBConnection): Promise<ReadonlySet<string>> {
  const found = await mapped(() =>
    connection.runAndReadAll(
      `SELECT DISTINCT lower(view_name) FROM duckdb_views() WHERE internal AND schema_name IN ('main', 'pg_catalog')`,
    ),
  )
  return new Set(found.getRows().map(([name]) => String(name)))
}

const OWN_SCHEMAS: ReadonlySet<string> = new Set(['information_schema', 'pg_catalog'])

const isOwn = ({ schema, name }: TableReference, own: ReadonlySet<string>) =>
  OWN_SCHEMAS.has(foldName(schema)) || (schema === '' && own.has(foldName(name)))
