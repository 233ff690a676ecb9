// Refuses calls and reads that an author's SELECT may not contain, even in a locked engine. A SELECT can do more than read
// data. The check uses the engine's own syntax tree of the text.
import type { DuckDBConnection } from '@duckdb/node-api'
import { foldName, isObject, type Json, type JsonObject, parse, treeOn } from './parser.ts'
import { StatementRefused, textOf } from './statement.ts'

/**
 * Functions that change the engine, write files (a log), call memory addresses, or plan another SQL text. That other text could
 * use all of these functions.
 */
const SIDE_EFFECT_FUNCTIONS = [
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

/**
 * Functions that reveal the engine's settings or local file paths. Paths appear in views, in the file cache and in statements
 * of the service.
 */
const REVEALING_FUNCTIONS = [
  'current_query',
  'current_setting',
  'duckdb_external_file_cache',
  'duckdb_profiling_settings',
  'duckdb_settings',
  'duckdb_views',
  'pg_get_viewdef',
]

/**
 * The engine's views on the same data, with the qualifiers that select each view: its schema, or the catalog of that schema.
 */
const REVEALING_VIEWS: ReadonlyMap<string, ReadonlySet<string>> = new Map(
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

const REFUSED_FUNCTIONS: ReadonlySet<string> = new Set([...SIDE_EFFECT_FUNCTIONS, ...REVEALING_FUNCTIONS])
/** A text can call or read these only by writing the name, so most texts need no syntax tree. */
const REFUSED_WORDS = new RegExp(
  `\\b(?:${[...REFUSED_FUNCTIONS, ...REVEALING_VIEWS.keys()].join('|')})\\b`,
  'i',
)

/**
 * Refuses functions that do more than read, and sources that reveal the engine. The caller has already checked that the text is
 * one SELECT. Throws `EngineError` (syntax) or `StatementRefused`.
 */
export async function checkHarmless(connection: DuckDBConnection, sql: string): Promise<void> {
  if (!REFUSED_WORDS.test(sql)) return
  const statements = await parse(treeOn(connection), sql)
  if (statements === undefined) throw new StatementRefused('only a SELECT can be run')
  const refused = refusedIn(statements)
  if (refused !== undefined) throw new StatementRefused(`${refused} is not allowed`)
}

function refusedIn(statements: JsonObject[]): string | undefined {
  const open: Json[] = [...statements]
  for (let node = open.pop(); node !== undefined; node = open.pop()) {
    if (!isObject(node) && !Array.isArray(node)) continue
    if (isObject(node)) {
      const called = foldName(textOf(node.function_name))
      if (REFUSED_FUNCTIONS.has(called)) return `the function ${called}()`
      const read = node.type === 'BASE_TABLE' ? foldName(textOf(node.table_name)) : ''
      if (REVEALING_VIEWS.get(read)?.has(foldName(textOf(node.schema_name)))) return `the view ${read}`
    }
    // Pushes one child at a time: a text can list more nodes than one call accepts as arguments.
    for (const child of Object.values(node)) open.push(child)
  }
  return undefined
}
