// The tools of every duty. Each duty deletes in short transactions with a pause after each.
import type { Fenced, Sql, SqlTx } from '../../../drizzle/client.ts'
import { pick, type RowOf } from '../../../drizzle/rows.ts'
import { runLogs } from '../../../drizzle/schema/run.ts'
import { breathMs, type Cutoffs, type RetentionConfig } from '../../../machines/retention.ts'
import type { ObjectPage, VersionPage } from '../../objects/port.ts'
import type { DryRun } from '../dry-run.ts'

/** Maximum number of rows that one transaction deletes, which takes some milliseconds. */
export const BATCH_ROWS = 2_500
/** Pipelines, tests or other entities per statement that computes their bounds. */
export const PAGE = 500
/**
 * Length of a pause, as a share of the batch before it; other work has the database to itself meanwhile. A lower priority of
 * the reaper's backend was tried instead. Others waited as long as before, and on a busy machine the reaper deleted far less.
 */
const BREATH_SHARE = 0.5
const BREATH_MAX_MS = 2_000
/** Number of tries for a batch that meets a lock. */
const LOCK_TRIES = 10
const LOCK_TIMEOUT_MS = 500
/** A dry run holds its locks until it rolls back, so it looks at no more than the batches of this time. */
const DRY_RUN_MS = 1_000

/** Counters of a tick, named as in `reaper_status`. */
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

/** The reaper's operations on objects, as in app/objects/port.ts. `read` returns a whole object. */
export interface ReaperObjects {
  list(prefix: string, page: { limit: number; after?: string }): Promise<ObjectPage>
  versions(prefix: string, after?: string): Promise<VersionPage>
  read(key: string): Promise<Uint8Array | null>
  put(key: string, bytes: Uint8Array): Promise<void>
  /** Removes a key of the lake permanently, and any other key by a delete marker. */
  remove(key: string): Promise<void>
  removeVersion(key: string, versionId: string): Promise<void>
}

/** The position of a line in the log. */
export const LINE_KEY = pick(runLogs, 'runId', 'seq')
export type LineKey = RowOf<typeof LINE_KEY>

/** The tools and state of a duty. */
export interface Reaping {
  /** For reads outside the write transactions. */
  sql: Sql
  write: Fenced
  objects: ReaperObjects
  config: RetentionConfig
  /** The time of the database at the start of the tick, and the cutoffs that follow from it. */
  now: Date
  cutoffs: Cutoffs
  /** Branches of users without a change for so long are closed; null: none is. */
  branchMaxIdleDays: number | null
  /** Counted after each batch, so a duty that fails half way is counted half way. */
  reaped: Reaped
  /** Tables whose expired snapshots and history stay until a later tick; null until the duty of snapshots has ended. */
  busyTables: string[] | null
  /** Ranges of the log without lines after this tick, from `after` (exclusive) to `until` (inclusive), ascending. */
  linesGone: { after: LineKey; until: LineKey }[]
  /** Null: the tick removes. Otherwise `write` and `objects` change nothing, and the duties list what they would remove. */
  dryRun: DryRun | null
  /** Waits for this many milliseconds. */
  pause(ms: number): Promise<void>
  /** Throws if the tick must end early. */
  checkRunning(): void
}

/** Another replica leads; it performs the remaining work. */
export class NotLeading extends Error {
  override readonly name = 'NotLeading'
}

/** Repeats `batch`, each time in a separate transaction, until it returns false. */
export async function inBatches(
  reaping: Pick<Reaping, 'write' | 'pause' | 'checkRunning' | 'dryRun'>,
  batch: (tx: SqlTx) => Promise<boolean>,
): Promise<void> {
  if (reaping.dryRun !== null) return tryBatches(reaping, reaping.dryRun, batch)
  const { write, pause, checkRunning } = reaping
  let isMore = true
  let lockTries = 0
  while (isMore) {
    checkRunning()
    const since = performance.now()
    try {
      const done = await write(async (tx) => {
        // Pipelined with the statements of the batch.
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

/** Performs the batches in one transaction, because each batch selects the rows that the batches before it have left. */
async function tryBatches(
  { write, checkRunning }: Pick<Reaping, 'write' | 'checkRunning'>,
  dryRun: DryRun,
  batch: (tx: SqlTx) => Promise<boolean>,
): Promise<void> {
  const done = await write(async (tx) => {
    const since = performance.now()
    await setForBatch(tx)
    while (await batch(tx)) {
      checkRunning()
      if (performance.now() - since < DRY_RUN_MS) continue
      dryRun.stopEarly()
      break
    }
    return true
  })
  if (done === null) throw new NotLeading('another replica leads the reaper')
}

/**
 * Performs `work` in the transaction of a dry run, so that each part sees the deletions of the parts before it. A real tick
 * performs each part in its own transactions.
 */
export async function inSequence(reaping: Reaping, work: (reaping: Reaping) => Promise<void>): Promise<void> {
  if (reaping.dryRun === null) return work(reaping)
  const done = await reaping.write(async (tx) => {
    await work({ ...reaping, write: (part) => part(tx) })
    return true
  })
  if (done === null) throw new NotLeading('another replica leads the reaper')
}

/**
 * Settings for the rest of the transaction. A crash may lose the batch, and the next tick deletes the rows again. So the commit
 * need not wait for the disk. Sequential scans are off, because with thousands of ids the planner would prefer them to the
 * index.
 */
const setForBatch = (tx: SqlTx) => tx`
  select set_config('synchronous_commit', 'off', true), set_config('enable_seqscan', 'off', true),
    set_config('lock_timeout', ${`${LOCK_TIMEOUT_MS}`}, true)`

/** Pauses in proportion to the time since `since`. Slow reads are followed by a pause too. */
export const breathe = (pause: Reaping['pause'], since: number): Promise<void> =>
  pause(breathMs(performance.now() - since, BREATH_SHARE, BREATH_MAX_MS))

/** The codes are lock_not_available and deadlock_detected. */
const isAboutLocks = (error: unknown) =>
  error instanceof Error && 'code' in error && (error.code === '55P03' || error.code === '40P01')
