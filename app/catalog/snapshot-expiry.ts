/**
 * Old states of main's tables: snapshots that main replaced long ago leave the tables' metadata by a commit of their own,
 * and main's history before that is forgotten. What only they named is removed by unreferenced-files.ts. See ADR 0018.
 */
import type { JSONValue } from 'postgres'
import type { SqlTx } from '../../drizzle/client.ts'
import type { ContentColumns } from '../../drizzle/schema/catalog.ts'
import { keyOf, metadataLocation } from '../../lake/iceberg/format/location.ts'
import { parseMetadata, serializeMetadata } from '../../lake/iceberg/format/metadata.ts'
import { applyUpdates } from '../../lake/iceberg/format/updates.ts'
import { type TableName, tableKey } from '../../lake/pipeline/names.ts'
import { expiredSnapshots } from '../../machines/retention.ts'
import { BATCH_ROWS, inBatches, NotLeading, type Reaping } from '../retention/reaping.ts'
import { removeUnusedContents, replacedAt } from './expiry.ts'
import { LAKE_ROOT, versionAfter } from './metadata-files.ts'

/** Tables one commit of main changes, and how many are made ready at the same time. */
const TABLES_PER_COMMIT = 32
const AT_ONCE = 4

/** A table with states that are old enough to go. */
interface OldTable extends TableName {
  contentId: string
  tableUuid: string
  metadataLocation: string
  snapshotId: string | null
  columns: ContentColumns
  rowCount: string
  sizeBytes: string
  /** Snapshots that main has, or had until lately. */
  retained: (string | null)[]
  /** An attempt is computing the table's next state: changing it now would make that a conflict. */
  isBusy: boolean
}

interface Trimmed {
  table: OldTable
  /** The metadata file with fewer snapshots. */
  location: string
  expired: number
}

/** The snapshots first: what still has some to expire, because it is busy, must not be forgotten. */
export async function expireSnapshots(reaping: Reaping, newId: () => string): Promise<void> {
  const left = new Set<string>()
  const tables = await oldTables(reaping)
  for (let from = 0; from < tables.length; from += TABLES_PER_COMMIT) {
    reaping.checkRunning()
    const trimmed: Trimmed[] = []
    const some = tables.slice(from, from + TABLES_PER_COMMIT)
    for (let at = 0; at < some.length; at += AT_ONCE) {
      const results = await Promise.all(
        some.slice(at, at + AT_ONCE).map((table) => trim(reaping, table, newId)),
      )
      for (const result of results) if (result !== null && result !== 'busy') trimmed.push(result)
      results.forEach((result, index) => {
        const table = some[at + index]
        if (result === 'busy' && table) left.add(tableKey(table))
      })
    }
    for (const table of await commitTrimmed(reaping, trimmed, newId)) left.add(table)
  }
  await forgetEntries(reaping, [...left])
}

/** Tables that main replaced a state of before the cut-off. */
const oldTables = ({ sql, cutoffs }: Reaping) => sql<OldTable[]>`
  with replaced as (
    select distinct e.namespace, e.layer, e.name from main_entry e ${replacedAt(sql)}
    where replaced.at < ${new Date(cutoffs.snapshots)})
  select e.namespace, e.layer, e.name, e.content_id as "contentId", c.table_uuid as "tableUuid",
    c.metadata_location as "metadataLocation", c.snapshot_id as "snapshotId", c.columns,
    c.row_count as "rowCount", c.size_bytes as "sizeBytes",
    (select array_agg(kept.snapshot_id) from main_entry e
      join lake_content kept on kept.id = e.content_id left ${replacedAt(sql)}
      where e.namespace = r.namespace and e.layer = r.layer and e.name = r.name
        and (e.to_commit is null or replaced.at >= ${new Date(cutoffs.snapshots)})) as retained,
    ${isBusy(sql)} as "isBusy"
  from replaced r
  join main_entry e on e.to_commit is null and e.namespace = r.namespace and e.layer = r.layer and e.name = r.name
  join lake_content c on c.id = e.content_id
  order by e.namespace, e.layer, e.name`

/** For a query about `e`: whether an attempt that writes this table is open. */
const isBusy = (sql: Reaping['sql'] | SqlTx) => sql`
  exists (select from run_attempt a join run r on r.id = a.run_id
    where a.state = 'open' and r.namespace = e.namespace and r.layer = e.layer and r.pipeline = e.name)`

