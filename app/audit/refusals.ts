// Requests that were refused before anybody was known as their sender. Anyone can send any number of them, so they are
// counted: the number of their rows in a minute is bounded, whatever the number of requests and addresses.

import type { NewId } from '../core/ids.ts'
import { networkOf } from '../core/rate-limit.ts'

/** After it the counting begins anew. */
const MINUTE_MS = 60_000
/** First refusals of one address that have rows of their own: a person who mistypes a key finds each attempt. */
export const FULL_ROWS_PER_ADDRESS = 10
/** The same of all addresses together: forwarded addresses can be made up. */
const FULL_ROWS = 100
/** Rows that count, in a minute; further addresses are counted together. */
const COUNTING_ROWS = 200
/** Rows that wait for the database. While there are so many, the minute does not end, so that their number is bounded. */
const WAITING_ROWS = 1_000
/** Longest path in a refusal's row: anyone can fill 300 rows a minute. Paths of this API are shorter. */
export const RESOURCE_LENGTH = 256
/** `ip` of the row in which further addresses are counted. */
export const OTHER_ADDRESSES = 'other'
/** A count that only grew is stored again after this time: each update leaves a dead row behind. */
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
  /** Time of the first request it stands for, by the monotonic clock. */
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
  /** Rows that differ from what is stored. */
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
    /** Rows to store now: new ones at once, grown ones after a pause or, when `isUrgent`, at once as well. */
    due(nowMs: number, isUrgent: boolean): RefusalRow[] {
      const due: RefusalRow[] = []
      for (const { row, storedAt } of changed)
        if (isUrgent || nowMs - storedAt >= REFRESH_MS) due.push({ ...row })
      return due
    },
    /** The rows are stored with these counts. */
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
