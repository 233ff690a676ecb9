// The summary of a snapshot. Source: https://iceberg.apache.org/spec/#optional-snapshot-summary-fields

import type { DataFile, ManifestFile } from '../format/manifest.ts'
import type { Snapshot } from '../format/wire.ts'
import { liveEntries, type ManifestReader } from '../read/scan.ts'

type CountedFile = Pick<DataFile, 'content' | 'recordCount' | 'sizeBytes'>

/** Numbers of live files and their rows. The sizes include delete files. */
export interface Totals {
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
    bytes: files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
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

/** Counts deleted rows of live files. Stale lines of delete files do not count. Only our own writer knows this number. */
export const DELETED_RECORDS = 'sluice.deleted-records'

/** The number of deleted rows in live files by a summary. Null: unknown, because equality deletes name no rows. */
export function deletedRecordsOf(summary: Snapshot['summary']): number | null {
  const total = (name: string) => Number(summary[name] ?? 0)
  if (total('total-delete-files') === 0) return 0
  if (summary[DELETED_RECORDS] !== undefined) return total(DELETED_RECORDS)
  return total('total-equality-deletes') > 0 ? null : total('total-position-deletes')
}

/** The number of rows that readers see. Deletes whose rows are unknown do not count, so the number may be too large. */
export const rowCountOf = (summary: Snapshot['summary']): number =>
  Math.max(0, Number(summary['total-records'] ?? 0) - (deletedRecordsOf(summary) ?? 0))

const present = (counts: Readonly<Record<string, number>>): Record<string, number> =>
  Object.fromEntries(Object.entries(counts).filter(([, count]) => count > 0))
