// What every duty of the reaper works with, and the way each of them deletes: short transactions, and a breath after each.
import type { Fenced, Sql, SqlTx } from '../../../drizzle/client.ts'
import { pick, type RowOf } from '../../../drizzle/rows.ts'
import { runLogs } from '../../../drizzle/schema/index.ts'
import { breathMs, type Cutoffs, type RetentionConfig } from '../../../machines/retention.ts'
import type { ObjectPage, VersionPage } from '../../objects/port.ts'

/** Rows one transaction deletes, at most: some milliseconds' worth. */
export const BATCH_ROWS = 2_500
/** Pipelines (or tests, or anything that has a boundary of its own) that one statement looks at. */
export const PAGE = 500
/**
 * Between two batches others have the database to themselves for this share of the time a batch took. A lower priority of
 * the reaper's backend was tried instead: others waited for it as long as before, and on a busy machine it deleted far less.
 */
const BREATH_SHARE = 0.5
const BREATH_MAX_MS = 2_000
/** A batch that meets somebody's lock is tried again later, so often. */
const LOCK_TRIES = 10
const LOCK_TIMEOUT_MS = 500

/** Counters of a tick, by the names they have in `reaper_status`. */
export const nothingReaped = () => ({
  runsPruned: 0,
  logsPruned: 0,
  qualityPruned: 0,
  pipelinesPurged: 0,
  runsFailed: 0,
  branchesCleaned: 0,
  lzFilesCleaned: 0,
  auditPruned: 0,
  historyPruned: 0,
  snapshotsExpired: 0,
  lakeFilesRemoved: 0,
})
export type Reaped = ReturnType<typeof nothingReaped>

/** What the reaper does with objects. As in app/objects/port.ts; `read` gives an object whole. */
export interface ReaperObjects {
  list(prefix: string, page: { limit: number; after?: string }): Promise<ObjectPage>
  versions(prefix: string, after?: string): Promise<VersionPage>
  read(key: string): Promise<Uint8Array | null>
  put(key: string, bytes: Uint8Array): Promise<void>
  /** Of a key of the lake for good; of any other by a delete marker. */
  remove(key: string): Promise<void>
  removeVersion(key: string, versionId: string): Promise<void>
}

/** Where a line lies in the log. */
export const LINE_KEY = pick(runLogs, 'runId', 'seq')
export type LineKey = RowOf<typeof LINE_KEY>

/** What a duty works with. */
export interface Reaping {
  /** For reading: outside the transactions that write. */
  sql: Sql
  write: Fenced
  objects: ReaperObjects
  config: RetentionConfig
  /** The database's time at the start of the tick, and what it means. */
  now: Date
  cutoffs: Cutoffs
  /** Counted as it happens, so that a duty that fails half way is counted half way. */
  reaped: Reaped
  /** Ranges of the log of which this tick has left no line, from `after` (exclusive) to `until`, ascending. */
  linesGone: { after: LineKey; until: LineKey }[]
  /** Milliseconds. */
  pause(ms: number): Promise<void>
  /** Throws when the tick is to end early. */
  checkRunning(): void
}

/** Another replica leads: what is left to do is its business. */
export class NotLeading extends Error {
  override readonly name = 'NotLeading'
}

/** Repeats `batch`, each time in a transaction of its own, until it answers false. */
export async function inBatches(
  { write, pause, checkRunning }: Pick<Reaping, 'write' | 'pause' | 'checkRunning'>,
  batch: (tx: SqlTx) => Promise<boolean>,
): Promise<void> {
  let isMore = true
  let lockTries = 0
  while (isMore) {
    checkRunning()
    const since = performance.now()
    try {
      const done = await write(async (tx) => {
        // Sent with the batch's own statements, without a wait for the answer.
        const [, isMore] = await Promise.all([setForBatch(tx).execute(), batch(tx)])
        return { isMore }
      })
      if (done === null) throw new NotLeading('another replica leads the reaper')
      isMore = done.isMore
      lockTries = 0
    } catch (error) {
      if (!isAboutLocks(error) || ++lockTries === LOCK_TRIES) throw error
    }
    await breathe(pause, since)
  }
}

/**
 * Settings for the rest of the transaction. A crash may undo the batch: the next tick deletes the rows again, so the commit need
 * not wait for the disk. Sequential scans are off: with thousands of ids the planner would choose one over the index.
 */
const setForBatch = (tx: SqlTx) => tx`
  select set_config('synchronous_commit', 'off', true), set_config('enable_seqscan', 'off', true),
    set_config('lock_timeout', ${`${LOCK_TIMEOUT_MS}`}, true)`

/** What takes a while, statements that only read too, is followed by a pause that is in proportion. */
export const breathe = (pause: Reaping['pause'], since: number): Promise<void> =>
  pause(breathMs(performance.now() - since, BREATH_SHARE, BREATH_MAX_MS))

/** lock_not_available, deadlock_detected */
const isAboutLocks = (error: unknown) =>
  error instanceof Error && 'code' in error && (error.code === '55P03' || error.code === '40P01')
