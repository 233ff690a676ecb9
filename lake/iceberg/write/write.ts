// Computes a commit from the table and the new data files: the manifests to store and the request to send. Nothing is stored or
// sent here. So a commit that loses a race leaves only unreferenced objects. Sources:
// https://iceberg.apache.org/spec/#snapshots, #sequence-numbers, #optional-snapshot-summary-fields

import { manifestListLocation, manifestLocation } from '../format/location.ts'
import {
  type DataFile,
  describeManifest,
  type ManifestEntry,
  type ManifestFile,
  type PartitionTuple,
  tupleText,
  writeManifest,
  writeManifestList,
} from '../format/manifest.ts'
import { partitionTypes } from '../format/manifest-schema.ts'
import {
  currentSchema,
  currentSnapshot,
  defaultSpec,
  type FormatVersion,
  type PartitionSpec,
  type TableMetadata,
  UnsupportedTable,
} from '../format/metadata.ts'
import { DELETED_RECORDS, deletedRecordsOf } from '../format/row-count.ts'
import { fieldsOf, type Schema } from '../format/types.ts'
import { applyUpdates, MAIN, schemaIdIn } from '../format/updates.ts'
import type { Snapshot, TableRequirement, TableUpdate, UnboundSpec } from '../format/wire.ts'
import { deleteId } from '../read/deletes.ts'
import {
  liveEntries,
  liveFiles,
  liveManifestsOf,
  type ManifestReader,
  readerWith,
  type TableFile,
  tableFilesOf,
} from '../read/scan.ts'
import { creationUpdates } from './new-table.ts'
import { withRowIds } from './row-ids.ts'
import type { FileMetrics } from './stats.ts'
import { countsOf, totalOf, totalsOf } from './summary.ts'

/** A manifest with fewer files is small. Merging fills manifests up to this number. */
export const MANIFEST_FILES_LIMIT = 5_000
/** This many small manifests are merged, because a reader opens each manifest. */
export const SMALL_MANIFESTS_LIMIT = 100
/**
 * The number of snapshots in the metadata. Each takes 0.7 KB, and every commit reads, sends and writes all of them. The
 * catalog's commits outlive the snapshots.
 */
export const SNAPSHOTS_KEPT_LIMIT = 25

/** A data file that is already stored. */
export interface NewDataFile extends FileMetrics {
  readonly location: string
  readonly partition?: PartitionTuple
}

/** A delete file that is already stored. Its spec and partition are those of the data files concerned. */
export interface NewDeleteFile extends NewDataFile {
  readonly content: 'position-deletes' | 'equality-deletes'
  readonly specId: number
  /** The compared columns of equality deletes. */
  readonly equalityIds?: readonly number[]
  /** `PUFFIN` for a deletion vector. Default: `PARQUET`. */
  readonly format?: string
  readonly referencedDataFile?: string
  readonly contentOffset?: number
  readonly contentSizeBytes?: number
}

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

type ReplacedFiles = ReadonlyMap<string, ReadonlySet<string>>

interface CompactedFiles {
  readonly files: readonly NewDataFile[]
  readonly replaced: ReplacedFiles
  readonly deletedRows: number
  /** Names the objects of the snapshot, as `Write.uuid` does. */
  readonly uuid: string
}

/** Groups files of a table for `replaced`. */
export function replacedFiles(files: readonly TableFile[]): ReplacedFiles {
  const byManifest = Map.groupBy(files, ({ manifest }) => manifest)
  return new Map(
    Array.from(byManifest, ([manifest, own]) => [manifest, new Set(own.map(({ file }) => file.location))]),
  )
}

export interface CommitPlan {
  /** The objects to store, in this order, before the request is sent. */
  readonly objects: readonly StoredObject[]
  readonly requirements: readonly TableRequirement[]
  readonly updates: readonly TableUpdate[]
  readonly snapshot: Snapshot
}

