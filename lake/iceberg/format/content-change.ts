// The numbers of a change from one state of a table to the next, from the summaries of the snapshots in between.
import { currentSnapshot, snapshotById, type TableMetadata } from './metadata.ts'
import { rowCountOf } from './row-count.ts'
import type { Snapshot } from './wire.ts'

/** A property of a snapshot's summary: the rows that a run inserted or changed. Copied rows do not count. */
export const ROWS_WRITTEN = 'sluice.rows-written'

export interface ContentChange {
  /** The operation of the newest snapshot; `create` for a table without a snapshot, `alter` when only the metadata changed. */
  readonly operation: string
  /** Inserted or changed rows. */
  readonly rowsAdded: number
  /** Changed or removed rows. */
  readonly rowsRemoved: number
}

/** The change from `before` to `after`. A null `before` means that the table did not exist. */
export function contentChange(before: TableMetadata | null, after: TableMetadata): ContentChange {
  const [from, to] = [before ? currentSnapshot(before) : undefined, currentSnapshot(after)]
  if (to === undefined || to['snapshot-id'] === from?.['snapshot-id'])
    return { operation: before === null ? 'create' : 'alter', rowsAdded: 0, rowsRemoved: 0 }
  const { operation } = to.summary
  const written = numberIn(to, ROWS_WRITTEN)
  if (written !== undefined) {
    const growth = rowCountOf(to.summary) - (from ? rowCountOf(from.summary) : 0)
    return { operation, rowsAdded: written, rowsRemoved: Math.max(0, written - growth) }
  }
  const changes = snapshotsSince(after, to, from).filter(({ summary }) => summary.operation !== 'replace')
  const sum = (name: string) =>
    changes.reduce((total, snapshot) => total + (numberIn(snapshot, name) ?? 0), 0)
  // A removed delete file names rows of removed files, or rows that a new delete file names again.
  const deletes = sum('added-position-deletes') - sum('removed-position-deletes')
  const rowsRemoved = Math.max(0, sum('deleted-records') + deletes)
  return { operation, rowsAdded: sum('added-records'), rowsRemoved }
}

/** The ancestors of a snapshot, from the snapshot itself to `from` (exclusive). */
function snapshotsSince(metadata: TableMetadata, to: Snapshot, from: Snapshot | undefined): Snapshot[] {
  const snapshots: Snapshot[] = []
  let next: Snapshot | undefined = to
  while (
    next !== undefined &&
    next['snapshot-id'] !== from?.['snapshot-id'] &&
    snapshots.length <= metadata.snapshots.length
  ) {
    snapshots.push(next)
    const parent: bigint | undefined = next['parent-snapshot-id']
    next = parent === undefined ? undefined : snapshotById(metadata, parent)
  }
  return snapshots
}

function numberIn({ summary }: Snapshot, name: string): number | undefined {
  const text = summary[name]
  const value = text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : undefined
  return value
}
