// Computes a commit from the table and the new data files: the manifests to store and the request to send. Nothing is stored or
// sent here. So a commit that loses a race leaves only unreferenced objects. Sources:
// https://iceberg.apache.org/spec/#snapshots, #sequence-numbers, #optional-snapshot-summary-fields

import type { DataFile, ManifestEntry, ManifestFile } from '../format/data-file.ts'
import { manifestListLocation } from '../format/location.ts'
import { writeManifestList } from '../format/manifest.ts'
import { currentSchema, currentSnapshot, defaultSpec, type TableMetadata } from '../format/metadata.ts'
import { DELETED_RECORDS, deletedRecordsOf } from '../format/row-count.ts'
import { schemaIdIn } from '../format/same-shape.ts'
import { snapshotIdOf } from '../format/snapshot-id.ts'
import type { Schema } from '../format/types.ts'
import { applyUpdates, MAIN } from '../format/updates.ts'
import type { Snapshot, TableRequirement, TableUpdate, UnboundSpec } from '../format/wire.ts'
import { deleteId } from '../read/deletes.ts'
import {
  liveEntries,
  liveFiles,
  liveManifestsOf,
  type ManifestReader,
  readerWith,
  tableFilesOf,
} from '../read/scan.ts'
import {
  addedEntry,
  asExisting,
  type Context,
  MANIFEST_FILES_LIMIT,
  ManifestWriter,
  partitionsIn,
  SMALL_MANIFESTS_LIMIT,
} from './manifest-writer.ts'
import {
  movedTo,
  type NewDataFile,
  type NewDeleteFile,
  type ReplacedFiles,
  type StoredObject,
} from './new-files.ts'
import { creationUpdates } from './new-table.ts'
import { withRowIds } from './row-ids.ts'
import { countsOf, totalOf, totalsOf } from './summary.ts'

/**
 * The number of snapshots in the metadata. Each takes 0.7 KB, and every commit reads, sends and writes all of them. The
 * catalog's commits outlive the snapshots.
 */
export const SNAPSHOTS_KEPT_LIMIT = 25

export interface Write {
  readonly metadata: TableMetadata
  /** The metadata belongs to a table created with `stage-create`, which exists only after this commit succeeds. */
  readonly isStaged: boolean
  /** `append` keeps all existing files, `overwrite` replaces all of them (possibly by none), `rewrite` replaces some. */
  readonly operation: 'append' | 'overwrite' | 'rewrite'
  /** The data files that a rewrite replaces: their locations, by the location of their manifest. */
  readonly replaced?: ReplacedFiles
  /** New files with exactly the rows of the files that they replace. The commit records them before the change. */
  readonly compacted?: CompactedFiles
  /** The schema of the new files, from schemaForReplace or schemaForAppend. Default: the table's own schema. */
  readonly schema?: Schema
  /** The partitioning of the new files. Default: the table's own partitioning. */
  readonly partitionSpec?: UnboundSpec
  /** Properties that an existing table gets with the commit. */
  readonly properties?: Readonly<Record<string, string>>
  readonly files: readonly NewDataFile[]
  /** Deletes of rows in files that stay. */
  readonly deletes?: readonly NewDeleteFile[]
  /** The change of the number of deleted rows in files of the table. Default: unknown. */
  readonly deletedRows?: number
  /** Milliseconds since the epoch. */
  readonly at: number
  /** Unique to this attempt. The names of the objects and the id of the snapshot derive from this uuid. */
  readonly uuid: string
  readonly reader: ManifestReader
  /** More entries of the snapshot's summary, for example the id of the run. */
  readonly summary?: Readonly<Record<string, string>>
}

interface CompactedFiles {
  readonly files: readonly NewDataFile[]
  readonly replaced: ReplacedFiles
  readonly deletedRows: number
  /** Names the objects of the snapshot, as `Write.uuid` does. */
  readonly uuid: string
}

export interface CommitPlan {
  /** The objects to store, in this order, before the request is sent. */
  readonly objects: readonly StoredObject[]
  readonly requirements: readonly TableRequirement[]
  readonly updates: readonly TableUpdate[]
  readonly snapshot: Snapshot
}

/**
 * Plans a commit of one snapshot, or of two when files are compacted. Compacted files get their own `replace` snapshot. So a
 * reader that follows `append` snapshots finds each new row once.
 * @throws BadAvro for unreadable manifests, BadUpdate for an invalid partition spec
 */
