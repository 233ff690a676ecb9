// The summary of a snapshot. Source: https://iceberg.apache.org/spec/#optional-snapshot-summary-fields

import type { DataFile, ManifestFile } from '../format/data-file.ts'
import type { Snapshot } from '../format/wire.ts'
import { liveEntries, type ManifestReader } from '../read/scan.ts'

type CountedFile = Pick<DataFile, 'content' | 'recordCount' | 'sizeBytes' | 'contentSizeBytes'>

/** Numbers of live files and their rows. The sizes include delete files. */
interface Totals {
  readonly files: number
  readonly records: number
  readonly bytes: number
  readonly deleteFiles: number
  readonly positionDeletes: number
  readonly equalityDeletes: number
}

export function totalOf(files: readonly CountedFile[]): Totals {
  const count = (content: DataFile['content']) => {
    const own = files.filter((file) => file.content === content)
    return { files: own.length, records: own.reduce((sum, { recordCount }) => sum + recordCount, 0) }
  }
  const [positions, equalities] = [count('position-deletes'), count('equality-deletes')]
  return {
    ...count('data'),
    // A Puffin file holds several deletion vectors.
    bytes: files.reduce((sum, { sizeBytes, contentSizeBytes }) => sum + (contentSizeBytes ?? sizeBytes), 0),
    deleteFiles: positions.files + equalities.files,
    positionDeletes: positions.records,
    equalityDeletes: equalities.records,
  }
}

/** The totals of a snapshot: from its summary, or counted when another engine omitted them. */
export async function totalsOf(
  { summary }: Snapshot,
  manifests: readonly ManifestFile[],
  reader: ManifestReader,
): Promise<Totals> {
  const total = (name: string) => Number.parseInt(summary[`total-${name}`] ?? '', 10)
  const totals: Totals = {
    files: total('data-files'),
    records: total('records'),
    bytes: total('files-size'),
    deleteFiles: total('delete-files'),
    positionDeletes: total('position-deletes'),
    equalityDeletes: total('equality-deletes'),
  }
  if (Object.values(totals).every(Number.isSafeInteger)) return totals
  return totalOf((await liveEntries(manifests, reader)).map(({ file }) => file))
}

/** The counts of a summary. */
export function countsOf({ before, added, removed }: Record<'before' | 'added' | 'removed', Totals>) {
  const total = (name: keyof Totals) => Math.max(0, before[name] - removed[name] + added[name])
  const counts = {
    'added-data-files': added.files,
    'added-records': added.records,
    'added-files-size': added.bytes,
    'deleted-data-files': removed.files,
    'deleted-records': removed.records,
    'removed-files-size': removed.bytes,
    'total-data-files': total('files'),
    'total-records': total('records'),
    'total-files-size': total('bytes'),
    'total-delete-files': total('deleteFiles'),
    'total-position-deletes': total('positionDeletes'),
    'total-equality-deletes': total('equalityDeletes'),
    ...present({
      'added-delete-files': added.deleteFiles,
      'added-position-deletes': added.positionDeletes,
      'added-equality-deletes': added.equalityDeletes,
      'removed-delete-files': removed.deleteFiles,
      'removed-position-deletes': removed.positionDeletes,
      'removed-equality-deletes': removed.equalityDeletes,
    }),
  }
  return Object.fromEntries(Object.entries(counts).map(([name, count]) => [name, String(count)]))
}

const present = (counts: Readonly<Record<string, number>>): Record<string, number> =>
  Object.fromEntries(Object.entries(counts).filter(([, count]) => count > 0))
