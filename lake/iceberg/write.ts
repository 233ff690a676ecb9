// Computes a commit: from the table as it is and the data files just written, the manifests to store and the request
// to send. Nothing is stored or sent here, so a commit that loses a race leaves only objects that nobody refers to.
// Sources: https://iceberg.apache.org/spec/#snapshots, #sequence-numbers, #optional-snapshot-summary-fields

import { manifestListLocation, manifestLocation } from './location.ts'
import {
  type DataFile,
  describeManifest,
  type ManifestEntry,
  type ManifestFile,
  type PartitionTuple,
  writeManifest,
  writeManifestList,
} from './manifest.ts'
import {
  creationUpdates,
  currentSchema,
  currentSnapshot,
  MAIN,
  type Snapshot,
  schemaIdIn,
  type TableMetadata,
  type TableRequirement,
  type TableUpdate,
  UnsupportedTable,
} from './metadata.ts'
import { liveEntries, liveFiles, type ManifestReader } from './scan.ts'
import type { FileMetrics } from './stats.ts'
import type { Schema } from './types.ts'

/** Manifests with fewer files than this are small; merging fills them up to it. */
export const MANIFEST_FILES_LIMIT = 5_000
/** So many small manifests are merged: a reader opens each of them. */
export const SMALL_MANIFESTS_LIMIT = 100
/** Snapshots kept in the metadata; each commit writes the metadata whole. Commits of the catalog outlive them. */
export const SNAPSHOTS_KEPT_LIMIT = 100

/** A data file that has been stored. */
export interface NewDataFile extends FileMetrics {
  readonly location: string
  readonly partition?: PartitionTuple
}

export interface Write {
  readonly metadata: TableMetadata
  /** The metadata is of a table created with `stage-create`: it exists only once this commit succeeds. */
  readonly isStaged: boolean
  /** `append` keeps the files there are; `overwrite` replaces all of them, also by none. */
  readonly operation: 'append' | 'overwrite'
  /** The schema of the new files, from schemaForReplace or schemaForAppend; by default the table's own. */
  readonly schema?: Schema
  readonly files: readonly NewDataFile[]
  /** Milliseconds since the epoch. */
  readonly at: number
  /** Unique to this attempt: it names the objects and the snapshot. */
  readonly uuid: string
  readonly reader: ManifestReader
  /** More lines for the snapshot's summary, for example the id of the run. */
  readonly summary?: Readonly<Record<string, string>>
}

export interface CommitPlan {
  /** To be stored, in this order, before the request is sent. */
  readonly objects: readonly StoredObject[]
  readonly requirements: readonly TableRequirement[]
  readonly updates: readonly TableUpdate[]
  readonly snapshot: Snapshot
}

export interface StoredObject {
  readonly location: string
  readonly bytes: Uint8Array
}

/** @throws UnsupportedTable for a table with partitions, BadAvro for manifests that cannot be read */
export async function planCommit(write: Write): Promise<CommitPlan> {
  const { metadata, operation, files, reader } = write
  const parent = currentSnapshot(metadata)
  const context = contextOf(write)
  const objects = new ManifestWriter(context)

  const before = parent ? await reader.manifests(parent) : []
  const removed =
    operation === 'overwrite' ? await objects.rewrite(before, reader, asDeleted(context.snapshotId)) : []
  if (operation === 'append') await carryOver(before, reader, objects)
  objects.add(files.map((file) => addedEntry(file, context.snapshotId)))

  const kept = operation === 'append' && parent ? await totalsOf(parent, before, reader) : NOTHING
  const snapshot = snapshotOf(write, context, parent, {
    operation: files.length === 0 && removed.length > 0 ? 'delete' : operation,
    ...summaryOf(kept, totalOf(files), totalOf(removed)),
    ...(operation === 'append' && parent && rowLevelDeletes(parent)),
    ...write.summary,
  })
  const list = writeManifestList({ ...context, parentSnapshotId: parent?.['snapshot-id'] }, objects.manifests)
  return {
    objects: [...objects.stored, { location: snapshot['manifest-list'], bytes: list }],
    requirements: requirementsOf(write, parent),
    updates: updatesOf(write, context, snapshot),
    snapshot,
  }
}

interface Context {
  readonly snapshotId: bigint
  readonly sequenceNumber: number
  readonly schema: Schema
  readonly isNewSchema: boolean
  readonly table: TableMetadata
  readonly uuid: string
}

