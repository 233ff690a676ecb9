// Statements of the duty that expires snapshots: which tables have old states, and the commit of main that replaces them.
import assert from 'node:assert'
import type { JSONValue } from 'postgres'
import type { Sql, SqlTx } from '../../../drizzle/client.ts'
import type { lakeContents } from '../../../drizzle/schema/index.ts'
import type { TableName } from '../../../lake/pipeline/names.ts'
import { removeUnusedContents, replacedAt } from './history.ts'

type Content = typeof lakeContents.$inferSelect

/** A table with states that are old enough to go, and its current content. */
export interface OldTable extends TableName {
  contentId: Content['id']
  tableUuid: Content['tableUuid']
  metadataLocation: Content['metadataLocation']
  snapshotId: Content['snapshotId']
  columns: Content['columns']
  rowCount: Content['rowCount']
  sizeBytes: Content['sizeBytes']
  /** Snapshots that main has, or had until lately. */
  retained: Content['snapshotId'][]
  /** An attempt is computing the table's next state: changing it now would make that a conflict. */
  isBusy: boolean
}

/** Tables of which main replaced a state before the cut-off. */
export const oldTables = (sql: Sql, cutoff: Date) => sql<OldTable[]>`
  with replaced as (
    select distinct e.namespace, e.layer, e.name from main_entry e ${replacedAt(sql)}
    where replaced.at < ${cutoff})
  select e.namespace, e.layer, e.name, e.content_id as "contentId", c.table_uuid as "tableUuid",
    c.metadata_location as "metadataLocation", c.snapshot_id as "snapshotId", c.columns,
    c.row_count::float8 as "rowCount", c.size_bytes::float8 as "sizeBytes",
    (select array_agg(kept.snapshot_id) from main_entry e
      join lake_content kept on kept.id = e.content_id left ${replacedAt(sql)}
      where e.namespace = r.namespace and e.layer = r.layer and e.name = r.name
        and (e.to_commit is null or replaced.at >= ${cutoff})) as retained,
    ${isBusy(sql)} as "isBusy"
  from replaced r
  join main_entry e on e.to_commit is null and e.namespace = r.namespace and e.layer = r.layer and e.name = r.name
  join lake_content c on c.id = e.content_id
  order by e.namespace, e.layer, e.name`

/** In a query about `e`: whether an attempt that writes this table is open. */
const isBusy = (sql: Sql | SqlTx) => sql`
  exists (select from run_attempt a join run r on r.id = a.run_id
    where a.state = 'open' and r.namespace = e.namespace and r.layer = e.layer and r.pipeline = e.name)`

/** The next content of a table: the one with the id `old`, under another metadata file and the new `id`. */
export type Replacement = TableName & {
  old: string
  id: string
  uuid: Content['tableUuid']
  location: Content['metadataLocation']
  snapshot: Content['snapshotId']
  columns: Content['columns']
  rows: Content['rowCount']
  bytes: Content['sizeBytes']
}

/**
 * One commit of main, with this id, of those tables that still have their old content and are not busy. Answers their old
 * contents.
 */
export async function replaceContents(
  tx: SqlTx,
  wanted: readonly Replacement[],
  id: string,
): Promise<string[]> {
  const [main] = await tx<{ number: string }[]>`select number from lake_ref where name = 'main' for update`
  assert(main !== undefined, 'the catalog has no main')
  const number = Number(main.number) + 1
  const current = await tx<{ old: string }[]>`
    select e.content_id as old from main_entry e
    where e.to_commit is null and e.content_id = any(${wanted.map(({ old }) => old)}::uuid[]) and not ${isBusy(tx)}`
  const isCurrent = new Set(current.map(({ old }) => old))
  const changes = wanted.filter(({ old }) => isCurrent.has(old))
  if (changes.length === 0) return []
  const rows = tx`jsonb_to_recordset(${tx.json(changes as unknown as JSONValue)}) as n(namespace text, layer text,
    name text, old uuid, id uuid, uuid uuid, location text, snapshot text, columns jsonb, rows bigint, bytes bigint)`
  await Promise.all([
    tx`insert into lake_content (id, table_uuid, metadata_location, snapshot_id, columns, row_count, size_bytes)
      select n.id, n.uuid, n.location, n.snapshot, n.columns, n.rows, n.bytes from ${rows}`,
    tx`insert into lake_commit (id, ref, number, base, message)
      values (${id}, 'main', ${number}, ${number - 1}, ${`old snapshots of ${changes.length} tables expired`})`,
    tx`update main_entry e set to_commit = ${number} from ${rows} where e.to_commit is null and e.content_id = n.old`,
    tx`insert into main_entry (namespace, layer, name, content_id, from_commit)
      select n.namespace, n.layer, n.name, n.id, ${number} from ${rows}`,
    tx`update lake_ref set number = ${number}, head = ${id} where name = 'main'`,
  ])
  return changes.map(({ old }) => old)
}

/**
 * Deletes at most `limit` entries that main replaced before `before`, with the contents that nothing else has. Entries on which an
 * open branch stands stay, and those of the tables in `except` (`namespace.layer.name`).
 */
export async function forgetEntries(
  tx: SqlTx,
  { before, except, limit }: { before: Date; except: readonly string[]; limit: number },
): Promise<{ entries: number; contents: number }> {
  const gone = await tx<{ contentId: string }[]>`
    delete from main_entry where ctid = any(array(
      select e.ctid from main_entry e ${replacedAt(tx)}
      where replaced.at < ${before}
        and e.namespace || '.' || e.layer || '.' || e.name <> all(${except as string[]})
        and not exists (select from lake_ref f
          where f.state = 'open' and f.name <> 'main' and f.base < e.to_commit)
      limit ${limit}))
    returning content_id as "contentId"`
  const contents = await removeUnusedContents(
    tx,
    gone.map(({ contentId }) => contentId),
  )
  return { entries: gone.length, contents }
}
