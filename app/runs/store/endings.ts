// Runs that end from outside: by a cancel request, by a reviewer, or by a timeout.
import type { SqlTx } from '../../../drizzle/client.ts'
import { cteStatement } from '../../../drizzle/cte-statement.ts'
import { computed, select } from '../../../drizzle/rows.ts'
import { RUN_MACHINE_VERSION, type RunEvent } from '../../../machines/run.ts'
import type { RunId } from '../../core/ids.ts'
import { type LogLevel, type LogLine, loggedPart, seqAfter, storableText } from './logs.ts'
import { completedOf, type LockedRun, lockRuns, moveRun, savedParts } from './moves.ts'
import type { RunCompleted } from './notices.ts'
import { expiredReviews } from './reviews.ts'
import { settledParts } from './settle.ts'

/** Cancels runs on request. The result omits runs that have already ended. */
export const cancelRuns = (tx: SqlTx, ids: readonly RunId[], cause: string): Promise<Map<RunId, LockedRun>> =>
  endRuns(tx, ids, {
    event: { type: 'cancelRequested' },
    cause,
    error: null,
    line: ['warn', `cancelled: ${cause}`],
  })

interface StuckRuns {
  ids: RunId[]
  /** For the run-completed notice after the commit. */
  completed: RunCompleted[]
}

/**
 * Fails at most `limit` runs that have been running for longer than `timeoutMinutes`, by the database's clock. The time of all
 * attempts counts together, and time in review does not count. Their branches close, and the outbox cancels their attempts at the runners. After the commit, the
 * caller sends the notices and nudges the outbox. If `limit` ids are returned, more stuck runs may exist.
 */
export async function failStuckRuns(
  tx: SqlTx,
  { timeoutMinutes, limit }: { timeoutMinutes: number; limit: number },
): Promise<StuckRuns> {
  const stuck = await select(tx, { id: computed<RunId>('r.id') })`
    from run r left join run_review v on v.run_id = r.id
    where r.status = 'running' and r.phase <> 'review' and r.machine_version <= ${RUN_MACHINE_VERSION}
      and r.started_at < clock_timestamp() - ${timeoutMinutes} * interval '1 minute'
        - coalesce(v.reviewed_ms, 0) * interval '1 millisecond'
    order by r.id limit ${limit}`
  if (stuck.length === 0) return { ids: [], completed: [] }
  const ids = stuck.map(({ id }) => id)
  const error = `timed out: the run was running for longer than ${timeoutMinutes} minutes (stuck_run_timeout_minutes)`
  const ended = await endRuns(tx, ids, {
    event: { type: 'timedOut' },
    cause: 'reaper',
    error,
    line: ['error', error],
  })
  return { ids: [...ended.keys()], completed: completedOf(ended.values()) }
}

/** Fails at most `limit` runs that have waited for a reviewer for too long. The caller continues as after `failStuckRuns`. */
export async function failExpiredReviews(tx: SqlTx, limit: number): Promise<StuckRuns> {
  const failed: StuckRuns = { ids: [], completed: [] }
  for (const [hours, runs] of Map.groupBy(
    await expiredReviews(tx, limit),
    ({ timeoutHours }) => timeoutHours,
  )) {
    const error = `review timed out: nobody approved or rejected the run within ${hours} ${hours === 1 ? 'hour' : 'hours'} (review_timeout_hours)`
    const ids = runs.map(({ id }) => id)
    const ended = await endRuns(tx, ids, {
      event: { type: 'reviewExpired' },
      cause: 'reaper',
      error,
      line: ['error', error],
    })
    failed.ids.push(...ended.keys())
    failed.completed.push(...completedOf(ended.values()))
  }
  return failed
}

/** Rejects a run in review: the run fails with the text, and its branch closes. Null: the run is not in review. */
export async function rejectRun(
  tx: SqlTx,
  id: RunId,
  { by, message }: { by: string | null; message: string },
): Promise<Map<RunId, LockedRun> | null> {
  const runs = await endRuns(tx, [id], {
    event: { type: 'rejected' },
    cause: by ?? 'reviewer',
    error: message,
    line: ['error', `${by === null ? 'rejected' : `rejected by ${by}`}: ${message}`],
  })
  return runs.size === 0 ? null : runs
}

/** The event that ends a run, with its cause, error and last log line. */
interface Ending {
  event: Extract<RunEvent, { type: 'cancelRequested' | 'timedOut' | 'rejected' | 'reviewExpired' }>
  cause: string
  /** Error text of a failed run; null for a cancelled run. */
  error: string | null
  line: [LogLevel, string]
}

/** Ends runs with all consequences. The result omits runs that do not accept the event. */
async function endRuns(
  tx: SqlTx,
  ids: readonly RunId[],
  { event, cause, error, line: [level, message] }: Ending,
): Promise<Map<RunId, LockedRun>> {
  const { runs, now } = await lockRuns(tx, ids)
  const lines: LogLine[] = []
  for (const [id, run] of runs) {
    if (!moveRun(run, event, cause, now)) {
      runs.delete(id)
      continue
    }
    if (error !== null) run.error = storableText(error)
    lines.push({ runId: run.id, seq: seqAfter(run.snapshot.context.attempt, 9), at: now, level, message })
  }
  await cteStatement(
    tx,
    [
      ...settledParts(tx, runs, new Map(), [], now),
      ...loggedPart(tx, lines),
      ...savedParts(tx, runs.values(), now),
    ],
    tx`select 1`,
  )
  return runs
}