export async function planCommit(write: Write): Promise<CommitPlan> {
  const plan = await planSnapshots(write)
  const { properties = {}, isStaged } = write
  // The updates that create a table contain its properties.
  if (isStaged || Object.keys(properties).length === 0) return plan
  return { ...plan, updates: [...plan.updates, { action: 'set-properties', updates: { ...properties } }] }
}

async function planSnapshots(write: Write): Promise<CommitPlan> {
  const { compacted, metadata, at, reader } = write
  if (compacted === undefined || compacted.files.length === 0) return planSnapshot(write)
  const first = await planSnapshot({ ...write, operation: 'replace', deletes: [], ...compacted })
  const second = await planSnapshot({
    ...write,
    metadata: applyUpdates(metadata, first.updates, { at }),
    reader: readerWith(first.objects, reader),
    replaced: movedTo(first.objects, write.replaced),
  })
  return {
    objects: [...first.objects, ...second.objects],
    requirements: first.requirements,
    updates: [...first.updates, ...second.updates],
    snapshot: second.snapshot,
  }
}

/** Plans a `replace` snapshot: new files with exactly the rows of the files that they replace, and fewer small manifests. */
export const planReplacement = (
  write: Omit<Write, 'operation' | 'compacted'> & { smallManifestsLimit: number },
): Promise<CommitPlan> => planSnapshot({ ...write, operation: 'replace' })

type SnapshotWrite = Omit<Write, 'operation' | 'compacted'> & {
  operation: Write['operation'] | 'replace'
  /** Default: `SMALL_MANIFESTS_LIMIT`. */
  smallManifestsLimit?: number
}

async function planSnapshot(write: SnapshotWrite): Promise<CommitPlan> {
  const { metadata, operation, files, deletes = [], reader } = write
  const parent = currentSnapshot(metadata)
  const context = contextOf(write)
  const objects = new ManifestWriter(context)

  const before = parent ? await reader.manifests(parent) : []
  const added = files.map((file) => addedEntry({ ...file, content: 'data' }, context.snapshotId))
  const removed = await carryOverOrRemove(write, before, objects, added)
  const removedDeletes = await carryOverDeletes(write, before, objects, removed)
  for (const [specId, group] of Map.groupBy(deletes, (file) => file.specId))
    objects.add(
      group.map((file) => addedEntry(file, context.snapshotId)),
      { specId, content: 'deletes' },
    )

  const addedFiles = [...added.map(({ file }) => file), ...deletes]
  const removedTotals = totalOf([...removed, ...removedDeletes])
  const { manifests, rowIds } = withRowIds(objects.manifests, metadata)
  const snapshot = snapshotOf(write, context, parent, {
    operation: operationName(
      { added: files.length, deletes: deletes.length, removed: removed.length },
      operation,
    ),
    ...countsOf({
      // An overwrite starts from nothing, whatever another engine has counted.
      before: parent && operation !== 'overwrite' ? await totalsOf(parent, before, reader) : removedTotals,
      added: totalOf(addedFiles),
      removed: removedTotals,
    }),
    'changed-partition-count': String(partitionsIn([...addedFiles, ...removed]).size),
    ...deletedRecords(write, parent),
    ...write.summary,
  })
  const list = writeManifestList({ ...context, parentSnapshotId: parent?.['snapshot-id'] }, manifests)
  return {
    objects: [...objects.stored, { location: snapshot['manifest-list'], bytes: list }],
    requirements: requirementsOf(write, parent),
    updates: updatesOf(write, context, { ...snapshot, ...rowIds }),
    snapshot: { ...snapshot, ...rowIds },
  }
}

/** The operation by the specification: an overwrite that removes nothing is an append. */
function operationName(
  { added, deletes, removed }: Readonly<Record<'added' | 'deletes' | 'removed', number>>,
  requested: SnapshotWrite['operation'],
): Snapshot['summary']['operation'] {
  if (requested === 'replace') return 'replace'
  if (removed + deletes === 0) return 'append'
  return added === 0 ? 'delete' : 'overwrite'
}

function contextOf(write: SnapshotWrite): Context {
  const { metadata, uuid } = write
  return {
    ...schemaAndSpecOf(write),
    snapshotId: snapshotIdOf(uuid),
    sequenceNumber: metadata['last-sequence-number'] + 1,
    table: metadata,
    formatVersion: metadata['format-version'],
    uuid,
  }
}

