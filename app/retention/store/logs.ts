// Prunes log lines older than the age that their pipeline sets; the runs stay. Run ids are ordered by time, so the primary key
// finds old lines. The table has the most writes, so it has no further index.
import type { SqlTx } from '../../../drizzle/client.ts'
import { computed, select } from '../../../drizzle/rows.ts'
import { retentionOverrides } from '../../../drizzle/schema/retention.ts'
import { FIRST_ID } from '../../core/ids.ts'
import { BATCH_ROWS, inBatches, LINE_KEY, type LineKey, PAGE, type Reaping } from './reaping.ts'

const DAY_MS = 86_400_000
/** Allowed difference of clocks. API processes create run ids by their own clocks; the database dates the lines. */
const CLOCKS_DIFFER_MS = 3_600_000

const OVERRIDING = { id: retentionOverrides.pipelineId, days: computed<number>('logs_max_age_days') }

export async function pruneLogs(reaping: Reaping): Promise<void> {
  const own = await reaping.sql`select from retention_override where logs_max_age_days is not null limit 1`
  await pruneByAge(reaping, own.length > 0)
  let after = FIRST_ID
  for (;;) {
    const overriding = await select(reaping.sql, OVERRIDING)`
      from retention_override
      where logs_max_age_days is not null and pipeline_id > ${after} order by pipeline_id limit ${PAGE}`
    for (const { id, days } of overriding)
      await pruneOfPipeline(reaping, id, new Date(reaping.now.getTime() - days * DAY_MS))
    const last = overriding.at(-1)
    if (overriding.length < PAGE || last === undefined) return
    after = last.id
  }
}

/**
 * Prunes lines of pipelines without an own age, and of deleted runs. Walks the primary key in batches. The end of a batch is
 * read from the key alone, so old rows are read only by their deletion.
 */
async function pruneByAge(reaping: Reaping, isOverridden: boolean): Promise<void> {
  const { cutoffs, reaped, linesGone } = reaping
  const cutoff = new Date(cutoffs.logs)
  const end = firstIdAt(cutoffs.logs + CLOCKS_DIFFER_MS)
  let after: LineKey = { runId: FIRST_ID, seq: -1 }
  let gone: { after: LineKey; until: LineKey } | null = null
  await inBatches(reaping, async (tx) => {
    // The previous batch is committed only now.
    if (gone !== null) noteGone(linesGone, gone.after, gone.until)
    gone = null
    const [last] = await select(tx, LINE_KEY)`
      from run_log
      where (run_id, seq) > (${after.runId}, ${after.seq}) and run_id < ${end}
      order by run_id, seq offset ${BATCH_ROWS - 1} limit 1`
    const { count } = await tx`
      delete from run_log l
      where (l.run_id, l.seq) > (${after.runId}, ${after.seq}) ${
        last === undefined
          ? tx`and l.run_id < ${end}`
          : tx`and (l.run_id, l.seq) <= (${last.runId}, ${last.seq})`
      } and l.at < ${cutoff} ${
        isOverridden
          ? tx`and not exists (
              select from run r join retention_override o on o.pipeline_id = r.pipeline_id
              where r.id = l.run_id and o.logs_max_age_days is not null)`
          : tx``
      }`
    reaped.logsPruned += count
    reaping.dryRun?.add('log_lines', count)
    if (last === undefined) return false
    // The batch was deleted completely: no line in it was too young, or kept longer.
    if (count === BATCH_ROWS) gone = { after, until: last }
    after = last
    return true
  })
}

/** Merges adjacent ranges, so the runs between them are not at an edge. */
function noteGone(linesGone: Reaping['linesGone'], after: LineKey, until: LineKey) {
  const latest = linesGone.at(-1)
  if (latest?.until.runId === after.runId && latest.until.seq === after.seq) latest.until = until
  else linesGone.push({ after, until })
}

/** Prunes the lines of one pipeline that sets its own age. */
async function pruneOfPipeline(reaping: Reaping, pipelineId: string, cutoff: Date): Promise<void> {
  const { reaped } = reaping
  await inBatches(reaping, async (tx: SqlTx) => {
    const { count } = await tx`
      delete from run_log where ctid = any(array(
        select l.ctid from run r join run_log l on l.run_id = r.id
        where r.pipeline_id = ${pipelineId} and r.created_at < ${cutoff} and l.at < ${cutoff}
        limit ${BATCH_ROWS}))`
    reaped.logsPruned += count
    reaping.dryRun?.add('log_lines', count)
    return count === BATCH_ROWS
  })
}

/** The smallest version 7 id of a millisecond. */
export function firstIdAt(ms: number): string {
  const digits = Math.max(0, ms).toString(16).padStart(12, '0')
  return `${digits.slice(0, 8)}-${digits.slice(8)}-0000-0000-000000000000`
}
