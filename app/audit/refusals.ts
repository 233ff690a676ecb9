// Requests that were refused before their sender was known. Anyone can send any number of them, so they are counted: one row a
// minute and status. The row shows the first of its requests.

import type { NewId } from '../core/ids.ts'

/** After this time, counting restarts with new rows. */
const MINUTE_MS = 60_000
/** While this many rows wait for the database, no new minute starts. So the rows of an outage are limited. */
const WAITING_ROWS = 100
/** Longest path in the row of a refusal, because anyone chooses the path. Paths of this API are shorter. */
export const RESOURCE_LENGTH = 256
/** Counts are stored again only after this time, because each update leaves a dead row in Postgres. */
export const REFRESH_MS = 1_000

export interface Refusal {
  action: string
  resource: string
  ip: string
  peer: string
  status: number
  userId: string
  key: string
}

interface RefusalRow extends Refusal {
  id: string
  /** Time of the first request in the row, by the monotonic clock. */
  at: number
  count: number
}

export type Refusals = ReturnType<typeof makeRefusals>

export function makeRefusals(newId: NewId) {
  let endsAt = Number.NEGATIVE_INFINITY
  let takenAt = Number.NEGATIVE_INFINITY
  /** The rows of this minute by status. */
  const counting = new Map<number, RefusalRow>()
  /** Rows that differ from their stored version. */
  const changed = new Set<RefusalRow>()

  return {
    /** Counts a refusal. `nowMs` is the time of the monotonic clock. */
    add(refusal: Refusal, nowMs: number): void {
      if (nowMs >= endsAt && changed.size < WAITING_ROWS) {
        endsAt = nowMs + MINUTE_MS
        counting.clear()
      }
      const row = counting.get(refusal.status) ?? {
        ...refusal,
        resource: refusal.resource.slice(0, RESOURCE_LENGTH).toWellFormed(),
        id: newId(),
        at: nowMs,
        count: 0,
      }
      // A row with requests of several users belongs to none of them.
      if (row.userId !== refusal.userId) row.userId = ''
      if (row.key !== refusal.key) row.key = ''
      row.count++
      counting.set(refusal.status, row)
      changed.add(row)
    },
    hasChanges: () => changed.size > 0,
    /** The rows to store now, at most once per REFRESH_MS or when `isUrgent`. The caller stores them. */
    take(nowMs: number, isUrgent: boolean): RefusalRow[] {
      if (!isUrgent && nowMs - takenAt < REFRESH_MS) return []
      takenAt = nowMs
      const rows = [...changed].map((row) => ({ ...row }))
      changed.clear()
      return rows
    },
  }
}
