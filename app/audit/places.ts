// Places in the queue of audit entries. A write reserves one before it is performed, so its entry is never dropped.
import { AppError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'

/** Entries that wait for the database, and places of writes under way; further writes wait for a place. */
export const AUDIT_QUEUE_MAX = 10_000
/** A write waits this long for a place, less than common clients wait for an answer; then it is refused unperformed. */
const PLACE_WAIT_MS = 5_000
const RETRY_AFTER_SECONDS = 5

export interface Places {
  /** Resolves to true with a place. Waits while the queue is full; throws an AppError (503) when none came free in time. */
  reserve(): true | Promise<true>
  /** Uses up a place: its entry is in the queue now, or it has none. */
  release(): void
  /** Gives free places to the writes that wait, oldest first. */
  grant(): void
}

/** `queued`: the number of entries in the queue now. */
export function makePlaces(deps: { queued(): number; log: Log; waitMs?: number | undefined }): Places {
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
