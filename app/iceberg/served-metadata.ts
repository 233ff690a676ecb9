import {
  serializeMetadata,
  type TableMetadata,
  withFormerDirectories,
} from '../../lake/iceberg/format/metadata.ts'
import { forbidden } from './errors.ts'

/** All snapshots, or only those that a branch or tag of the table names. */
export type SnapshotsShown = 'all' | 'refs'

/**
 * The metadata for foreign engines. An engine that removes old snapshots also deletes their files, but other branches may still
 * read these files. So the property `gc.enabled` forbids it.
 */
export function servedMetadata(stored: TableMetadata, shown: SnapshotsShown): string {
  const metadata = withFormerDirectories(stored, [])
  return serializeMetadata({
    ...metadata,
    properties: { ...metadata.properties, 'gc.enabled': 'false' },
    ...(shown === 'refs' && { snapshots: namedSnapshots(metadata) }),
  })
}

/**
 * Properties as stored: `gc.enabled` is only in served metadata, and engines send it back. Throws 403 for another value, because
 * branches share the files of a table.
 */
export function withoutGarbageCollection(
  properties: Readonly<Record<string, string>>,
): Record<string, string> {
  const { 'gc.enabled': value, ...others } = properties
  if (value !== undefined && value !== 'false') throw forbidden(GC_REFUSED)
  return others
}

export const GC_REFUSED = 'gc.enabled: must stay false, because branches share the files of a table'

function namedSnapshots({ snapshots, refs }: TableMetadata) {
  const ids = new Set(Object.values(refs).map((ref) => ref['snapshot-id']))
  return snapshots.filter((snapshot) => ids.has(snapshot['snapshot-id']))
}