/**
 * The schema and the spec of the new files, with the ids that the catalog will assign.
 * @throws BadUpdate for a spec that does not fit the schema
 */
export function schemaAndSpecOf({
  metadata,
  schema = currentSchema(metadata),
  partitionSpec,
}: Pick<Write, 'metadata' | 'schema' | 'partitionSpec'>): Pick<Context, 'schema' | 'isNewSchema' | 'spec'> {
  const id = schemaIdIn(metadata.schemas, schema)
  const numbered = { ...schema, 'schema-id': id }
  const isNewSchema = id !== metadata['current-schema-id']
  const updates = shapeUpdates({ schema: numbered, isNewSchema, ...(partitionSpec && { partitionSpec }) })
  const after = applyUpdates(metadata, updates, { at: metadata['last-updated-ms'] })
  return { schema: numbered, isNewSchema, spec: defaultSpec(after) }
}

/** The updates that change the schema and the partition spec, before rows are added. */
function shapeUpdates({
  schema,
  isNewSchema,
  partitionSpec,
}: Pick<Context, 'schema' | 'isNewSchema'> & Pick<Write, 'partitionSpec'>): TableUpdate[] {
  return [
    ...(isNewSchema
      ? ([
          { action: 'add-schema', schema },
          { action: 'set-current-schema', 'schema-id': -1 },
        ] satisfies TableUpdate[])
      : []),
    ...(partitionSpec
      ? ([
          { action: 'add-spec', spec: partitionSpec },
          { action: 'set-default-spec', 'spec-id': -1 },
        ] satisfies TableUpdate[])
      : []),
  ]
}

/**
 * Adds existing manifests of data files without the removed files to the snapshot, then the new files. Returns the removed
 * files.
 */
async function carryOverOrRemove(
  { operation, replaced, reader, smallManifestsLimit }: SnapshotWrite,
  manifests: readonly ManifestFile[],
  objects: ManifestWriter,
  added: readonly ManifestEntry[],
): Promise<DataFile[]> {
  const before = manifests.filter(({ content }) => content === 'data')
  switch (operation) {
    case 'append':
      await carryOver(before, reader, objects)
      objects.add(added)
      return []
    case 'overwrite':
      return objects.replace(before, reader, added)
    case 'replace':
    case 'rewrite': {
      const hasReplaced = (manifest: ManifestFile) => (replaced?.get(manifest.location)?.size ?? 0) > 0
      await carryOver(
        before.filter((manifest) => !hasReplaced(manifest)),
        reader,
        objects,
        smallManifestsLimit,
      )
      const removedLocations = new Set([...(replaced?.values() ?? [])].flatMap((locations) => [...locations]))
      const removed = await objects.remove(before.filter(hasReplaced), reader, ({ file }) =>
        removedLocations.has(file.location),
      )
      objects.add(added)
      return removed
    }
  }
}

/** Keeps the existing manifests of an append. Many small manifests are merged. */
async function carryOver(
  before: readonly ManifestFile[],
  reader: ManifestReader,
  objects: ManifestWriter,
  smallManifestsLimit = SMALL_MANIFESTS_LIMIT,
) {
  const live = before.filter((manifest) => liveFiles(manifest) > 0)
  const small = new Set(live.filter((manifest) => liveFiles(manifest) < MANIFEST_FILES_LIMIT))
  if (small.size < smallManifestsLimit) return objects.carryOver(live)
  objects.carryOver(live.filter((manifest) => !small.has(manifest)))
  await objects.rewrite([...small], reader, asExisting)
}

/**
 * Keeps the delete files that may concern rows of remaining data files. New data files are younger than all deletes. Returns
 * the delete files that are dropped.
 */