export interface StoredObject {
  readonly location: string
  readonly bytes: Uint8Array
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

/** The same files, after a snapshot has perhaps moved their entries to its own manifests. */
function movedTo(objects: readonly StoredObject[], replaced: ReplacedFiles = new Map()): ReplacedFiles {
  const locations = new Set([...replaced.values()].flatMap((ofManifest) => [...ofManifest]))
  return new Map([...replaced, ...objects.map(({ location }) => [location, locations] as const)])
}

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

/** The operation by the specification: an overwrite that removes nothing is an append. */
function operationName(
  { added, deletes, removed }: Readonly<Record<'added' | 'deletes' | 'removed', number>>,
  requested: SnapshotWrite['operation'],
): Snapshot['summary']['operation'] {
  if (requested === 'replace') return 'replace'
  if (removed + deletes === 0) return 'append'
  return added === 0 ? 'delete' : 'overwrite'
}

interface Context {
  readonly snapshotId: bigint
  readonly sequenceNumber: number
  readonly schema: Schema
  readonly isNewSchema: boolean
  /** The spec of the new files, with the id that the catalog will assign. */
  readonly spec: PartitionSpec
  readonly table: TableMetadata
  readonly formatVersion: FormatVersion
  readonly uuid: string
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

/** Derives a positive 63-bit id from the 128 bits of a uuid. */
export function snapshotIdOf(uuid: string): bigint {
  const bits = BigInt(`0x${uuid.replaceAll('-', '')}`)
  const folded = BigInt.asUintN(63, bits ^ (bits >> 64n))
  return folded === 0n ? 1n : folded
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

/** The entry loses its metrics, because no reader prunes deleted files. */
const asDeleted = (entry: ManifestEntry, snapshotId: bigint): ManifestEntry => ({
  ...entry,
  status: 'deleted',
  snapshotId,
  file: { ...entry.file, columns: new Map() },
})

const asExisting = (entry: ManifestEntry): ManifestEntry => ({ ...entry, status: 'existing' })

const addedEntry = (
  { specId: _, ...file }: NewDataFile & Pick<DataFile, 'content'> & { readonly specId?: number },
  snapshotId: bigint,
) =>
  ({
    status: 'added',
    snapshotId,
    sequenceNumber: null,
    fileSequenceNumber: null,
    file: { format: 'PARQUET', partition: {}, ...file },
  }) satisfies ManifestEntry

/** Collects the manifests of a snapshot: retained manifests and newly written ones. */
class ManifestWriter {
  readonly manifests: ManifestFile[] = []
  readonly stored: StoredObject[] = []

  constructor(private readonly context: Context) {}

  carryOver(manifests: readonly ManifestFile[]) {
    this.manifests.push(...manifests)
  }

  /** Rewrites the live entries of manifests through `change`, one manifest per spec and content. Returns the original entries. */
  async rewrite(
    manifests: readonly ManifestFile[],
    reader: ManifestReader,
    change: (entry: ManifestEntry) => ManifestEntry,
  ): Promise<ManifestEntry[]> {
    const all: ManifestEntry[] = []
    for (const group of Map.groupBy(manifests, ({ specId, content }) => `${specId} ${content}`).values()) {
      const entries = await liveEntries(group, reader)
      this.add(entries.map(change), group[0])
      all.push(...entries)
    }
    return all
  }

  /** Rewrites manifests and marks some of their files as deleted. Returns these files. */
  async remove(
    manifests: readonly ManifestFile[],
    reader: ManifestReader,
    isRemoved: (entry: ManifestEntry) => boolean,
  ): Promise<DataFile[]> {
    const { snapshotId } = this.context
    const before = await this.rewrite(manifests, reader, (entry) =>
      isRemoved(entry) ? asDeleted(entry, snapshotId) : asExisting(entry),
    )
    return before.filter(isRemoved).map((entry) => entry.file)
  }

  /**
   * Removes all existing files and adds the new ones. One manifest lists both, if they have the same spec. Returns the removed
   * files.
   */
  async replace(
    manifests: readonly ManifestFile[],
    reader: ManifestReader,
    added: readonly ManifestEntry[],
  ): Promise<DataFile[]> {
    const { snapshotId, spec } = this.context
    const newSpecId = spec['spec-id']
    const hasNewSpec = ({ specId }: ManifestFile) => specId === newSpecId
    const others = await this.remove(
      manifests.filter((manifest) => !hasNewSpec(manifest)),
      reader,
      () => true,
    )
    const removedEntries = await liveEntries(manifests.filter(hasNewSpec), reader)
    this.add([...removedEntries.map((entry) => asDeleted(entry, snapshotId)), ...added])
    return [...others, ...removedEntries.map((entry) => entry.file)]
  }

  add(
    entries: readonly ManifestEntry[],
    { specId, content }: Pick<ManifestFile, 'specId' | 'content'> = {
      specId: this.context.spec['spec-id'],
      content: 'data',
    },
  ) {
    const { table, formatVersion, snapshotId, sequenceNumber, uuid } = this.context
    const spec = this.specOf(specId)
    const schema = this.schemaOf(spec)
    const partitions = partitionTypes(spec, schema)
    for (let from = 0; from < entries.length; from += MANIFEST_FILES_LIMIT) {
      const part = entries.slice(from, from + MANIFEST_FILES_LIMIT)
      const location = manifestLocation(table.location, uuid, this.stored.length)
      const bytes = writeManifest({ schema, spec, content, formatVersion }, part)
      this.stored.push({ location, bytes })
      const described = {
        location,
        sizeBytes: bytes.length,
        specId,
        snapshotId,
        sequenceNumber,
        content,
        partitions,
      }
      this.manifests.push(describeManifest(part, described))
    }
  }

  private specOf(id: number): PartitionSpec {
    const { spec, table } = this.context
    const match =
      id === spec['spec-id']
        ? spec
        : table['partition-specs'].find((candidate) => candidate['spec-id'] === id)
    if (!match) throw new UnsupportedTable(`the table has no partition spec ${id}`)
    return match
  }

  /** The newest schema with all source columns of a spec. An old spec may use columns that no longer exist. */
  private schemaOf({ fields }: PartitionSpec): Schema {
    const { schema, table } = this.context
    const hasSources = (candidate: Schema) => {
      const ids = new Set([...fieldsOf(candidate)].map(({ id }) => id))
      return fields.every((field) => ids.has(field['source-id']))
    }
    return [schema, ...table.schemas.toReversed()].find(hasSources) ?? schema
  }
}

/** The partitions of files, each as a unique text. */
const partitionsIn = (files: readonly Pick<NewDataFile, 'partition'>[]): Set<string> =>
  new Set(files.map(({ partition = {} }) => tupleText(partition)))

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
