/**
 * Expires old states of main's tables. A separate commit removes snapshots that main replaced long ago from the tables'
 * metadata. Older history of main is deleted. unreferenced-files.ts then removes files that only those states named. See ADR
 * 16.
 */

import { tableKey } from '../../ground/names.ts'
import { keyIn, metadataLocation } from '../../lake/iceberg/format/location.ts'
import { parseMetadata, serializeMetadata } from '../../lake/iceberg/format/metadata.ts'
import { applyUpdates } from '../../lake/iceberg/format/updates.ts'
import { expiredSnapshots } from '../../machines/retention.ts'
import { NotLeading, type Reaping } from '../retention/store/reaping.ts'
import { versionAfter } from './metadata-files.ts'
import { type OldTable, oldTables, replaceContents } from './store/snapshots.ts'

/** The number of tables in one commit of main. `AT_ONCE` tables are prepared in parallel. */
const TABLES_PER_COMMIT = 32
const AT_ONCE = 4

interface Trimmed {
  table: OldTable
  /** Location of the metadata file without the expired snapshots. */
  location: string
  expired: bigint[]
}

/** Expires snapshots. A busy table keeps its expired snapshots for now, so its history must stay (`busyTables`). */
export async function expireSnapshots(reaping: Reaping, newId: () => string): Promise<void> {
  const skippedTables = new Set<string>()
  const tables = await oldTables(reaping.sql, new Date(reaping.cutoffs.snapshots))
  for (let from = 0; from < tables.length; from += TABLES_PER_COMMIT) {
    reaping.checkRunning()
    const trimmed: Trimmed[] = []
    const batch = tables.slice(from, from + TABLES_PER_COMMIT)
    for (let at = 0; at < batch.length; at += AT_ONCE) {
      const results = await Promise.all(
        batch.slice(at, at + AT_ONCE).map((table) => trim(reaping, table, newId)),
      )
      for (const result of results) if (result !== null && result !== 'busy') trimmed.push(result)
      results.forEach((result, index) => {
        const table = batch[at + index]
        if (result === 'busy' && table) skippedTables.add(tableKey(table))
      })
    }
    for (const table of await commitTrimmed(reaping, trimmed, newId)) skippedTables.add(table)
  }
  reaping.busyTables = [...skippedTables]
}

/** Writes the table's metadata without its expired snapshots to a new file. Returns null when no snapshot has expired. */
async function trim(
  { objects, cutoffs, now }: Reaping,
  table: OldTable,
  newId: () => string,
): Promise<Trimmed | null | 'busy'> {
  const file = await objects.read(keyIn(table.metadataLocation))
  if (file === null) throw new Error(`the metadata file ${table.metadataLocation} is missing`)
  const metadata = parseMetadata(new TextDecoder().decode(file))
  const expired = expiredSnapshots(
    metadata.snapshots.map((snapshot) => ({
      id: snapshot['snapshot-id'],
      createdAt: snapshot['timestamp-ms'],
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
    // Clocks differ; the table's last update time must never go back.
    at: Math.max(now.getTime(), metadata['last-updated-ms']),
    previousFile: table.metadataLocation,
  })
  const location = metadataLocation(metadata.location, versionAfter(table.metadataLocation), newId())
  await objects.put(keyIn(location), new TextEncoder().encode(serializeMetadata(next)))
  return { table, location, expired }
}

/**
 * Commits the trimmed tables to main in one commit, except tables that changed in the meantime. The new file of a skipped table
 * is unreferenced and is removed later. Returns the keys of the skipped tables. The commit is durable, because readers cache
 * main by commit number.
 */
async function commitTrimmed(
  { write, reaped, dryRun }: Reaping,
  trimmed: readonly Trimmed[],
  newId: () => string,
): Promise<string[]> {
  if (trimmed.length === 0) return []
  const replacements = trimmed.map(({ table, location }) => ({
    ...table,
    id: newId(),
    metadataLocation: location,
  }))
  const changed = await write((tx) => replaceContents(tx, replacements, newId()))
  if (changed === null) throw new NotLeading('another replica leads the reaper')
  const isChanged = new Set(changed)
  for (const { table, expired } of trimmed)
    if (isChanged.has(table.contentId)) {
      reaped.snapshotsExpired += expired.length
      dryRun?.add(
        'snapshots',
        expired.map((id) => `${tableKey(table)} ${id}`),
      )
    }
  return trimmed.flatMap(({ table }) => (isChanged.has(table.contentId) ? [] : [tableKey(table)]))
}
