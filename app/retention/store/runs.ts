// Prunes runs beyond the count or the age of their pipeline, with all their rows. Keeps active runs. Keeps of each pipeline the
// latest success, because dependencies are compared with it, and the verdict, because a failure stays until a success settles it.
import assert from 'node:assert/strict'
import { alias } from 'drizzle-orm/pg-core'
import type { JSONValue } from 'postgres'
import type { SqlTx } from '../../../drizzle/client.ts'
import { verdictOnMain } from '../../../drizzle/main-runs.ts'
import { computed, nullable, type RowOf, select } from '../../../drizzle/rows.ts'
import { pipelines } from '../../../drizzle/schema/pipeline.ts'
import { runs } from '../../../drizzle/schema/run.ts'
import { FIRST_ID, LAST_ID } from '../../core/ids.ts'
import { BATCH_ROWS, breathe, inBatches, PAGE, type Reaping } from './reaping.ts'

/** The runs of a pipeline from `after` (exclusive) to `until` (inclusive), in the order of their requests. */
interface Range {
  pipelineId: string
  afterAt: Date
  afterId: string
  untilAt: Date
  untilId: string
  keepsLatest: boolean
}

const BEGINNING = { afterAt: new Date(0), afterId: FIRST_ID }
const bound = alias(runs, 'bound')
const BOUNDS = {
  pipelineId: alias(pipelines, 'p').id,
  untilAt: nullable(bound.createdAt),
  untilId: nullable(bound.id),
}

/** Pipelines per query for ranges, and runs per query. Longer statements would slow other work. */
const RANGES_PER_QUERY = 25
const GATHERED_RUNS = 4_000
/** Assumed rows per run until a batch has measured it, and the share of a batch to fill. */
const ROWS_PER_RUN = 20
const FILLED = 0.9
/** Within this time after the end of a run, lines of its runner may still arrive. */
const LATE_LINES_MS = 3_600_000

export async function pruneRuns(reaping: Reaping): Promise<void> {
  let after = FIRST_ID
  for (;;) {
    const { ranges, last } = await pageOfRanges(reaping, after)
    await pruneRanges(reaping, ranges)
    if (last === null) return
    after = last
    reaping.checkRunning()
  }
}

/** The ranges of a page of pipelines. `last` is null if no pipeline follows. */
async function pageOfRanges(reaping: Reaping, after: string) {
  const ranges: Range[] = []
  let last = after
  for (let offset = 0; offset < PAGE; offset += RANGES_PER_QUERY) {
    reaping.checkRunning()
    const since = performance.now()
    const some = await prunableRanges(reaping, last)
    await breathe(reaping.pause, since)
    ranges.push(...some.ranges)
    if (some.pipelines < RANGES_PER_QUERY || some.last === null) return { ranges, last: null }
    last = some.last
  }
  return { ranges, last }
}

/** Removes all runs of a purged pipeline with all their rows, whatever their age. All of them must have ended. */
export const pruneAllRunsOf = (reaping: Reaping, pipelineId: string, until: Date): Promise<void> =>
  pruneRanges(reaping, [{ pipelineId, ...BEGINNING, untilAt: until, untilId: LAST_ID, keepsLatest: false }])

/**
 * The newest run that can be pruned, by count and by age, for each of some pipelines. Reads along the index, one pipeline at a
 * time.
 */
async function prunableRanges({ sql, config, now }: Reaping, after: string) {
  const rows = await select(sql, BOUNDS)`
    from (select id from pipeline where id > ${after} order by id limit ${RANGES_PER_QUERY}) p
    left join retention_override o on o.pipeline_id = p.id
    left join lateral (
      select either.created_at, either.id from (
        (select r.created_at, r.id from run r where r.pipeline_id = p.id order by r.created_at desc, r.id desc
          offset coalesce(o.runs_max_per_pipeline, ${config.runsMaxPerPipeline}) limit 1)
        union all
        (select r.created_at, r.id from run r where r.pipeline_id = p.id
          and r.created_at < ${now}::timestamptz - coalesce(o.runs_max_age_days, ${config.runsMaxAgeDays}) * interval '1 day'
          order by r.created_at desc, r.id desc limit 1)) either
      order by either.created_at desc, either.id desc limit 1) bound on true
    order by p.id`
  const ranges = rows.flatMap(({ pipelineId, untilAt, untilId }): Range[] =>
    untilAt === null || untilId === null
      ? []
      : [{ pipelineId, ...BEGINNING, untilAt, untilId, keepsLatest: true }],
  )
  return { ranges, last: rows.at(-1)?.pipelineId ?? null, pipelines: rows.length }
}

