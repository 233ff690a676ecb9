// Waiting runs that no runner can take, because of the labels or the memory that they demand.
import type { Sql } from '../../../drizzle/client.ts'
import { cteStatement } from '../../../drizzle/cte-statement.ts'
import { computed, pick, recordset, select } from '../../../drizzle/rows.ts'
import { runs } from '../../../drizzle/schema/run.ts'
import type { RunId } from '../../core/ids.ts'
import { type RunnerOffer, refusalOf } from '../placement.ts'
import { loggedPart, seqAfter } from './logs.ts'

/** Runs that one pass examines. Further runs are examined when these have started. */
const EXAMINED_RUNS = 1_000

/**
 * Stores for each waiting run with demands why no runner can take the run, or that a runner now can. The run's log gets one line.
 * Returns the ids of the changed runs.
 */
export async function notePlacements(sql: Sql, offers: readonly RunnerOffer[]): Promise<RunId[]> {
  const columns = {
    ...pick(runs, 'id', 'attempt', 'placement', 'waitingReason'),
    at: computed<Date>('clock_timestamp()'),
  }
  const waiting = await select(sql, columns)`
    from run where waiting and placement is not null order by created_at limit ${EXAMINED_RUNS}`
  const changed = waiting.flatMap(({ placement, ...run }) => {
    const reason = placement === null ? null : refusalOf(placement, offers)
    return reason === run.waitingReason ? [] : { ...run, waitingReason: reason }
  })
  if (changed.length === 0) return []
  const lines = changed.flatMap(({ id, attempt, at, waitingReason }) =>
    waitingReason === null
      ? []
      : {
          runId: id as RunId,
          seq: seqAfter(attempt, 8),
          at,
          level: 'warn' as const,
          message: `the run waits: ${waitingReason}`,
        },
  )
  await cteStatement(
    sql,
    loggedPart(sql, lines),
    sql`
      update run set waiting_reason = n.waiting_reason
      from ${recordset(sql, runs, ['id', 'waitingReason'], changed, 'n')}
      where run.id = n.id and run.waiting`,
  )
  return changed.map(({ id }) => id as RunId)
}
