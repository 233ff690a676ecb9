/**
 * What an author's SELECT may not call, in an engine that is locked already: a SELECT can do more than read data. It is told
 * from the engine's own tree of the text.
 */
import type { DuckDBConnection } from '@duckdb/node-api'
import { foldName, isObject, type Json, type JsonObject, parse, treeOn } from './parser.ts'
import { StatementRefused, textOf } from './statement.ts'

/**
 * Functions that change the engine, write files (a log), call what addresses point to, or plan another SQL text, which
 * could name all of these.
 */
const ACTING_FUNCTIONS = [
  'arrow_scan',
  'arrow_scan_dumb',
  'check_peg_parser',
  'checkpoint',
  'disable_logging',
  'disable_peg_parser',
  'disable_profiling',
  'enable_logging',
  'enable_peg_parser',
  'enable_profiling',
  'force_checkpoint',
  'json_execute_serialized_sql',
  'json_serialize_plan',
  'query',
  'query_table',
  'truncate_duckdb_logs',
  'write_log',
]

/** Functions that tell of the engine: its settings, and the files behind its tables by their paths on this machine. */
const TELLING_FUNCTIONS = [
  'current_setting',
  'duckdb_external_file_cache',
  'duckdb_settings',
  'duckdb_views',
  'pg_get_viewdef',
]

/** The engine's views of what these tell, by the schemas that they are found in. */
const TELLING_VIEWS: ReadonlyMap<string, ReadonlySet<string>> = new Map(
  Object.entries({
    duckdb_views: ['', 'main'],
    sqlite_master: ['', 'main'],
    sqlite_schema: ['', 'main'],
    sqlite_temp_master: ['', 'main'],
    sqlite_temp_schema: ['', 'main'],
    pg_settings: ['', 'pg_catalog'],
    pg_views: ['', 'pg_catalog'],
    views: ['information_schema'],
  }).map(([name, schemas]) => [name, new Set(schemas)]),
)

const REFUSED_FUNCTIONS: ReadonlySet<string> = new Set([...ACTING_FUNCTIONS, ...TELLING_FUNCTIONS])
/** Nothing is called or read without its name being written; most texts need no tree. */
const REFUSED_WORDS = new RegExp(
  `\\b(?:${[...REFUSED_FUNCTIONS, ...TELLING_VIEWS.keys()].join('|')})\\b`,
  'i',
)

/**
 * For a text that has been found to be one SELECT: refuses functions that do more than read, and what tells of the engine.
 * Throws `EngineError` (syntax) or `StatementRefused`.
 */
export async function checkHarmless(connection: DuckDBConnection, sql: string): Promise<void> {
  const word = REFUSED_WORDS.exec(sql)?.[0]
  if (word === undefined) return
  const statements = await parse(treeOn(connection), sql)
  const found = statements === undefined ? `the function ${word.toLowerCase()}()` : refusedIn(statements)
  if (found !== undefined) throw new StatementRefused(`${found} is not allowed`)
}

function refusedIn(statements: JsonObject[]): string | undefined {
  const open: Json[] = [...statements]
  for (let node = open.pop(); node !== undefined; node = open.pop()) {
    if (!isObject(node) && !Array.isArray(node)) continue
    if (isObject(node)) {
      const called = foldName(textOf(node.function_name))
      if (REFUSED_FUNCTIONS.has(called)) return `the function ${called}()`
      const read = node.type === 'BASE_TABLE' ? foldName(textOf(node.table_name)) : ''
      if (TELLING_VIEWS.get(read)?.has(foldName(textOf(node.schema_name)))) return `the view ${read}`
    }
    // One by one: so many at once as a text can list are more than a call can be given.
    for (const child of Object.values(node)) open.push(child)
  }
  return undefined
}