/**
 * Deletes the runs of all ranges with all their rows. Runs of many pipelines lie next to each other in the order of their
 * requests. In that order, one batch touches a page of the tables, not a hundred batches.
 */
async function pruneRanges(reaping: Reaping, ranges: Range[]): Promise<void> {
  let pending = ranges
  while (pending.length > 0) {
    reaping.checkRunning()
    const perRange = Math.max(1, Math.floor(GATHERED_RUNS / pending.length))
    const since = performance.now()
    const doomed = await doomedRuns(reaping, pending, perRange)
    await breathe(reaping.pause, since)
    await pruneInOrder(reaping, doomed)
    pending = remaining(pending, doomed, perRange)
  }
}

const doomedRun = alias(runs, 'doomed')
const DOOMED = { id: doomedRun.id, at: doomedRun.createdAt, range: computed<number>('range.number') }
interface Doomed extends RowOf<typeof DOOMED> {
  /** The run ended so long ago that no further line of its attempts arrives. */
  isSilent: boolean
}

/**
 * The oldest runs of each range, all in order of id. The same statement reads the runs to keep, because a run of the
 * range may have ended since the range was computed.
 */
const doomedRuns = ({ sql, now }: Reaping, ranges: readonly Range[], perRange: number) =>
  select(sql, {
    ...DOOMED,
    isSilent: computed<boolean>(
      sql`coalesce(doomed.finished_at < ${new Date(now.getTime() - LATE_LINES_MS)}, false)`,
    ),
  })`
  from jsonb_to_recordset(${sql.json(
    ranges.map((range, number) => ({ ...range, number })) as unknown as JSONValue,
  )}) as range(number int, "pipelineId" uuid, "afterAt" timestamptz, "afterId" uuid, "untilAt" timestamptz,
    "untilId" uuid, "keepsLatest" boolean)
  left join lateral (
    select s.id from run s where range."keepsLatest" and s.pipeline_id = range."pipelineId" and s.status = 'success'
      and s.branch = 'main'
    order by s.finished_at desc, s.id desc limit 1) latest on true
  left join lateral (select run.id ${verdictOnMain(sql, sql`range."pipelineId"`)}) verdict on range."keepsLatest"
  cross join lateral (
    select r.id, r.created_at, r.finished_at from run r
    where r.pipeline_id = range."pipelineId" and (r.created_at, r.id) > (range."afterAt", range."afterId")
      and (r.created_at, r.id) <= (range."untilAt", range."untilId")
      and r.status in ('success', 'failed', 'cancelled') and r.id is distinct from latest.id and r.id is distinct from verdict.id
    order by r.created_at, r.id limit ${perRange}) doomed
  order by doomed.id`

/** The ranges with more runs than were read, starting after the last run that was read. */
function remaining(ranges: readonly Range[], doomed: readonly Doomed[], perRange: number): Range[] {
  const ofRange = Map.groupBy(doomed, ({ range }) => range)
  return ranges.flatMap((range, number) => {
    const readRuns = ofRange.get(number) ?? []
    if (readRuns.length < perRange) return []
    const last = readRuns.reduce((latest, run) => (isAfter(run, latest) ? run : latest))
    return [{ ...range, afterAt: last.at, afterId: last.id }]
  })
}

const isAfter = (a: Doomed, b: Doomed) => a.at > b.at || (a.at.getTime() === b.at.getTime() && a.id > b.id)

/**
 * Deletes runs with all their rows, one statement per batch. Their rows need no locks, because an ended run never changes. A
 * run that another transaction has locked is skipped; a later tick deletes it.
 */
