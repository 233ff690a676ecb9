// Prunes quality results: keeps the newest of each test, up to the number in the pipeline's settings. The results of the run that
// is the verdict on its pipeline stay, too.
import { alias } from 'drizzle-orm/pg-core'
import type { JSONValue } from 'postgres'
import { verdictOnMain } from '../../../drizzle/main-runs.ts'
import { nullable, pick, type RowOf, select } from '../../../drizzle/rows.ts'
import { qualityResults } from '../../../drizzle/schema/run.ts'
import { FIRST_ID } from '../../core/ids.ts'
import { BATCH_ROWS, inBatches, PAGE, type Reaping } from './reaping.ts'

const bound = alias(qualityResults, 'bound')
const BOUNDS = {
  ...pick(alias(qualityResults, 'test'), 'pipelineId', 'name'),
  untilAt: nullable(bound.createdAt),
  untilRun: nullable(bound.runId),
}

export async function pruneQualityResults(reaping: Reaping): Promise<void> {
  let after = { pipelineId: FIRST_ID, name: '' }
  for (;;) {
    const tests = await testsWithBounds(reaping, after)
    await pruneRanges(
      reaping,
      tests.filter(({ untilAt }) => untilAt !== null),
    )
    const last = tests.at(-1)
    if (tests.length < PAGE || last === undefined) return
    after = last
    reaping.checkRunning()
  }
}

/** A page of tests, each with the newest result that can be pruned. Finds tests by a loose index scan. */
const testsWithBounds = ({ sql, config }: Reaping, after: { pipelineId: string; name: string }) =>
  select(
    sql,
    BOUNDS,
    sql`
    with recursive leap as (
      (select q.pipeline_id, q.name from quality_result q
        where (q.pipeline_id, q.name) > (${after.pipelineId}, ${after.name})
        order by q.pipeline_id, q.name limit 1)
      union all
      select next.pipeline_id, next.name from leap cross join lateral (
        select q.pipeline_id, q.name from quality_result q
        where (q.pipeline_id, q.name) > (leap.pipeline_id, leap.name)
        order by q.pipeline_id, q.name limit 1) next)`,
  )`
    from (select pipeline_id, name from leap limit ${PAGE}) test
    left join retention_override o on o.pipeline_id = test.pipeline_id
    left join lateral (
      select q.created_at, q.run_id from quality_result q
      where q.pipeline_id = test.pipeline_id and q.name = test.name
      order by q.created_at desc, q.run_id desc
      offset coalesce(o.quality_results_max_per_test, ${config.qualityResultsMaxPerTest}) limit 1) bound on true
    order by test.pipeline_id, test.name`

async function pruneRanges(reaping: Reaping, ranges: readonly RowOf<typeof BOUNDS>[]): Promise<void> {
  if (ranges.length === 0) return
  await inBatches(reaping, async (tx) => {
    const { count } = await tx`
      delete from quality_result where ctid = any(array(
        select gone.ctid from jsonb_to_recordset(${tx.json(ranges as unknown as JSONValue)})
          as range("pipelineId" uuid, name text, "untilAt" timestamptz, "untilRun" uuid)
        left join lateral (select run.id ${verdictOnMain(tx, tx`range."pipelineId"`)}) verdict on true
        cross join lateral (
          select q.ctid from quality_result q
          where q.pipeline_id = range."pipelineId" and q.name = range.name and q.created_at <= range."untilAt"
            and (q.created_at, q.run_id) <= (range."untilAt", range."untilRun") and q.run_id is distinct from verdict.id
          limit ${BATCH_ROWS}) gone
        limit ${BATCH_ROWS}))`
    reaping.reaped.qualityPruned += count
    reaping.dryRun?.add('quality_results', count)
    return count === BATCH_ROWS
  })
}
