// The scheduler: every 30 seconds, on the replica that leads, schedules that are due become runs.
import type { NewId } from '../app/core/ids.ts'
import type { Log } from '../app/core/log.ts'
import { type Taken, takeDue } from '../app/schedules/due.ts'
import type { Fenced } from '../drizzle/client.ts'

/** The scheduler looks at its schedules this often (spec: Limits), and takes so many of them in one transaction. */
const SCHEDULE_BATCH = 5_000

export interface SchedulerDeps {
  write: Fenced
  newId: NewId
  log: Log
  /** Schedules one transaction takes. */
  batch?: number
}

/** Schedules named in a line of the log. */
const NAMED_MAX = 5

/**
 * One pass over what is due, in batches, each a transaction of three statements (the fence, the question, the answer).
 * Null when another replica leads, or does from some batch on: what is left is then its to do.
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
    const taken: Taken | null = await write((tx) => takeDue(tx, { limit: batch, asOf, newId }))
    if (taken === null) return asOf === null ? null : { requested }
    asOf ??= taken.now
    requested += taken.requested
    logSkipped(log, taken.skipped)
    if (taken.seen < batch) return { requested }
  }
}

const WHY: Record<Taken['skipped'][number]['why'], string> = {
  active: 'a run of the pipeline is pending or running',
  unpublished: 'nothing is published',
  full: 'too many runs of the pipeline are waiting',
  gone: 'the pipeline is deleted; the schedule is disabled',
  repeated: 'this due time has had its run',
  'bad cron': 'its time never comes; the schedule is disabled',
}

/** One line for each reason: a pipeline that is never published has one every minute. */
function logSkipped(log: Log, skipped: Taken['skipped']) {
  for (const [why, text] of Object.entries(WHY)) {
    const those = skipped.filter((one) => one.why === why)
    if (those.length === 0) continue
    const named = those.slice(0, NAMED_MAX).map(({ pipeline }) => pipeline)
    log.info(`schedules passed over: ${text}`, { count: those.length, pipelines: named.join(', ') })
  }
}
