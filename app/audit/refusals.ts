// Requests that were refused before their sender was known. Anyone can send any number of them, so they are counted. The number
// of their rows per minute is limited, whatever the number of requests and addresses.

import type { NewId } from '../core/ids.ts'
import { networkOf } from '../core/rate-limit.ts'

/** After this time, counting restarts with new rows. The limits below apply to the rows of one such minute. */
const MINUTE_MS = 60_000
/** The first refusals of one address get separate rows, so that a person who mistypes a key finds each attempt. */
export const FULL_ROWS_PER_ADDRESS = 10
/** The same limit for all addresses together, because forwarded addresses can be forged. */
const FULL_ROWS = 100
/** Maximum number of rows per minute that count several refusals. Further addresses share one row per status. */
const COUNTING_ROWS = 200
/** While this many rows wait for the database, no new minute starts. So no more than the rows of one minute are added. */
const WAITING_ROWS = 1_000
/** Longest path in the row of a refusal, because anyone can fill 300 rows a minute. Paths of this API are shorter. */
export const RESOURCE_LENGTH = 256
/** The value of `ip` in the row that counts all further addresses. */
export const OTHER_ADDRESSES = 'other'
/** A count that grew is stored again only after this time, because each update leaves a dead row in Postgres. */
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

export interface RefusalRow extends Refusal {
  id: string
  /** Time of the first request in the row, by the monotonic clock. */
  at: number
  count: number
}

interface Counted {
  row: RefusalRow
  storedAt: number
}

export type Refusals = ReturnType<typeof makeRefusals>

export function makeRefusals(newId: NewId) {
  let endsAt = Number.NEGATIVE_INFINITY
  let fullRows = 0
  const fullRowsOf = new Map<string, number>()
  /** By status and sender. */
  const counting = new Map<string, Counted>()
  /** Rows that differ from their stored version. */
  const changed = new Set<Counted>()

  function beginMinute(nowMs: number) {
    if (nowMs < endsAt || changed.size >= WAITING_ROWS) return
    endsAt = nowMs + MINUTE_MS
    fullRows = 0
    fullRowsOf.clear()
    counting.clear()
  }

  function hasFullRow(network: string): boolean {
    const ofAddress = fullRowsOf.get(network) ?? 0
    if (fullRows >= FULL_ROWS || ofAddress >= FULL_ROWS_PER_ADDRESS) return false
    fullRows++
    fullRowsOf.set(network, ofAddress + 1)
    return true
  }

  function rowFor(refusal: Refusal, nowMs: number): Counted {
    return {
      row: { ...refusal, resource: beginningOf(refusal.resource), id: newId(), at: nowMs, count: 1 },
      storedAt: Number.NEGATIVE_INFINITY,
    }
  }

  return {
    /** Counts a refusal. `nowMs` is the time of the monotonic clock. */
    add(refusal: Refusal, nowMs: number): void {
      beginMinute(nowMs)
      const network = networkOf(refusal.ip)
      if (hasFullRow(network)) {
        changed.add(rowFor(refusal, nowMs))
        return
      }
      const group = [refusal.status, network, refusal.userId, refusal.key].join('\n')
      const isOther = counting.size >= COUNTING_ROWS && !counting.has(group)
      const name = isOther ? `${refusal.status}\n${OTHER_ADDRESSES}` : group
      let counted = counting.get(name)
      if (counted === undefined) {
        const shown = isOther ? { ...refusal, ip: OTHER_ADDRESSES, peer: '', userId: '', key: '' } : refusal
        counted = rowFor(shown, nowMs)
        counting.set(name, counted)
      } else counted.row.count++
      changed.add(counted)
    },
    hasChanges: () => changed.size > 0,
    /** Rows to store now: new rows at once; rows whose count grew after a pause, or at once when `isUrgent`. */
    due(nowMs: number, isUrgent: boolean): RefusalRow[] {
      const due: RefusalRow[] = []
      for (const { row, storedAt } of changed)
        if (isUrgent || nowMs - storedAt >= REFRESH_MS) due.push({ ...row })
      return due
    },
    /** Tells this object that the database has stored the rows with these counts. */
    stored(rows: readonly RefusalRow[], nowMs: number): void {
      const counts = new Map(rows.map(({ id, count }) => [id, count]))
      for (const counted of changed) {
        const count = counts.get(counted.row.id)
        if (count === undefined) continue
        counted.storedAt = nowMs
        if (counted.row.count === count) changed.delete(counted)
      }
    },
  }
}

const beginningOf = (resource: string) => resource.slice(0, RESOURCE_LENGTH).toWellFormed()
