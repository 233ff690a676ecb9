/**
 * Removes unreferenced lake files: files of unsuccessful attempts and of expired states. An unreferenced file stays
 * unreferenced. New states reference only files of their base and files that their own attempt wrote. A restore references files
 * of an earlier state, which main still has when the restore commits. Files of an attempt are
 * younger than any file removed here. So the scan and the removal need no lock. See ADR 16.
 */

import { layerOf, type TableName, tableKey } from '../../ground/names.ts'
import { keyIn, LAKE_PREFIX, rootIn } from '../../lake/iceberg/format/location.ts'
import { currentSnapshot, parseMetadata, type TableMetadata } from '../../lake/iceberg/format/metadata.ts'
import type { Snapshot } from '../../lake/iceberg/format/wire.ts'
import { liveFiles, type ManifestReader, makeManifestReader } from '../../lake/iceberg/read/scan.ts'
import { LAKE_GRACE_MS } from '../../machines/retention.ts'
import { limits } from '../core/limits.ts'
import type { StoredObject } from '../objects/port.ts'
import type { Reaping } from '../retention/store/reaping.ts'
import { branchesSince, countTables, databaseTime, statesOf } from './store/lake-files.ts'

/** With more tables, each tick scans a different share, so that every table is scanned within a day. */
const TABLES_PER_TICK = 1_000
const DAY_MS = 86_400_000
const REMOVALS_AT_ONCE = 8
/** After this many removals the duty pauses, so that other requests reach the store. */
const REMOVALS_PER_PAUSE = 256
const PAUSE_MS = 50

const DIRECTORY = /^_lake\/([^/]+)\/([^/]+)\/([^/]+)-[0-9a-f]{8}\//
/** Each tick writes this object to read the store's clock. No namespace can have this name. */
export const STORE_CLOCK = `${LAKE_PREFIX}.clock`

interface Directory {
  table: TableName
  /** Files that are old enough to be removed when no state references them, with their sizes. */
  old: Map<string, number>
}

export async function removeUnreferencedFiles(reaping: Reaping): Promise<void> {
  const reader = makeManifestReader(async (location) => bytesAt(reaping, location))
  const [writers, isTurn, behindMs] = await Promise.all([
    lateWriters(reaping),
    turnOf(reaping),
    storeClockLagMs(reaping),
  ])
  const failures: unknown[] = []
  for await (const { table, old } of oldDirectories(reaping, { writers, behindMs })) {
    reaping.checkRunning()
    if (old.size === 0 || !isTurn(table)) continue
    try {
      const keys = await unreferenced(reaping, table, old, reader)
      await removeAll(reaping, keys)
      const bytes = keys.reduce((sum, key) => sum + (old.get(key) ?? 0), 0)
      reaping.dryRun?.add('lake_files', keys, bytes)
    } catch (error) {
      // An unreadable file might reference any file, so this table keeps all its files. The other tables continue.
      failures.push(error)
    }
  }
  if (failures.length > 0)
    throw new Error(
      `searching unreferenced files of ${failures.length} tables failed: their files are kept`,
      {
        cause: failures[0],
      },
    )
}

/**
 * Maps each table to a time. Younger files may belong to a branch that is open or was closed recently. Tables without such a
 * branch are absent.
 */
async function lateWriters({ sql, now, config }: Reaping): Promise<Map<string, Date>> {
  const ageMs = Math.max(config.icebergOrphanFileMaxAgeDays * DAY_MS, LAKE_GRACE_MS)
  const rows = await branchesSince(sql, new Date(now.getTime() - ageMs))
  return new Map(rows.map(({ since, ...table }) => [tableKey(table), since]))
}

/**
 * Milliseconds by which the store's clock is behind the database's clock; 0 when it is ahead. The store dates files, the
 * database dates branches. Without this correction, a new file could look older than its branch.
 */
async function storeClockLagMs({ sql, objects }: Reaping): Promise<number> {
  await objects.put(STORE_CLOCK, new Uint8Array(1))
  const { objects: found } = await objects.list(STORE_CLOCK, { limit: 1 })
  const now = await databaseTime(sql)
  const [written] = found
  if (written === undefined) throw new Error(`the object store does not list ${STORE_CLOCK} after its write`)
  await objects.remove(written.key)
  return Math.max(0, now.getTime() - written.modified.getTime())
}

async function turnOf({ sql, now, config }: Reaping): Promise<(table: TableName) => boolean> {
  const tables = await countTables(sql)
  const intervalMs = config.reaperIntervalMinutes * 60_000
  const ticksPerDay = Math.max(1, Math.floor(DAY_MS / intervalMs))
  const shares = Math.min(ticksPerDay, Math.ceil(tables / TABLES_PER_TICK) || 1)
  const turn = Math.floor(now.getTime() / intervalMs) % shares
  return (table) => hashOf(tableKey(table)) % shares === turn
}

/** FNV-1a with 32 bits: spreads names evenly, with the same result on every call. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
  return hash >>> 0
}

/**
 * Yields the directory of each table with its old files. The listing is sorted, so only one directory is in memory at a time.
 */