function contextOf({ metadata, schema = currentSchema(metadata), uuid }: Write): Context {
  const id = schemaIdIn(metadata.schemas, schema)
  return {
    snapshotId: snapshotIdOf(uuid),
    sequenceNumber: metadata['last-sequence-number'] + 1,
    // The catalog numbers schemas; this is the number it will give.
    schema: { ...schema, 'schema-id': id },
    isNewSchema: id !== metadata['current-schema-id'],
    table: metadata,
    uuid,
  }
}

/** A positive 63-bit id out of the 128 bits of a uuid. */
export function snapshotIdOf(uuid: string): bigint {
  const bits = BigInt(`0x${uuid.replaceAll('-', '')}`)
  const folded = BigInt.asUintN(63, bits ^ (bits >> 64n))
  return folded === 0n ? 1n : folded
}

/** Keeps the manifests of an append; merges the small ones when they have become many. */
async function carryOver(before: readonly ManifestFile[], reader: ManifestReader, objects: ManifestWriter) {
  const live = before.filter((manifest) => liveFiles(manifest) > 0)
  const small = new Set(
    live.filter((manifest) => manifest.content === 'data' && liveFiles(manifest) < MANIFEST_FILES_LIMIT),
  )
  if (small.size < SMALL_MANIFESTS_LIMIT) return objects.keep(live)
  objects.keep(live.filter((manifest) => !small.has(manifest)))
  await objects.rewrite([...small], reader, (entry) => ({ ...entry, status: 'existing' }))
}

/** Nobody prunes by the metrics of a file that is gone. */
const asDeleted =
  (snapshotId: bigint) =>
  (entry: ManifestEntry): ManifestEntry => ({
    ...entry,
    status: 'deleted',
    snapshotId,
    file: { ...entry.file, columns: new Map() },
  })

const addedEntry = (
  { location, partition = {}, recordCount, sizeBytes, columns }: NewDataFile,
  snapshotId: bigint,
) =>
  ({
    status: 'added',
    snapshotId,
    sequenceNumber: null,
    fileSequenceNumber: null,
    file: { content: 'data', location, format: 'PARQUET', partition, recordCount, sizeBytes, columns },
  }) satisfies ManifestEntry

/** Collects the manifests of a snapshot: those kept, and those written for it. */
class ManifestWriter {
  readonly manifests: ManifestFile[] = []
  readonly stored: StoredObject[] = []

  constructor(private readonly context: Context) {}

  keep(manifests: readonly ManifestFile[]) {
    this.manifests.push(...manifests)
  }

  /** Writes the live entries of manifests anew, changed, and gives their files. A manifest has one partition spec. */
  async rewrite(
    manifests: readonly ManifestFile[],
    reader: ManifestReader,
    change: (entry: ManifestEntry) => ManifestEntry,
  ): Promise<DataFile[]> {
    const files: DataFile[] = []
    for (const [specId, group] of Map.groupBy(manifests, (manifest) => manifest.specId)) {
      const entries = await liveEntries(group, reader)
      this.add(entries.map(change), specId)
      files.push(...entries.map((entry) => entry.file))
    }
    return files
  }

  add(entries: readonly ManifestEntry[], specId = this.context.table['default-spec-id']) {
    const { table, schema, snapshotId, sequenceNumber, uuid } = this.context
    const spec = table['partition-specs'].find((known) => known['spec-id'] === specId)
    if (!spec) throw new UnsupportedTable(`the table has no partition spec ${specId}`)
    for (let from = 0; from < entries.length; from += MANIFEST_FILES_LIMIT) {
      const part = entries.slice(from, from + MANIFEST_FILES_LIMIT)
      const location = manifestLocation(table.location, uuid, this.stored.length)
      const bytes = writeManifest({ schema, spec }, part)
      this.stored.push({ location, bytes })
      this.manifests.push(
        describeManifest(part, { location, sizeBytes: bytes.length, specId, snapshotId, sequenceNumber }),
      )
    }
  }
}

interface Totals {
  readonly files: number
  readonly records: number
  readonly bytes: number
}

const NOTHING: Totals = { files: 0, records: 0, bytes: 0 }

const totalOf = (files: readonly Pick<DataFile, 'recordCount' | 'sizeBytes'>[]): Totals => ({
  files: files.length,
  records: files.reduce((sum, file) => sum + file.recordCount, 0),
  bytes: files.reduce((sum, file) => sum + file.sizeBytes, 0),
})

