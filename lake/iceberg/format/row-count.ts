// The number of rows that readers see, from the summary of a snapshot.
import type { Snapshot } from './wire.ts'

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
