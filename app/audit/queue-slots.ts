// Slots in the queue of audit entries. A write reserves a slot before it is performed, so its entry is never dropped.
import { AppError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'

/** Entries that wait for the database, plus slots of active writes. Further writes wait for a slot. */
export const AUDIT_QUEUE_MAX = 10_000
/** A write request without a slot after this time is refused and not performed. Common clients wait longer for an answer. */
const SLOT_WAIT_MS = 5_000
const RETRY_AFTER_SECONDS = 5

interface QueueSlots {
  /** Resolves to true when the caller has a slot. Throws an AppError (503) when no slot is free in time. */
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
  const { queued, log, waitMs = SLOT_WAIT_MS } = deps
  let reserved = 0
  const waiters = new Set<() => void>()
  const isFull = () => queued() + reserved >= AUDIT_QUEUE_MAX

  function waitForSlot(): Promise<true> {
    if (waiters.size === 0)
      log.warn('audit queue full: write requests wait for the database', { entries: AUDIT_QUEUE_MAX })
    const slot = Promise.withResolvers<true>()
    const acquire = () => {
      clearTimeout(limit)
      reserved++
      slot.resolve(true)
    }
    const limit = setTimeout(() => {
      waiters.delete(acquire)
      slot.reject(auditIsFull())
    }, waitMs)
    waiters.add(acquire)
    return slot.promise
  }

  return {
    reserve() {
      if (isFull()) return waitForSlot()
      reserved++
      return true
    },
    release() {
      reserved--
    },
    grant() {
      for (const acquire of waiters) {
        if (isFull()) return
        waiters.delete(acquire)
        acquire()
      }
    },
  }
}

const auditIsFull = () =>
  new AppError(
    503,
    'UNAVAILABLE',
    `audit queue full: the request was not performed; send it again in ${RETRY_AFTER_SECONDS} s`,
    { headers: { 'retry-after': String(RETRY_AFTER_SECONDS) } },
  )
