// Computes a commit that gives a table an earlier content. The commit is a new snapshot with the manifests of the earlier one.
// So the history stays linear: sequence numbers grow, and every reader sees the restore as an overwrite. Nothing is stored here.
import { manifestListLocation } from '../format/location.ts'
import { writeManifestList } from '../format/manifest.ts'
import {
  currentSchema,
  currentSnapshot,
  defaultSortOrder,
  defaultSpec,
  type TableMetadata,
} from '../format/metadata.ts'
import { DELETED_RECORDS } from '../format/row-count.ts'
import { snapshotIdOf } from '../format/snapshot-id.ts'
import { applyUpdates, MAIN } from '../format/updates.ts'
import type { Snapshot, TableUpdate } from '../format/wire.ts'
import { type ChangedFiles, changedFiles, manifestsOf } from '../read/changed-files.ts'
import { liveFiles, type ManifestReader } from '../read/scan.ts'
import type { StoredObject } from './new-files.ts'
import { withRowIds } from './row-ids.ts'
import { expiredSnapshots } from './write.ts'

interface Restore {
  /** The table now. */
  readonly metadata: TableMetadata
  /** The state whose content, columns, partitions and sort order the table gets again. */
  readonly earlier: TableMetadata
  /** Milliseconds since the epoch. */
  readonly at: number
  /** The names of the objects and the id of the snapshot derive from this uuid. */
  readonly uuid: string
  readonly reader: ManifestReader
  /** More entries of the snapshot's summary. */
  readonly summary: Readonly<Record<string, string>>
  /** The metadata file that this commit replaces. */
  readonly previousFile: string
}

interface RestorePlan {
  readonly manifestList: StoredObject
  readonly metadata: TableMetadata
  /** Rows of the files that only one state has; null when a state has row-level deletes. */
  readonly rowsAdded: number | null
  readonly rowsRemoved: number | null
}

/** Plans the restore. Both states must be of the same table. @throws BadAvro for unreadable manifests */
export async function planRestore(restore: Restore): Promise<RestorePlan> {
  const { metadata, earlier, uuid, reader } = restore
  const [files, manifests] = await Promise.all([
    changedFiles(metadata, earlier, reader),
    manifestsOf(earlier, reader),
  ])
  const snapshotId = snapshotIdOf(uuid)
  const sequenceNumber = metadata['last-sequence-number'] + 1
  const parentSnapshotId = metadata['current-snapshot-id']
  const location = manifestListLocation(metadata.location, snapshotId, uuid)
  const { manifests: restored, rowIds } = withRowIds(
    manifests.filter((each) => liveFiles(each) > 0),
    metadata,
  )
  const formatVersion = metadata['format-version']
  const bytes = writeManifestList({ snapshotId, parentSnapshotId, sequenceNumber, formatVersion }, restored)
  // The number of the schema depends on the schemas that the table has now.
  const shaped = applyUpdates(metadata, shapeOf(earlier), { at: metadata['last-updated-ms'] })
  const snapshot: Snapshot = {
    'snapshot-id': snapshotId,
    ...(parentSnapshotId !== undefined && { 'parent-snapshot-id': parentSnapshotId }),
    'sequence-number': sequenceNumber,
    'timestamp-ms': Math.max(restore.at, metadata['last-updated-ms']),
    'manifest-list': location,
    summary: { ...summaryOf(earlier, files), ...restore.summary, operation: 'overwrite' },
    'schema-id': shaped['current-schema-id'],
    ...rowIds,
  }
  const expired = expiredSnapshots(metadata)
  const updates: TableUpdate[] = [
    ...shapeOf(earlier),
    { action: 'add-snapshot', snapshot },
    { action: 'set-snapshot-ref', 'ref-name': MAIN, type: 'branch', 'snapshot-id': snapshotId },
    ...(expired.length > 0 ? [{ action: 'remove-snapshots' as const, 'snapshot-ids': expired }] : []),
  ]
  return {
    manifestList: { location, bytes },
    metadata: applyUpdates(metadata, updates, {
      at: snapshot['timestamp-ms'],
      previousFile: restore.previousFile,
    }),
    rowsAdded: files.hasRowDeletes ? null : rowsOf(files.added),
    rowsRemoved: files.hasRowDeletes ? null : rowsOf(files.removed),
  }
}

/** Columns, partitions and sort order of a state. A table that has them already gets no second copy. */
function shapeOf(earlier: TableMetadata): TableUpdate[] {
  return [
    { action: 'add-schema', schema: currentSchema(earlier) },
    { action: 'set-current-schema', 'schema-id': -1 },
    { action: 'add-spec', spec: { fields: [...defaultSpec(earlier).fields] } },
    { action: 'set-default-spec', 'spec-id': -1 },
    { action: 'add-sort-order', 'sort-order': defaultSortOrder(earlier) },
    { action: 'set-default-sort-order', 'sort-order-id': -1 },
  ]
}

const rowsOf = (files: ChangedFiles['added']) => files.reduce((sum, { recordCount }) => sum + recordCount, 0)
const bytesOf = (files: ChangedFiles['added']) => files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)

const NO_FILES = { 'total-data-files': '0', 'total-records': '0', 'total-files-size': '0' }

/** The totals are those of the earlier state; the other numbers are the files that the two states do not share. */
function summaryOf(earlier: TableMetadata, { added, removed }: ChangedFiles): Record<string, string> {
  const { summary = NO_FILES } = currentSnapshot(earlier) ?? {}
  const totals = Object.entries(summary).filter(
    ([name]) => name.startsWith('total-') || name === DELETED_RECORDS,
  )
  const counts = {
    'added-data-files': added.length,
    'added-records': rowsOf(added),
    'added-files-size': bytesOf(added),
    'deleted-data-files': removed.length,
    'deleted-records': rowsOf(removed),
    'removed-files-size': bytesOf(removed),
  }
  return {
    ...Object.fromEntries(Object.entries(counts).map(([name, number]) => [name, String(number)])),
    ...Object.fromEntries(totals),
  }
}