async function carryOverDeletes(
  { operation, metadata, reader }: SnapshotWrite,
  before: readonly ManifestFile[],
  objects: ManifestWriter,
  removed: readonly DataFile[],
): Promise<DataFile[]> {
  const deletes = before.filter((manifest) => manifest.content === 'deletes' && liveFiles(manifest) > 0)
  if (deletes.length === 0) return []
  if (operation !== 'overwrite' && removed.length === 0) {
    objects.carryOver(deletes)
    return []
  }
  const used = new Set<string>()
  if (operation !== 'overwrite') {
    const isRemoved = new Set(removed.map(({ location }) => location))
    const parent = currentSnapshot(metadata)?.['snapshot-id'] ?? 0n
    const files = await tableFilesOf(await liveManifestsOf(metadata, parent, reader), reader)
    for (const { file } of files)
      if (!isRemoved.has(file.location)) for (const { id } of file.deletes?.files ?? []) used.add(id)
  }
  const dropped: DataFile[] = []
  for (const manifest of deletes) {
    const unused = (await liveEntries([manifest], reader)).filter(({ file }) => !used.has(deleteId(file)))
    if (unused.length === 0) objects.carryOver([manifest])
    else dropped.push(...(await objects.remove([manifest], reader, ({ file }) => !used.has(deleteId(file)))))
  }
  return dropped
}

function snapshotOf(
  { metadata, at, uuid }: SnapshotWrite,
  { snapshotId, sequenceNumber, schema }: Context,
  parent: Snapshot | undefined,
  summary: Snapshot['summary'],
): Snapshot {
  return {
    'snapshot-id': snapshotId,
    ...(parent && { 'parent-snapshot-id': parent['snapshot-id'] }),
    'sequence-number': sequenceNumber,
    // Clocks differ between machines, but the history never runs backwards.
    'timestamp-ms': Math.max(at, metadata['last-updated-ms']),
    'manifest-list': manifestListLocation(metadata.location, snapshotId, uuid),
    summary,
    'schema-id': schema['schema-id'],
  }
}

function requirementsOf(
  { metadata, isStaged }: SnapshotWrite,
  parent: Snapshot | undefined,
): TableRequirement[] {
  if (isStaged) return [{ type: 'assert-create' }]
  return [
    { type: 'assert-table-uuid', uuid: metadata['table-uuid'] },
    { type: 'assert-ref-snapshot-id', ref: MAIN, 'snapshot-id': parent?.['snapshot-id'] ?? null },
    { type: 'assert-current-schema-id', 'current-schema-id': metadata['current-schema-id'] },
    { type: 'assert-last-assigned-field-id', 'last-assigned-field-id': metadata['last-column-id'] },
    { type: 'assert-default-spec-id', 'default-spec-id': metadata['default-spec-id'] },
    {
      type: 'assert-last-assigned-partition-id',
      'last-assigned-partition-id': metadata['last-partition-id'],
    },
  ]
}

function updatesOf(
  { metadata, isStaged, partitionSpec }: SnapshotWrite,
  { schema, isNewSchema, spec }: Context,
  snapshot: Snapshot,
): TableUpdate[] {
  const expired = expiredSnapshots(metadata)
  const isNewSpec = spec['spec-id'] !== metadata['default-spec-id']
  return [
    ...(isStaged ? creationUpdates(metadata) : []),
    ...shapeUpdates({ schema, isNewSchema, ...(isNewSpec && partitionSpec && { partitionSpec }) }),
    { action: 'add-snapshot', snapshot },
    { action: 'set-snapshot-ref', 'ref-name': MAIN, type: 'branch', 'snapshot-id': snapshot['snapshot-id'] },
    ...(expired.length > 0 ? [{ action: 'remove-snapshots' as const, 'snapshot-ids': expired }] : []),
  ]
}

/** The oldest snapshots beyond the limit, except those of a branch or tag. */
export function expiredSnapshots({ snapshots, refs }: TableMetadata): bigint[] {
  const named = new Set(Object.values(refs).map((ref) => ref['snapshot-id']))
  return snapshots
    .slice(0, Math.max(0, snapshots.length + 1 - SNAPSHOTS_KEPT_LIMIT))
    .map((snapshot) => snapshot['snapshot-id'])
    .filter((id) => !named.has(id))
}

/** Tells the number of deleted rows when it is known and the table may have delete files. */
function deletedRecords(
  { operation, deletedRows }: SnapshotWrite,
  parent: Snapshot | undefined,
): Record<string, string> {
  if (operation === 'overwrite' || deletedRows === undefined) return {}
  const before = parent ? deletedRecordsOf(parent.summary) : 0
  const mayHaveDeletes = deletedRows > 0 || Number(parent?.summary['total-delete-files'] ?? 0) > 0
  if (before === null || !mayHaveDeletes) return {}
  return { [DELETED_RECORDS]: String(Math.max(0, before + deletedRows)) }
}
