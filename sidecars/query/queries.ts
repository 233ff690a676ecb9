import { LRUCache } from 'lru-cache'
import { tableKey } from '../../ground/names.ts'
import type { TableReference } from '../../lake/engine/statement.ts'
import { emptyRelation } from '../../lake/iceberg/sql/empty-relation.ts'
import type { LakeView } from '../../proto/gen/sluice/query/v1/query_pb.ts'
import type { Cost } from '../core/process-usage.ts'
import { authorityOf } from '../rpc/api-addresses.ts'
import type { CommitTable, Tables, TablesAt } from './commits.ts'
import type { AnswerOf, SchemaPath, TableView, ViewName } from './engine-messages.ts'
import { type DefinedTable, type EngineLease, type Engines, type Statement, viewKey } from './engines.ts'
import { limits } from './limits.ts'
import { catalogOf, quoteNamespaces, tableOf, writtenName } from './names.ts'
import type { OpenTable, Relation, TableState } from './relations.ts'
import { type Readable, type ReadViewSql, withViews } from './stored-views.ts'

// Executes one query: finds its tables, opens their state at its commit, and returns rows.

interface Query {
  sql: string
  namespace: string
  rowsLimit: number
  /** The maximum size of the answer as JSON, in bytes, that the caller accepts. */
  jsonBytesMax: number
  lake: LakeView
  /** Keys of the tables that the caller may see. Null means all tables. */
  visibleTables: ReadonlySet<string> | null
  /** Called with the cost of the query, also of one that fails. A repeated query calls it again. */
  noteCost(cost: Cost): void
}

interface QueryResult extends AnswerOf<'run'> {
  /** Data files of the tables in the statement, and those of them that may hold rows of the answer. */
  files: { total: number; read: number }
}

/** The query names a table that does not exist. */
export class NoSuchTable extends Error {
  constructor(reference: TableReference, namespace: string) {
    const isNamed = tableOf(reference, namespace) !== null
    const where = reference.catalog === '' ? ` in the namespace ${namespace}` : ''
    const hint = isNamed ? where : ': tables are named layer.table or namespace.layer.table'
    super(`there is no table ${writtenName(reference)}${hint}`)
  }
}

interface QueryDeps {
  tablesAt: TablesAt
  openTable: OpenTable
  readViewSql: ReadViewSql
  engines: Engines
}

/**
 * Throws NoSuchTable, BrokenView, EngineFault, EngineEnded, NoSlot, UnsupportedTable and HttpFailure. Throws the signal's reason after an
 * abort, which stops the query.
 */
export type RunQuery = (query: Query, signal: AbortSignal) => Promise<QueryResult>

export function makeQueries({ tablesAt, openTable, readViewSql, engines }: QueryDeps): RunQuery {
  /** Statements by their text. The result of a check depends only on the text. */
  const checked = new LRUCache<string, Statement>({
    maxSize: limits.statementCharacters,
    sizeCalculation: (_, sql) => sql.length + 1,
  })

  async function checkedStatement(sql: string, engine: EngineLease, signal: AbortSignal): Promise<Statement> {
    const cached = checked.get(sql)
    if (cached !== undefined) return cached
    const statement = await engine.check(quoteNamespaces(sql), signal)
    checked.set(sql, statement)
    return statement
  }

  /** Opens the files that the statement needs, and returns the tables and views that the engine has not defined so yet. */
  async function undefinedTables(
    readables: readonly Readable[],
    planned: Planned,
    { lake, engine, relations, signal }: QueryResources,
  ): Promise<{ define: DefinedTable[]; files: QueryResult['files'] }> {
    const states = await Promise.all(
      readables.map(({ table, body }) => (body === null ? openTable(table, lake, signal) : null)),
    )
    const filters = await filtersOn(readables, states, planned, { engine, signal })
    const opened = await Promise.allSettled(
      states.map((state, index) => state?.open(filters?.[index] ?? null) ?? null),
    )
    for (const each of opened) if (each.status === 'fulfilled' && each.value) relations.push(each.value)
    const define = opened.flatMap((each, index): DefinedTable[] => {
      if (each.status === 'rejected') throw each.reason
      const readable = readables[index]
      if (readable === undefined) return []
      const { table } = readable
      const state = each.value?.state ?? readable.state
      if (engine.has(viewOf(table), state)) return []
      return [
        { ...(each.value ? { ...viewOf(table), ...each.value.source() } : storedView(readable)), state },
      ]
    })
    const total = states.reduce((sum, state) => sum + (state?.files ?? 0), 0)
    return { define, files: { total, read: relations.reduce((sum, { files }) => sum + files, 0) } }
  }

  return async function runQuery(query, signal) {
    const { sql, namespace, rowsLimit, jsonBytesMax, lake, visibleTables } = query
    const [all, engine] = await tablesAndEngine(tablesAt(lake, signal), engines.acquire(signal))
    const tables = visibleTables === null ? all : tablesAmong(all, visibleTables)
    const relations: Relation[] = []
    try {
      const statement = await checkedStatement(sql, engine, signal)
      const readables = await withViews(
        [...new Set(statement.tables.map((reference) => tableAmong(tables, reference, namespace)))],
        {
          tables,
          sqlOf: (view) => readViewSql(view, lake, signal),
          check: (text) => checkedStatement(text, engine, signal),
        },
      )
      const named = readables.map(({ table }) => table)
      const catalog = usesNamespace(statement, tables, namespace) ? catalogOf(namespace) : null
      const planned = { statement, catalog, rowsLimit }
      const { define, files } = await undefinedTables(readables, planned, { lake, engine, relations, signal })
      // Tables of other callers would appear in the engine's lists and in the suggestions of its errors.
      const views = visibleTables === null ? null : viewsOf(tables)
      const hidden = views === null ? [] : engine.others((key) => views.has(key))
      const listed = statement.listsTables
        ? listingOf(tables, named, { engine, lake })
        : { define: [], drop: hidden }
      const answer = await engine.run(
        {
          statement: {
            sql: SHOW_TABLES.test(statement.sql) ? TABLES_BY_LAYER : statement.sql,
            kind: statement.kind,
            setsSeed: statement.setsSeed,
          },
          catalog,
          define: [...listed.define, ...define],
          drop: listed.drop,
          places: visibleTables === null ? null : placesOf(tables),
          rowsLimit,
          bytesLimit: limits.resultBytes,
          jsonBytesMax,
        },
        signal,
      )
      return { ...answer, files }
    } finally {
      for (const { release } of relations) release()
      query.noteCost(engine.cost())
      engine.release()
    }
  }
}

