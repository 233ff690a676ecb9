import { parseMetadata, serializeMetadata, type TableMetadata } from '../../lake/iceberg/format/metadata.ts'

/** All snapshots, or only those that a branch or tag of the table names. */
export type SnapshotsShown = 'all' | 'refs'

/**
 * The metadata for foreign engines. An engine that removes old snapshots also deletes their files, but other branches may still
 * read these files. So the property `gc.enabled` forbids it.
 */
export function servedMetadata(text: string, shown: SnapshotsShown): string {
  const metadata = parseMetadata(text)
  return serializeMetadata({
    ...metadata,
    properties: { ...metadata.properties, 'gc.enabled': 'false' },
    ...(shown === 'refs' && { snapshots: namedSnapshots(metadata) }),
  })
}

function namedSnapshots({ snapshots, refs }: TableMetadata) {
  const ids = new Set(Object.values(refs).map((ref) => ref['snapshot-id']))
  return snapshots.filter((snapshot) => ids.has(snapshot['snapshot-id']))
}
