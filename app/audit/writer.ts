// Stores audit entries after the responses. The first entry is stored at once; entries that arrive meanwhile share an insert.
import type { Sql } from '../../drizzle/client.ts'
import { isPassing } from '../../drizzle/errors.ts'
import type { Clock } from '../core/clock.ts'
import type { Log } from '../core/log.ts'
import { REFRESH_MS, type Refusals } from './refusals.ts'
import { insertEntries, type NewEntry } from './store.ts'

/** Entries per insert. */
const BATCH = 500
/** Pause between two inserts while entries arrive, because each insert is a commit that delays others. */
const PACE_MS = 50
/** Pause before a failed insert is tried again. */
const RETRY_MS = 500
/** Number of tries for an insert whose error is not transient. */
const TRIES = 3
/** A reader of the audit log waits at most this long for entries that are not stored yet. */
const CATCH_UP_MS = 1_000
/** The end of the process waits at most this long for entries that are not stored yet. */
const STOP_MS = 2_000

/** `at`: elapsed time of the clock when the request was answered. */
type QueuedEntry = Omit<NewEntry, 'ageMs'> & { at: number }

interface WriterDeps {
  sql: Sql
  clock: Clock
  log: Log
  refusals: Refusals
  /** Called when a batch has left the queue. */
  onStored(): void
}

export function makeWriter({ sql, clock, log, refusals, onStored }: WriterDeps) {
  /** The first entries may be in a running insert; they leave the queue when they are stored. */
  const queue: QueuedEntry[] = []
  let isStopping = false
  const batches = makeBatches({ sql, clock, log, isStopping: () => isStopping })
  let writing: Promise<void> | null = null
  let refreshTimer: ReturnType<typeof setTimeout> | undefined
  let pushed = 0
  let settled = 0
  let batchesBegun = 0
  let batchesEnded = 0
  let batchEnded = Promise.withResolvers<void>()
  /** Ends the pause between two inserts, because a caller waits for the entries. */
  let endPause = () => {}
  /** The number of readers that wait until counts of refusals are stored. */
  let readers = 0

  function start() {
    clearTimeout(refreshTimer)
    writing ??= write()
  }

  async function write() {
    // Requests that end at the same moment share an insert.
    await Promise.resolve()
    for (;;) {
      const entries = queue.slice(0, BATCH)
      const counts = refusals.take(clock.elapsed(), readers > 0 || isStopping)
      if (entries.length + counts.length === 0) break
      batchesBegun++
      await batches.store([...entries, ...counts].sort((one, other) => one.at - other.at))
      queue.splice(0, entries.length)
      settled += entries.length
      batchesEnded++
      onStored()
      batchEnded.resolve()
      batchEnded = Promise.withResolvers<void>()
      if (queue.length >= BATCH) continue
      batches.caughtUp()
      if (!isStopping) await pause()
    }
    writing = null
    if (refusals.hasChanges() && !isStopping) refreshTimer = setTimeout(start, REFRESH_MS)
  }

  function pause() {
    const pace = Promise.withResolvers<void>()
    endPause = pace.resolve
    return atMost(PACE_MS, pace.promise)
  }

  /** Resolves when all current entries and counts are stored or logged. */
  async function settle() {
    const upTo = pushed
    // The next batch contains all current counts. A batch that has begun may contain earlier ones.
    const batch = batchesBegun + (refusals.hasChanges() ? 1 : 0)
    while (settled < upTo || batchesEnded < batch) {
      start()
      endPause()
      await batchEnded.promise
    }
  }

  return {
    start,
    queued: () => queue.length,
    push(entry: QueuedEntry) {
      pushed++
      queue.push(entry)
    },
    /** Waits up to a second until all earlier entries are stored. */
    async catchUp() {
      if (writing === null && !refusals.hasChanges()) return
      readers++
      await atMost(CATCH_UP_MS, settle())
      readers--
    },
    /** Stores the remaining entries for two seconds at most. Entries that are left go to the log of the process. */
    async stop() {
      isStopping = true
      clearTimeout(refreshTimer)
      if (refusals.hasChanges()) start()
      endPause()
      if (writing !== null) await atMost(STOP_MS, writing)
      if (queue.length > 0) batches.logUnstored(queue.splice(0))
    },
  }
}

function makeBatches({
  sql,
  clock,
  log,
  isStopping,
}: Omit<WriterDeps, 'refusals' | 'onStored'> & {
  isStopping(): boolean
}) {
  /** True if entries had to wait for the database. They are then stored with the times of their responses. */
  let isLate = false

  /** The log of the process is the last resort for an entry. */
  function logUnstored(batch: readonly QueuedEntry[], error?: unknown) {
    log.error('storing audit entries failed: the entries follow', { entries: batch.length, error })
    for (const { action, resource, userId, key, ip, peer, status, count } of batch)
      log.error('unstored audit entry', { action, resource, user_id: userId, key, ip, peer, status, count })
  }

  return {
    logUnstored,
    /** Called when no entry waits, so the next entry is stored with the time of its insert. */
    caughtUp() {
      isLate = false
    },
    /** Retries until the entries are stored, or logs them after a permanent error. */
    async store(batch: readonly QueuedEntry[]) {
      for (let failures = 1; ; failures++) {
        try {
          const now = clock.elapsed()
          return await insertEntries(
            sql,
            batch.map(({ at, ...entry }) => ({ ...entry, ageMs: isLate ? now - at : 0 })),
          )
        } catch (error) {
          if (isStopping() || (failures >= TRIES && !isPassing(error))) return logUnstored(batch, error)
          if (failures === 1) log.warn('storing audit entries failed: retrying', { error })
          isLate = true
          await new Promise<void>((resolve) => setTimeout(resolve, RETRY_MS))
        }
      }
    },
  }
}

async function atMost(ms: number, pending: Promise<void>) {
  const limit = Promise.withResolvers<void>()
  const timer = setTimeout(limit.resolve, ms)
  await Promise.race([pending, limit.promise])
  clearTimeout(timer)
}
