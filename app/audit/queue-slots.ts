// Slots in the queue of audit entries. A write reserves a slot before it is performed, so its entry is never dropped.
import { AppError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'

/** Entries that wait for the database, plus slots of active writes. Further writes wait for a slot. */
export const AUDIT_QUEUE_MAX = 10_000
/** A write waits this long for a slot and is then refused before its work. Common clients wait longer for an answer. */
const PLACE_WAIT_MS = 5_000
const RETRY_AFTER_SECONDS = 5

export interface QueueSlots {
  /** Resolves to true with a slot. Waits while the queue is full; throws an AppError (503) when no slot is free in time. */
  reserve(): true | Promise<true>
  /** Releases a slot: the entry is in the queue now, or the request has no entry. */
  release(): void
  /** Gives free slots to the waiting writes, oldest first. */
  grant(): void
}

/** `queued`: the current number of entries in the queue. */
export function makeQueueSlots(deps: {
  queued(): number
  log: Log
  waitMs?: number | undefined
}): QueueSlots {
  const { queued, log, waitMs = PLACE_WAIT_MS } = deps
  let reserved = 0
  const waiters = new Set<() => void>()
  const isFull = () => queued() + reserved >= AUDIT_QUEUE_MAX

  function placeInTime(): Promise<true> {
    if (waiters.size === 0)
      log.warn(`more than ${AUDIT_QUEUE_MAX} audit entries wait: writes wait for a place`)
    const place = Promise.withResolvers<true>()
    const take = () => {
      clearTimeout(limit)
      reserved++
      place.resolve(true)
    }
    const limit = setTimeout(() => {
      waiters.delete(take)
      place.reject(auditIsFull())
    }, waitMs)
    waiters.add(take)
    return place.promise
  }

  return {
    reserve() {
      if (isFull()) return placeInTime()
      reserved++
      return true
    },
    release() {
      reserved--
    },
    grant() {
      for (const take of waiters) {
        if (isFull()) return
        waiters.delete(take)
        take()
      }
    },
  }
}

const auditIsFull = () =>
  new AppError(
    503,
    'UNAVAILABLE',
    'the audit log cannot be written fast enough, so nothing was done; send the request again later',
    { headers: { 'retry-after': String(RETRY_AFTER_SECONDS) } },
  )
