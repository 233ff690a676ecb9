// A dry run of the reaper performs the duties of a tick, undoes all their writes, and lists everything that they would remove.
import type { Fenced } from '../../drizzle/client.ts'
import type { Removal } from '../core/removals.ts'

/** The number of names per kind in an answer. The total counts all. */
const ITEMS_LIMIT = 100

/** The removals that one dry run has found. */
export class DryRun {
  readonly removals: Removal[] = []
  /** Names of the duties that stopped early or failed, so that their totals are lower bounds. */
  readonly incomplete = new Set<string>()
  /** Ids of catalog contents that the duties would delete. Files that only these contents name would go with them. */
  readonly forgotten = new Set<string>()
  private duty = ''

  begin(duty: string): void {
    this.duty = duty
  }

  /** Adds removals of the current duty: their names, or only their number. */
  add(kind: Removal['kind'], removed: readonly string[] | number, sizeBytes = 0): void {
    const [count, names] = typeof removed === 'number' ? [removed, []] : [removed.length, removed]
    if (count === 0) return
    const { duty } = this
    let removal = this.removals.find((known) => known.duty === duty && known.kind === kind)
    if (removal === undefined) {
      removal = { duty, kind, total: 0, size_bytes: 0, items: [] }
      this.removals.push(removal)
    }
    removal.total += count
    removal.size_bytes += sizeBytes
    removal.items.push(...names.slice(0, ITEMS_LIMIT - removal.items.length))
  }

  /** The current duty has more to remove than this dry run looks at. */
  stopEarly(): void {
    this.incomplete.add(this.duty)
  }
}

/** Performs each transaction and rolls it back. */
export const undone =
  (write: Fenced): Fenced =>
  async (work) => {
    const undo = new Error('transaction of a dry run undone')
    const results: Awaited<ReturnType<typeof work>>[] = []
    try {
      await write(async (tx) => {
        results.push(await work(tx))
        throw undo
      })
    } catch (error) {
      if (error !== undo) throw error
    }
    const [result] = results
    return result ?? null
  }
