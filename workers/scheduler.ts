// The scheduler: every 30 seconds, on the leader, due schedules become runs.
import type { NewId } from '../app/core/ids.ts'
import type { Log } from '../app/core/log.ts'
import { consumeDue, type DueOutcome } from '../app/schedules/due.ts'
import type { Fenced } from '../drizzle/client.ts'

/** Number of schedules that one transaction handles. */
const SCHEDULE_BATCH = 5_000

interface SchedulerDeps {
  write: Fenced
  newId: NewId
  log: Log
  /** Maximum number of schedules per transaction. */
  batch?: number
}

/** Maximum number of pipelines that a log line names. */
const NAMED_MAX = 5

/**
 * One pass over all due schedules, in batches. Each batch is a transaction of three statements: the fence, the query, and the
 * writes. Null: another replica leads. If leadership is lost after the first batch, the new leader handles the rest.
 */
export async function tickSchedules({
  write,
  newId,
  log,
  batch = SCHEDULE_BATCH,
}: SchedulerDeps): Promise<{ requested: number } | null> {
  let asOf: Date | null = null
  let requested = 0
  for (;;) {
    const outcome: DueOutcome | null = await write((tx) => consumeDue(tx, { limit: batch, asOf, newId }))
    if (outcome === null) return asOf === null ? null : { requested }
    asOf ??= outcome.now
    requested += outcome.requested
    logSkipped(log, outcome.skipped)
    if (outcome.found < batch) return { requested }
  }
}

const REASONS: Record<DueOutcome['skipped'][number]['why'], string> = {
  active: 'a run of the pipeline is pending or running',
  unpublished: 'the pipeline has no published version',
  full: 'too many runs of the pipeline are waiting',
  gone: 'the pipeline is deleted; the schedule is disabled',
  repeated: 'a run for this due time exists',
  'bad cron': 'the cron expression is invalid or matches no future time; the schedule is disabled',
}

/** Writes one line per reason, because a schedule of an unpublished pipeline may be skipped every minute. */
function logSkipped(log: Log, skipped: DueOutcome['skipped']) {
  for (const [why, text] of Object.entries(REASONS)) {
    const matching = skipped.filter((one) => one.why === why)
    if (matching.length === 0) continue
    const named = matching.slice(0, NAMED_MAX).map(({ pipeline }) => pipeline)
    log.info(`schedules skipped: ${text}`, { count: matching.length, pipelines: named.join(', ') })
  }
}
