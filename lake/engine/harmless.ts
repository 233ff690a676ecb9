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

/** Functions that tell of the engine: its settings, and files by their paths on this machine, behind its tables and in statements of ours. */
const TELLING_FUNCTIONS = [
  'current_query',
  'current_setting',
  'duckdb_external_file_cache',
  'duckdb_profiling_settings',
  'duckdb_settings',
  'duckdb_views',
  'pg_get_viewdef',
]

/** The engine's views of what these tell, by what is written before them: their schema, or the catalog that has it. */
const TELLING_VIEWS: ReadonlyMap<string, ReadonlySet<string>> = new Map(
  Object.entries({
    duckdb_views: ['', 'main', 'system'],
    sqlite_master: ['', 'main', 'system'],
    sqlite_schema: ['', 'main', 'system'],
    sqlite_temp_master: ['', 'main', 'system'],
    sqlite_temp_schema: ['', 'main', 'system'],
    pg_settings: ['', 'pg_catalog', 'system'],
    pg_views: ['', 'pg_catalog', 'system'],
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
  if (!REFUSED_WORDS.test(sql)) return
  const statements = await parse(treeOn(connection), sql)
  if (statements === undefined) throw new StatementRefused('only a SELECT can be run')
  const found = refusedIn(statements)
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
