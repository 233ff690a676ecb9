// Runs that have been running for longer than the retention settings allow are failed.
import type { SqlTx } from '../../../drizzle/client.ts'
import { RUN_MACHINE_VERSION } from '../../../machines/run.ts'
import type { RunId } from '../../core/ids.ts'
import { completedOf, lockRuns } from './moves.ts'
import type { RunCompleted } from './notices.ts'
import { endRuns } from './outcomes.ts'

export interface StuckRuns {
  ids: RunId[]
  /** For the run-completed notice, once the transaction is committed. */
  completed: RunCompleted[]
}

/**
 * Fails at most `limit` runs that have been running for longer than `timeoutMinutes`, all their attempts together, by the
 * database's clock: their branches are closed and their attempts are cancelled at their runners by the outbox. After the
 * commit the caller sends the notices and nudges the outbox. `limit` ids: there may be more.
 */
export async function failStuckRuns(
  tx: SqlTx,
  { timeoutMinutes, limit }: { timeoutMinutes: number; limit: number },
): Promise<StuckRuns> {
  const stuck = await tx<{ id: RunId }[]>`
    select id from run
    where status = 'running' and machine_version <= ${RUN_MACHINE_VERSION}
      and started_at < clock_timestamp() - ${timeoutMinutes} * interval '1 minute'
    order by id limit ${limit}`
  if (stuck.length === 0) return { ids: [], completed: [] }
  const { runs, now } = await lockRuns(
    tx,
    stuck.map(({ id }) => id),
  )
  const error = `timed out: it was running for longer than ${timeoutMinutes} minutes (stuck_run_timeout_minutes)`
  const ended = await endRuns(tx, runs, now, () => ({
    event: { type: 'timedOut' },
    cause: 'reaper',
    error,
    line: ['error', error],
  }))
  return { ids: [...ended.keys()], completed: completedOf(ended.values()) }
}
