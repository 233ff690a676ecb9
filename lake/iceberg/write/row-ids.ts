// Assigns ids to the rows of a snapshot. Source: https://iceberg.apache.org/spec/#first-row-id-assignment

import type { ManifestFile } from '../format/data-file.ts'
import type { TableMetadata } from '../format/metadata.ts'
import type { Snapshot } from '../format/wire.ts'

/** The manifests of a new snapshot with the ids of their first rows, and the ids that the snapshot reserves. */
interface NumberedManifests {
  readonly manifests: readonly ManifestFile[]
  readonly rowIds: Pick<Snapshot, 'first-row-id' | 'added-rows'>
}

/** Numbers the manifests that have no row ids yet. A table before format version 3 has none. */
export function withRowIds(
  manifests: readonly ManifestFile[],
  { 'format-version': version, 'next-row-id': first = 0 }: TableMetadata,
): NumberedManifests {
  if (version < 3) return { manifests, rowIds: {} }
  let next = first
  const numbered = manifests.map((manifest) => {
    if (manifest.content !== 'data' || manifest.firstRowId !== undefined) return manifest
    const firstRowId = next
    next += manifest.addedRows + manifest.existingRows
    return { ...manifest, firstRowId }
  })
  return { manifests: numbered, rowIds: { 'first-row-id': first, 'added-rows': next - first } }
}