/** Writes the table's metadata without its expired snapshots, under a name of its own; null: it has none. */
async function trim(
  { objects, cutoffs, now }: Reaping,
  table: OldTable,
  newId: () => string,
): Promise<Trimmed | null | 'busy'> {
  const file = await objects.read(keyOf(LAKE_ROOT, table.metadataLocation))
  if (file === null) throw new Error(`the metadata file ${table.metadataLocation} is missing`)
  const metadata = parseMetadata(new TextDecoder().decode(file))
  const expired = expiredSnapshots(
    metadata.snapshots.map((snapshot) => ({
      id: snapshot['snapshot-id'],
      madeAt: snapshot['timestamp-ms'],
    })),
    {
      current: metadata['current-snapshot-id'],
      named: new Set(Object.values(metadata.refs).map((ref) => ref['snapshot-id'])),
      retained: new Set(table.retained.flatMap((id) => (id === null ? [] : [BigInt(id)]))),
      cutoff: cutoffs.snapshots,
    },
  )
  if (expired.length === 0) return null
  if (table.isBusy) return 'busy'
  const next = applyUpdates(metadata, [{ action: 'remove-snapshots', 'snapshot-ids': expired }], {
    // Clocks differ; the table's time never runs backwards.
    at: Math.max(now.getTime(), metadata['last-updated-ms']),
    previousFile: table.metadataLocation,
  })
  const location = metadataLocation(metadata.location, versionAfter(table.metadataLocation), newId())
  await objects.put(keyOf(LAKE_ROOT, location), new TextEncoder().encode(serializeMetadata(next)))
  return { table, location, expired: expired.length }
}

/**
 * One commit of main with the trimmed tables that are still what they were. The file of another one is named by nobody, and
 * goes like all such files. Answers the tables that were left as they are. Durable: readers remember main by its numbers.
 */
async function commitTrimmed(
  { write, reaped }: Reaping,
  trimmed: readonly Trimmed[],
  newId: () => string,
): Promise<string[]> {
  if (trimmed.length === 0) return []
  const wanted = trimmed.map(({ table, location }) => ({
    namespace: table.namespace,
    layer: table.layer,
    name: table.name,
    old: table.contentId,
    id: newId(),
    uuid: table.tableUuid,
    location,
    snapshot: table.snapshotId,
    columns: table.columns,
    rows: table.rowCount,
    bytes: table.sizeBytes,
  }))
  const changed = await write(async (tx) => {
    const [main] = await tx<{ number: string }[]>`select number from lake_ref where name = 'main' for update`
    if (main === undefined) throw new Error('the catalog has no main')
    const number = Number(main.number) + 1
    const current = await tx<{ old: string }[]>`
      select e.content_id as old from main_entry e
      where e.to_commit is null and e.content_id = any(${wanted.map(({ old }) => old)}::uuid[]) and not ${isBusy(tx)}`
    const isCurrent = new Set(current.map(({ old }) => old))
    const changes = wanted.filter(({ old }) => isCurrent.has(old))
    if (changes.length === 0) return []
    const id = newId()
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
  })
  if (changed === null) throw new NotLeading('another replica leads the reaper')
  const isChanged = new Set(changed)
  for (const { table, expired } of trimmed)
    if (isChanged.has(table.contentId)) reaped.snapshotsExpired += expired
  return trimmed.flatMap(({ table }) => (isChanged.has(table.contentId) ? [] : [tableKey(table)]))
}

/**
 * Forgets which contents main had long ago: nobody reads main there, no open branch stands there, and the age of no file is
 * counted from there any more.
 */
async function forgetEntries(reaping: Reaping, except: string[]): Promise<void> {
  const { cutoffs, reaped } = reaping
  await inBatches(reaping, async (tx) => {
    const gone = await tx<{ contentId: string }[]>`
      delete from main_entry where ctid = any(array(
        select e.ctid from main_entry e ${replacedAt(tx)}
        where replaced.at < ${new Date(cutoffs.lakeHistory)}
          and e.namespace || '.' || e.layer || '.' || e.name <> all(${except})
          and not exists (select from lake_ref f
            where f.state = 'open' and f.name <> 'main' and f.base < e.to_commit)
        limit ${BATCH_ROWS / 2}))
      returning content_id as "contentId"`
    const contents = await removeUnusedContents(
      tx,
      gone.map(({ contentId }) => contentId),
    )
    reaped.historyPruned += gone.length + contents
    return gone.length === BATCH_ROWS / 2
  })
}