async function* oldDirectories(
  { objects, cutoffs }: Reaping,
  { writers, behindMs }: { writers: ReadonlyMap<string, Date>; behindMs: number },
): AsyncGenerator<Directory> {
  let current: (Directory & { prefix: string; before: number }) | null = null
  let after: string | undefined
  for (let truncated = true; truncated; ) {
    const page: { objects: StoredObject[]; truncated: boolean } = await objects.list(LAKE_PREFIX, {
      limit: limits.listCap,
      ...(after !== undefined && { after }),
    })
    for (const { key, modified, size } of page.objects) {
      if (current === null || !key.startsWith(current.prefix)) {
        if (current !== null) yield current
        current = null
        const [prefix, namespace = '', layerName = '', name = ''] = DIRECTORY.exec(key) ?? []
        const layer = layerOf(layerName)
        // Objects outside of table directories are never removed here.
        if (prefix === undefined || layer === undefined) continue
        const table: TableName = { namespace, layer, name }
        const since = writers.get(tableKey(table))?.getTime() ?? Number.POSITIVE_INFINITY
        current = { table, prefix, old: new Map(), before: Math.min(cutoffs.lakeFiles, since) - behindMs }
      }
      if (modified.getTime() < current.before) current.old.set(key, size)
    }
    truncated = page.truncated
    after = page.objects.at(-1)?.key
  }
  if (current !== null) yield current
}

/**
 * The files that no relevant state references. Relevant states are on main, were on main until recently, or are on an open
 * branch.
 */
async function unreferenced(
  reaping: Reaping,
  table: TableName,
  old: ReadonlyMap<string, number>,
  reader: ManifestReader,
): Promise<string[]> {
  const candidates = new Set(old.keys())
  const graceFrom = new Date(reaping.now.getTime() - LAKE_GRACE_MS)
  const scannedSnapshots = new Set<string>()
  for (const { contentId, kind, location, snapshotId, isWhole } of await statesOf(
    reaping.sql,
    table,
    graceFrom,
  )) {
    if (candidates.size === 0) return []
    if (reaping.dryRun?.forgotten.has(contentId)) continue
    candidates.delete(keyIn(location))
    // A view has no other files.
    if (kind === 'view') continue
    // For a state that main replaced earlier, only its own snapshot counts. A later state's metadata may already list that
    // snapshot.
    if (!isWhole && snapshotId !== null && scannedSnapshots.has(snapshotId)) continue
    const metadata = parseMetadata(new TextDecoder().decode(await bytesAt(reaping, location)))
    const current = currentSnapshot(metadata)
    const snapshots = isWhole ? metadata.snapshots : current === undefined ? [] : [current]
    if (isWhole) for (const key of otherFilesOf(metadata)) candidates.delete(key)
    for (const snapshot of snapshots) {
      const id = String(snapshot['snapshot-id'])
      if (scannedSnapshots.has(id)) continue
      scannedSnapshots.add(id)
      await removeReferenced(candidates, snapshot, reader)
    }
  }
  return [...candidates]
}

/** Earlier metadata files in the metadata log, and statistics files that other engines may have written. */
function otherFilesOf(metadata: TableMetadata): string[] {
  const locations = metadata['metadata-log'].map((entry) => entry['metadata-file'])
  for (const name of ['statistics', 'partition-statistics']) {
    const list: unknown = Reflect.get(metadata, name)
    if (!Array.isArray(list)) continue
    for (const entry of list) {
      const path: unknown =
        typeof entry === 'object' && entry !== null && Reflect.get(entry, 'statistics-path')
      if (typeof path === 'string') locations.push(path)
    }
  }
  return locations
    .filter((location) => location.includes(`/${LAKE_PREFIX}`))
    .map((location) => location.slice(rootIn(location).length))
}

/** Removes the files that a snapshot references from `candidates`. Row-level delete files of other engines need no special case. */
async function removeReferenced(
  candidates: Set<string>,
  snapshot: Snapshot,
  reader: ManifestReader,
): Promise<void> {
  candidates.delete(keyIn(snapshot['manifest-list']))
  for (const manifest of await reader.manifests(snapshot)) {
    candidates.delete(keyIn(manifest.location))
    if (candidates.size === 0 || liveFiles(manifest) === 0) continue
    for (const entry of await reader.entries(manifest))
      if (entry.status !== 'deleted') candidates.delete(keyIn(entry.file.location))
  }
}

async function removeAll({ objects, reaped, pause, checkRunning }: Reaping, keys: readonly string[]) {
  for (let from = 0; from < keys.length; from += REMOVALS_AT_ONCE) {
    checkRunning()
    const batch = keys.slice(from, from + REMOVALS_AT_ONCE)
    await Promise.all(batch.map((key) => objects.remove(key)))
    reaped.lakeFilesRemoved += batch.length
    if ((from + batch.length) % REMOVALS_PER_PAUSE === 0) await pause(PAUSE_MS)
  }
}

async function bytesAt({ objects }: Reaping, location: string): Promise<Uint8Array> {
  const bytes = await objects.read(keyIn(location))
  if (bytes === null) throw new Error(`lake file ${location} is missing`)
  return bytes
}
