// Log lines older than the age of their pipeline go; the runs stay. Run ids are ordered by time, so the primary key leads
// to old lines: no other index is needed on the table that is written most.
import type { SqlTx } from '../../drizzle/client.ts'
import { BATCH_ROWS, inBatches, PAGE, type Reaping } from './reaping.ts'

const NO_ID = '00000000-0000-0000-0000-000000000000'
const DAY_MS = 86_400_000
/** Ids are made by the clocks of API processes, lines are dated by the database's. */
const CLOCKS_DIFFER_MS = 3_600_000

export async function pruneLogs(reaping: Reaping): Promise<void> {
  const [overriding] = await reaping.sql<{ exists: boolean }[]>`
    select exists (select from retention_override where logs_max_age_days is not null) as exists`
  await pruneByAge(reaping, overriding?.exists ?? true)
  let after = NO_ID
  for (;;) {
    const overriding = await reaping.sql<{ id: string; days: number }[]>`
      select pipeline_id as id, logs_max_age_days as days from retention_override
      where logs_max_age_days is not null and pipeline_id > ${after} order by pipeline_id limit ${PAGE}`
    for (const { id, days } of overriding)
      await pruneOfPipeline(reaping, id, new Date(reaping.now.getTime() - days * DAY_MS))
    const last = overriding.at(-1)
    if (overriding.length < PAGE || last === undefined) return
    after = last.id
  }
}

/** Lines of all pipelines that have no age of their own, and of runs that are gone. Looks at a batch of lines at a time. */
async function pruneByAge(reaping: Reaping, isOverridden: boolean): Promise<void> {
  const { cutoffs, reaped } = reaping
  const cutoff = new Date(cutoffs.logs)
  const end = firstIdAt(cutoffs.logs + CLOCKS_DIFFER_MS)
  let after = { run: NO_ID, seq: '-1' }
  await inBatches(reaping, async (tx) => {
    const [window] = await tx<{ gone: number; seen: number; run: string | null; seq: string }[]>`
      with seen as materialized (
        select ctid, run_id, seq, at from run_log
        where (run_id, seq) > (${after.run}, ${after.seq}) and run_id < ${end}
        order by run_id, seq limit ${BATCH_ROWS}),
      last as (select run_id, seq from seen order by run_id desc, seq desc limit 1),
      gone as (
        delete from run_log where ctid = any(array(
          select s.ctid from seen s where s.at < ${cutoff} ${
            isOverridden
              ? tx`and not exists (
                  select from run r join retention_override o on o.pipeline_id = r.pipeline_id
                  where r.id = s.run_id and o.logs_max_age_days is not null)`
              : tx``
          }))
        returning 1)
      select (select count(*) from gone)::int as gone, (select count(*) from seen)::int as seen,
        (select run_id from last) as run, (select seq from last) as seq`
    if (window === undefined || window.run === null) return false
    reaped.logsPruned += window.gone
    after = { run: window.run, seq: window.seq }
    return window.seen === BATCH_ROWS
  })
}

/** Lines of one pipeline, whose age may be longer or shorter than that of others. */
async function pruneOfPipeline(reaping: Reaping, pipelineId: string, cutoff: Date): Promise<void> {
  const { reaped } = reaping
  await inBatches(reaping, async (tx: SqlTx) => {
    const { count } = await tx`
      delete from run_log where ctid = any(array(
        select l.ctid from run r join run_log l on l.run_id = r.id
        where r.pipeline_id = ${pipelineId} and r.created_at < ${cutoff} and l.at < ${cutoff}
        limit ${BATCH_ROWS}))`
    reaped.logsPruned += count
    return count === BATCH_ROWS
  })
}

/** The smallest id (version 7) of a millisecond. */
export function firstIdAt(ms: number): string {
  const digits = Math.max(0, ms).toString(16).padStart(12, '0')
  return `${digits.slice(0, 8)}-${digits.slice(8)}-0000-0000-000000000000`
}