interface Planned {
  statement: Statement
  catalog: string | null
  rowsLimit: number
}

/**
 * The filters of a statement on its tables; null when all files are read. The engine computes a constant time when it plans, so a
 * filter with the current time would exclude rows of a later moment.
 */
async function filtersOn(
  readables: readonly Readable[],
  states: readonly (TableState | null)[],
  { statement: { sql, kind, isMomentary }, catalog, rowsLimit }: Planned,
  { engine, signal }: Pick<QueryResources, 'engine' | 'signal'>,
): Promise<AnswerOf<'plan'> | null> {
  const isWorthwhile = states.some((state) => (state?.files ?? 0) >= limits.filesPlanned)
  const dependsOnTime = isMomentary || readables.some(({ body }) => body?.isMomentary)
  if (!isWorthwhile || kind === 'explain' || dependsOnTime) return null
  const tables = readables.map((readable, index) => {
    const state = states[index]
    return state ? { ...viewOf(readable.table), from: state.empty() } : storedView(readable)
  })
  return engine.plan({ statement: { sql, kind }, catalog, tables, rowsLimit }, signal)
}

/** Resources of a running query. Opened relations are added to `relations`, so that the query releases them. */
interface QueryResources {
  lake: LakeView
  engine: EngineLease
  relations: Relation[]
  signal: AbortSignal
}

/**
 * Matches SHOW TABLES, which the engine would answer with names of the current schema only. A query needs the layers too. The
 * pattern contains no two adjacent runs of blanks, which would take quadratic time on a long run of blanks.
 */
const SHOW_TABLES = /^\s*show\s+tables\s*(?:;\s*)?$/i
const TABLES_BY_LAYER = `
  SELECT table_schema || '.' || table_name AS name FROM information_schema.tables
  WHERE table_catalog = current_database() ORDER BY name`

function tableAmong(tables: Tables, reference: TableReference, namespace: string): CommitTable {
  const name = tableOf(reference, namespace)
  const table = name && tables.get(tableKey(name))
  if (!table) throw new NoSuchTable(reference, namespace)
  return table
}

function tablesAmong(all: Tables, visible: ReadonlySet<string>): Tables {
  return new Map(
    [...visible].flatMap((key) => {
      const table = all.get(key)
      return table === undefined ? [] : [[key, table] as const]
    }),
  )
}

const viewsOf = (tables: Tables) => new Set([...tables.values()].map((table) => viewKey(viewOf(table))))

/** Catalogs and schemas that contain at least one of the tables. */
function placesOf(tables: Tables): SchemaPath[] {
  const places = new Map<string, SchemaPath>()
  for (const table of tables.values()) {
    const { catalog, schema } = viewOf(table)
    places.set(`${catalog}.${schema}`, { catalog, schema })
  }
  return [...places.values()]
}

/** Copies of the same files have other paths for another authority, so its views differ. */
const stateOf = ({ content_id }: CommitTable, lake: LakeView) => `${authorityOf(lake)} ${content_id}`

/** The definition of a stored view. */
const storedView = ({ table, body }: Readable): TableView => ({
  ...viewOf(table),
  from: `(\n${body?.sql}\n)`,
  storedView: tableKey(table),
})

const viewOf = ({ namespace, layer, name }: CommitTable): ViewName => ({
  catalog: catalogOf(namespace),
  schema: layer,
  name,
})

/**
 * Whether the query needs the catalog of its namespace. A namespace without tables gets no catalog, so callers cannot create
 * catalogs by inventing names.
 */
function usesNamespace(
  { tables: named, listsTables }: Statement,
  tables: Tables,
  namespace: string,
): boolean {
  if (named.some(({ catalog }) => catalog === '')) return true
  return listsTables && [...tables.values()].some((table) => table.namespace === namespace)
}

/** The changes after which the engine's own lists show exactly the tables of the commit. */
function listingOf(
  tables: Tables,
  named: readonly CommitTable[],
  { engine, lake }: Pick<QueryResources, 'engine' | 'lake'>,
): { define: DefinedTable[]; drop: ViewName[] } {
  const read = new Set(named)
  const all = [...tables.values()].filter((table) => !read.has(table))
  const keys = viewsOf(tables)
  return {
    drop: engine.others((key) => keys.has(key)),
    define: all.flatMap((table) => {
      const view = viewOf(table)
      const state = `columns of ${table.content_id}`
      if (engine.has(view, stateOf(table, lake)) || engine.has(view, state)) return []
      return [{ ...view, state, from: emptyRelation(table) }]
    }),
  }
}

/** Waits for both. Releases the engine if reading the tables fails. */
async function tablesAndEngine(
  tables: Promise<Tables>,
  lease: Promise<EngineLease>,
): Promise<[Tables, EngineLease]> {
  try {
    return await Promise.all([tables, lease])
  } catch (error) {
    lease.then(
      (engine) => engine.release(),
      () => {},
    )
    throw error
  }
}
