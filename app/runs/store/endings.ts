// Runs that end from outside: by a cancel request or by a timeout.
import type { SqlTx } from '../../../drizzle/client.ts'
import { cteStatement } from '../../../drizzle/cte-statement.ts'
import { computed, select } from '../../../drizzle/rows.ts'
import { RUN_MACHINE_VERSION, type RunEvent } from '../../../machines/run.ts'
import type { RunId } from '../../core/ids.ts'
import { type LogLevel, type LogLine, loggedPart, seqAfter, storableText } from './logs.ts'
import { completedOf, type LockedRun, lockRuns, moveRun, savedParts } from './moves.ts'
import type { RunCompleted } from './notices.ts'
import { settledParts } from './settle.ts'

/** Cancels runs on request. The result omits runs that have already ended. */
export const cancelRuns = (tx: SqlTx, ids: readonly RunId[], cause: string): Promise<Map<RunId, LockedRun>> =>
  endRuns(tx, ids, {
    event: { type: 'cancelRequested' },
    cause,
    error: null,
    line: ['warn', `cancelled: ${cause}`],
  })

export interface StuckRuns {
  ids: RunId[]
  /** For the run-completed notice after the commit. */
  completed: RunCompleted[]
}

/**
 * Fails at most `limit` runs that have been running for longer than `timeoutMinutes`, by the database's clock. The time of all
 * attempts counts together. Their branches close, and the outbox cancels their attempts at the runners. After the commit, the
 * caller sends the notices and nudges the outbox. If `limit` ids are returned, more stuck runs may exist.
 */
export async function failStuckRuns(
  tx: SqlTx,
  { timeoutMinutes, limit }: { timeoutMinutes: number; limit: number },
): Promise<StuckRuns> {
  const stuck = await select(tx, { id: computed<RunId>('id') })`
    from run
    where status = 'running' and machine_version <= ${RUN_MACHINE_VERSION}
      and started_at < clock_timestamp() - ${timeoutMinutes} * interval '1 minute'
    order by id limit ${limit}`
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

/** The event that ends a run, with its cause, error and last log line. */
interface Ending {
  event: Extract<RunEvent, { type: 'cancelRequested' | 'timedOut' }>
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