/** The totals of a snapshot: from its summary, or counted where another engine left them out. */
async function totalsOf(
  snapshot: Snapshot,
  manifests: readonly ManifestFile[],
  reader: ManifestReader,
): Promise<Totals> {
  const said = (name: string) => Number.parseInt(snapshot.summary[name] ?? '', 10)
  const [files, records, bytes] = [said('total-data-files'), said('total-records'), said('total-files-size')]
  if (Number.isSafeInteger(files + records + bytes)) return { files, records, bytes }
  return totalOf((await liveEntries(manifests, reader)).map((entry) => entry.file))
}

function summaryOf(kept: Totals, added: Totals, removed: Totals): Record<string, string> {
  const counts = {
    'added-data-files': added.files,
    'added-records': added.records,
    'added-files-size': added.bytes,
    'deleted-data-files': removed.files,
    'deleted-records': removed.records,
    'removed-files-size': removed.bytes,
    'changed-partition-count': added.files + removed.files > 0 ? 1 : 0,
    'total-data-files': kept.files + added.files,
    'total-records': kept.records + added.records,
    'total-files-size': kept.bytes + added.bytes,
    'total-delete-files': 0,
    'total-position-deletes': 0,
    'total-equality-deletes': 0,
  }
  return Object.fromEntries(Object.entries(counts).map(([name, count]) => [name, String(count)]))
}

/** Row-level deletes are another engine's; an append keeps them. */
const rowLevelDeletes = ({ summary }: Snapshot): Record<string, string> =>
  Object.fromEntries(Object.entries(summary).filter(([name]) => DELETE_TOTALS.has(name)))

const DELETE_TOTALS: ReadonlySet<string> = new Set([
  'total-delete-files',
  'total-position-deletes',
  'total-equality-deletes',
])

function snapshotOf(
  { metadata, at, uuid }: Write,
  { snapshotId, sequenceNumber, schema }: Context,
  parent: Snapshot | undefined,
  summary: Snapshot['summary'],
): Snapshot {
  return {
    'snapshot-id': snapshotId,
    ...(parent && { 'parent-snapshot-id': parent['snapshot-id'] }),
    'sequence-number': sequenceNumber,
    // Clocks differ between machines; history never runs backwards.
    'timestamp-ms': Math.max(at, metadata['last-updated-ms']),
    'manifest-list': manifestListLocation(metadata.location, snapshotId, uuid),
    summary,
    'schema-id': schema['schema-id'],
  }
}

function requirementsOf({ metadata, isStaged }: Write, parent: Snapshot | undefined): TableRequirement[] {
  if (isStaged) return [{ type: 'assert-create' }]
  return [
    { type: 'assert-table-uuid', uuid: metadata['table-uuid'] },
    { type: 'assert-ref-snapshot-id', ref: MAIN, 'snapshot-id': parent?.['snapshot-id'] ?? null },
    { type: 'assert-current-schema-id', 'current-schema-id': metadata['current-schema-id'] },
    { type: 'assert-last-assigned-field-id', 'last-assigned-field-id': metadata['last-column-id'] },
  ]
}

function updatesOf(
  { metadata, isStaged }: Write,
  { schema, isNewSchema }: Context,
  snapshot: Snapshot,
): TableUpdate[] {
  const expired = expiredSnapshots(metadata)
  return [
    ...(isStaged ? creationUpdates(metadata) : []),
    ...(isNewSchema
      ? ([
          { action: 'add-schema', schema },
          { action: 'set-current-schema', 'schema-id': -1 },
        ] satisfies TableUpdate[])
      : []),
    { action: 'add-snapshot', snapshot },
    { action: 'set-snapshot-ref', 'ref-name': MAIN, type: 'branch', 'snapshot-id': snapshot['snapshot-id'] },
    ...(expired.length > 0 ? [{ action: 'remove-snapshots' as const, 'snapshot-ids': expired }] : []),
  ]
}

/** The oldest snapshots beyond the limit, except those that a branch or tag names. */
function expiredSnapshots({ snapshots, refs }: TableMetadata): bigint[] {
  const named = new Set(Object.values(refs).map((ref) => ref['snapshot-id']))
  return snapshots
    .slice(0, Math.max(0, snapshots.length + 1 - SNAPSHOTS_KEPT_LIMIT))
    .map((snapshot) => snapshot['snapshot-id'])
    .filter((id) => !named.has(id))
}
