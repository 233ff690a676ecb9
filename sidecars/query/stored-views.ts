import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { tableKey } from '../../ground/names.ts'
import { keyIn } from '../../lake/iceberg/format/location.ts'
import { parseViewMetadata, viewSql } from '../../lake/iceberg/views/view.ts'
import { VIEW_DEPTH_MAX } from '../../lake/pipeline/view-sql.ts'
import type { LakeView } from '../../proto/gen/sluice/query/v1/query_pb.ts'
import { gatewayLake, sharedLake } from '../objects/lake-access.ts'
import { authorityOf } from '../rpc/api-addresses.ts'
import type { CommitTable, Tables } from './commits.ts'
import { EngineFault } from './engine-messages.ts'
import type { Statement } from './engines.ts'
import { limits } from './limits.ts'
import { quoteNamespaces, tableOf, writtenName } from './names.ts'
import type { RelationOptions } from './relations.ts'

// Stored views of the catalog. A view reads the tables of the query's own version of the lake, so all tables of a query belong to one
// commit. A caller needs access to everything that a view reads.

/** A table or view that a query reads, directly or through a view. */
export interface Readable {
  table: CommitTable
  /** Null for a table. */
  body: ViewBody | null
  /** Identifies the contents of the table, or of the view and everything that it reads. */
  state: string
}

interface ViewBody {
  /** The engine's names stand for the tables. */
  sql: string
  reads: readonly CommitTable[]
  /** The view depends on the time of the query. */
  isMomentary: boolean
}

/** A view cannot be read: a missing or invisible table, a cycle, or SQL that does not bind any more. */
export class BrokenView extends Error {}

/** Reads the SQL of a view. Throws HttpFailure, and the signal's reason. */
export type ReadViewSql = (view: CommitTable, lake: LakeView, signal: AbortSignal) => Promise<string>

/** A state of a view never changes, so its SQL is cached. */
export function makeReadViewSql({ lakeDir, cache }: RelationOptions): ReadViewSql {
  const shared = lakeDir === null ? null : sharedLake(lakeDir)
  const cached = new LRUCache<string, string>({
    maxSize: limits.statementCharacters,
    sizeCalculation: (sql) => sql.length + 1,
  })
  return async (view, lake, signal) => {
    const authority = authorityOf(lake)
    const key = `${authority} ${view.content_id}`
    const known = cached.get(key)
    if (known !== undefined) return known
    const { objectsUrl: url, token } = lake
    const files = shared ?? gatewayLake({ url, token, authority, cache, signal })
    const bytes = await files.read(keyIn(view.metadata_location))
    const sql = quoteNamespaces(viewSql(parseViewMetadata(new TextDecoder().decode(bytes))))
    cached.set(key, sql)
    return sql
  }
}

interface Resolution {
  /** The tables and views that the caller may see. */
  tables: Tables
  sqlOf(view: CommitTable): Promise<string>
  /** Checks that a text only reads, and returns the tables that it names. Throws EngineFault. */
  check(sql: string): Promise<Statement>
}

/** The tables and views that a query reads, each after those that it reads itself. Throws BrokenView. */
export async function withViews(named: readonly CommitTable[], resolution: Resolution): Promise<Readable[]> {
  const bodies = new Map<CommitTable, ViewBody>()
  let open = new Set(named)
  for (let depth = 0; open.size > 0; depth += 1) {
    if (depth > VIEW_DEPTH_MAX)
      throw new BrokenView(`views read views more than ${VIEW_DEPTH_MAX} levels deep`)
    const next = new Set<CommitTable>()
    for (const table of open) {
      if (table.kind === 'table' || bodies.has(table)) continue
      if (bodies.size === limits.viewsPerQuery)
        throw new BrokenView(`the query reads more than ${limits.viewsPerQuery} views`)
      const body = await bodyOf(table, resolution)
      bodies.set(table, body)
      for (const read of body.reads) next.add(read)
    }
    open = next
  }
  const ordered = new Map<CommitTable, Readable>()
  for (const table of named) order(table, [], { bodies, ordered })
  return [...ordered.values()]
}

async function bodyOf(view: CommitTable, { tables, sqlOf, check }: Resolution): Promise<ViewBody> {
  const key = tableKey(view)
  const sql = await sqlOf(view)
  const statement = await check(sql).catch((error: unknown) => {
    throw error instanceof EngineFault && (error.kind === 'refused' || error.kind === 'syntax')
      ? new BrokenView(`view ${key} cannot be read: ${error.message}`)
      : error
  })
  const reads = statement.tables.map((reference) => {
    const name = tableOf(reference, view.namespace)
    const table = name && tables.get(tableKey(name))
    if (!table)
      throw new BrokenView(`view ${key} cannot be read: there is no table ${writtenName(reference)}`)
    return table
  })
  return { sql, reads, isMomentary: statement.isMomentary }
}

/** Adds a table, after everything that it reads. `readers` are the views on the way to it. */
function order(
  table: CommitTable,
  readers: readonly CommitTable[],
  maps: { bodies: ReadonlyMap<CommitTable, ViewBody>; ordered: Map<CommitTable, Readable> },
): Readable {
  const known = maps.ordered.get(table)
  if (known !== undefined) return known
  if (readers.includes(table)) {
    const path = [...readers, table].map(tableKey).join(' -> ')
    throw new BrokenView(`view ${tableKey(table)} cannot be read, because it reads itself: ${path}`)
  }
  const body = maps.bodies.get(table)
  const states = body?.reads.map((read) => order(read, [...readers, table], maps).state)
  const readable = {
    table,
    body: body ?? null,
    state:
      states === undefined
        ? table.content_id
        : createHash('sha256')
            .update([table.content_id, ...states].join(' '))
            .digest('hex'),
  }
  maps.ordered.set(table, readable)
  return readable
}