async function pruneInOrder(reaping: Reaping, runs: readonly Doomed[]): Promise<void> {
  if (runs.length === 0) return
  const { reaped } = reaping
  const withLines = new Set(runsWithLines(runs, reaping.linesGone))
  let rowsPerRun = ROWS_PER_RUN
  let done = 0
  let isSecondTry = false
  await inBatches(reaping, async (tx) => {
    const size = Math.max(1, Math.floor((BATCH_ROWS * FILLED) / (rowsPerRun + 1)))
    const ids = runs.slice(done, done + size).map(({ id }) => id)
    const rowsMax = BATCH_ROWS - ids.length
    // The first try lets the deletion take the locks. Only after a failed try does the next one skip locked runs.
    const skipsLocked = isSecondTry
    isSecondTry = true
    const removed = await removeBatch(tx, ids, {
      logged: ids.filter((id) => withLines.has(id)),
      rowsMax,
      skipsLocked,
    })
    isSecondTry = false
    reaped.logsPruned += removed.logs
    reaped.runsPruned += removed.runs.length
    reaping.dryRun?.add('runs', removed.runs)
    // The runs may have more rows, so they get another batch.
    if (removed.rows === rowsMax) rowsPerRun = rowsPerRun * 2 + 1
    else {
      rowsPerRun = removed.rows / ids.length
      done += ids.length
    }
    return done < runs.length
  })
}

/** The runs that may have lines; `runs` are in order of id. A run at the edge of a range may have lines outside it. */
function runsWithLines(runs: readonly Doomed[], linesGone: Reaping['linesGone']): string[] {
  let at = 0
  return runs.flatMap(({ id, isSilent }) => {
    let gone = linesGone[at]
    while (gone !== undefined && gone.until.runId <= id) gone = linesGone[++at]
    return isSilent && gone !== undefined && gone.after.runId < id ? [] : [id]
  })
}

/**
 * Deletes at most `rowsMax` rows of the runs, of which `logged` may have lines. Deletes the runs too if no rows remain. Every row
 * is found by an index.
 */
async function removeBatch(
  tx: SqlTx,
  ids: readonly string[],
  { logged, rowsMax, skipsLocked }: { logged: readonly string[]; rowsMax: number; skipsLocked: boolean },
) {
  // The ids are sent once, in a CTE. So the planner does not process thousands of ids.
  const runs = tx`any((select ids from batch)::uuid[])`
  const removed = (kind: number) => tx`any(array(select d.ctid from doomed d where d.kind = ${kind}))`
  const hasEnded = tx`r.id = ${runs} and r.status in ('success', 'failed', 'cancelled')
    and (select c.rows from counted c) < ${rowsMax}`
  const [counts] = await tx<{ rows: number; logs: number; runs: string[] }[]>`
    with batch as materialized (select ${ids as string[]}::uuid[] as ids, ${logged as string[]}::uuid[] as logged),
    doomed as materialized (
      select 1 as kind, c.ctid from run_log c where c.run_id = any((select logged from batch)::uuid[])
      union all select 2, c.ctid from run_file c where c.run_id = ${runs}
      union all select 3, c.ctid from run_attempt c where c.run_id = ${runs}
      union all select 4, c.ctid from quality_result c where c.run_id = ${runs}
      union all select 6, c.ctid from run_diff c where c.run_id = ${runs}
      union all select 7, c.ctid from run_review c where c.run_id = ${runs}
      union all select 5, c.ctid from transition c where c.machine = 'run' and c.entity_id = ${runs}
      limit ${rowsMax}),
    counted as (select count(*)::int as rows, (count(*) filter (where kind = 1))::int as logs from doomed),
    logs as (delete from run_log where ctid = ${removed(1)}),
    files as (delete from run_file where ctid = ${removed(2)}),
    attempts as (delete from run_attempt where ctid = ${removed(3)}),
    results as (delete from quality_result where ctid = ${removed(4)}),
    diffs as (delete from run_diff where ctid = ${removed(6)}),
    reviews as (delete from run_review where ctid = ${removed(7)}),
    history as (delete from transition where ctid = ${removed(5)}),
    gone as (
      delete from run r where ${
        skipsLocked
          ? tx`r.ctid = any(array(select r.ctid from run r where ${hasEnded} for update of r skip locked))`
          : hasEnded
      }
      returning id)
    select c.rows, c.logs, array(select id from gone order by id) as runs from counted c`
  assert(counts)
  return counts
}
