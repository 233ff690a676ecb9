// Handles due schedules in batches. One statement reads them, this code decides, and one statement writes them together with
// their runs.
import type { SqlTx } from '../../drizzle/client.ts'
import { beginSpan, type OpenSpan } from '../../ground/telemetry/spans.ts'
import { NO_TRACE } from '../../ground/telemetry/trace.ts'
import { BadCron, nextAfter } from '../../machines/cron.ts'
import type { NewId, PipelineId, RunId } from '../core/ids.ts'
import { outcomesOf, type RequestOutcome, type RunRequest, requestedRuns } from '../runs/service.ts'
import { type DueRow, lockDue, movedPart, moveSchedules, type NextTime } from './store.ts'

/** Reason why a due time passed without a run. */
type Skip = 'active' | 'bad cron' | Exclude<RequestOutcome, 'requested'>

export interface DueOutcome {
  /** The time of the database. */
  now: Date
  /** Number of schedules read. If it equals the limit, more may wait. */
  found: number
  requested: number
  skipped: { schedule: string; pipeline: string; why: Skip }[]
}

/**
 * Handles up to `limit` due schedules, the longest due first, and as many new ones. A due schedule requests one run for all its
 * passed times, unless its pipeline has an active run. A new schedule requests none. Each schedule is next due at its first
 * time after now. `asOf` is `now` of the pass's first batch, so the next pass handles later due times.
 */
export async function consumeDue(
  tx: SqlTx,
  { limit, asOf, newId }: { limit: number; asOf: Date | null; newId: NewId },
): Promise<DueOutcome> {
  const { now, rows } = await lockDue(tx, { limit, asOf })
  const nexts: NextTime[] = []
  const requests: RunRequest[] = []
  const skipped: DueOutcome['skipped'] = []
  const scheduleOf = new Map<RunId, { row: DueRow; span: OpenSpan }>()
  const requestedPipelines = new Set<PipelineId>()
  const nextOf = nextTimesAfter(now)
  const skip = (row: DueRow, why: Skip) => skipped.push({ schedule: row.id, pipeline: row.pipeline, why })

  for (const row of rows) {
    const next = row.isLive ? nextOf(row.cron) : null
    const why = whyNot(row, { next, hasRequest: requestedPipelines.has(row.pipelineId) })
    if (why !== null) skip(row, why)
    if (row.nextRunAt === null || why !== null) {
      nexts.push({ id: row.id, next, run: null })
      continue
    }
    const run = newId() as RunId
    requestedPipelines.add(row.pipelineId)
    // The first span of the run's trace. It ends with the request of the run.
    const span = beginSpan('schedule', { 'sluice.run_id': run, 'sluice.schedule_id': row.id }, NO_TRACE)
    scheduleOf.set(run, { row, span })
    nexts.push({ id: row.id, next, run })
    requests.push({
      id: run,
      pipelineId: row.pipelineId,
      trigger: `schedule:${row.cron}`,
      cause: { scheduleId: row.id, due: row.nextRunAt },
      chainDepth: 0,
      landingFileId: null,
      trace: span.trace,
    })
  }

  const outcomes = await writeDue(tx, requests, nexts)
  let requested = 0
  for (const [run, outcome] of outcomes) {
    const due = scheduleOf.get(run)
    if (outcome === 'requested') {
      requested += 1
      due?.span.end()
    } else if (due !== undefined) skip(due.row, outcome)
  }
  return { now, found: rows.length, requested, skipped }
}

function whyNot(row: DueRow, { next, hasRequest }: { next: Date | null; hasRequest: boolean }): Skip | null {
  if (!row.isLive) return 'gone'
  if (next === null) return 'bad cron'
  if (row.nextRunAt === null) return null
  if (!row.isPublished) return 'unpublished'
  return row.isActive || hasRequest ? 'active' : null
}

/** Writes runs and their schedules in one statement. A schedule without a next time is disabled. */
async function writeDue(
  tx: SqlTx,
  requests: RunRequest[],
  nexts: readonly NextTime[],
): Promise<Map<RunId, RequestOutcome>> {
  if (nexts.length === 0) return new Map()
  if (requests.length > 0) return outcomesOf(await requestedRuns(tx, requests, [movedPart(tx, nexts)]))
  await moveSchedules(tx, nexts)
  return new Map()
}

/**
 * Computes the next time once per cron text, because many schedules share few texts. Null: an earlier release accepted an
 * invalid text.
 */
function nextTimesAfter(now: Date): (cron: string) => Date | null {
  const nextTimes = new Map<string, Date | null>()
  const next = (cron: string) => {
    try {
      return nextAfter(cron, now)
    } catch (error) {
      if (error instanceof BadCron) return null
      throw error
    }
  }
  return (cron) => {
    const cached = nextTimes.get(cron)
    if (cached !== undefined) return cached
    const computed = next(cron)
    nextTimes.set(cron, computed)
    return computed
  }
}
