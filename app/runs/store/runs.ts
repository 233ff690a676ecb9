import type { Sql } from '../../../drizzle/client.ts'
import { COUNT, computed, only, pick, type RowOf, select, selected } from '../../../drizzle/rows.ts'
import { runLogs, runs, type StaleInput } from '../../../drizzle/schema/run.ts'
import { traceIdOf } from '../../../ground/telemetry/trace.ts'
import type { PipelineId, RunId } from '../../core/ids.ts'
import { limits } from '../../core/limits.ts'
import type { Run, RunListed } from '../schema.ts'
import type { LogLevel } from './logs.ts'

/** Columns of a listed run, by their names on the wire. */
export const LISTED = {
  id: runs.id,
  pipeline_id: runs.pipelineId,
  namespace: runs.namespace,
  layer: runs.layer,
  pipeline: runs.pipeline,
  status: runs.status,
  phase: runs.phase,
  trigger: runs.trigger,
  branch: runs.branch,
  draft: runs.isDraft,
  attempt: runs.attempt,
  version_number: runs.versionNumber,
  started_at: runs.startedAt,
  finished_at: runs.finishedAt,
  duration_ms: runs.durationMs,
  rows_written: runs.rowsWritten,
  created_at: runs.createdAt,
}
const SHOWN = {
  ...LISTED,
  ...pick(runs, 'error', 'baseCommit', 'mergedCommit', 'traceparent'),
  waiting_reason: computed<string | null>('case when run.waiting then run.waiting_reason end'),
  stale_inputs: computed<StaleInput[] | null>(
    '(select v.stale_inputs from run_review v where v.run_id = run.id)',
  ),
}

export const listed = ({ started_at, finished_at, created_at, ...run }: RowOf<typeof LISTED>): RunListed => ({
  ...run,
  build_id: null,
  started_at: started_at?.toISOString() ?? null,
  finished_at: finished_at?.toISOString() ?? null,
  created_at: created_at.toISOString(),
})

export async function findRun(sql: Sql, id: string): Promise<Run | null> {
  const [row] = await select(sql, SHOWN)`from run where id = ${id}`
  if (row === undefined) return null
  const { error, waiting_reason, stale_inputs, baseCommit, mergedCommit, traceparent, ...run } = row
  return {
    ...listed(run),
    error,
    waiting_reason,
    stale_inputs,
    base_commit: baseCommit,
    merged_commit: mergedCommit,
    trace_id: traceparent === null ? null : traceIdOf(traceparent),
  }
}

interface StoredLine {
  seq: number
  timestamp: string
  level: LogLevel
  message: string
}

const STATE = pick(runs, 'status', 'rowsWritten', 'durationMs')
const LINE = pick(runLogs, 'seq', 'at', 'level', 'message')
type LineRow = RowOf<typeof LINE>

/** A run's state and its lines after number `seq`, from one snapshot. So a run that has ended has all its lines. */
export async function tailOf(sql: Sql, runId: string, seq: number, linesMax: number) {
  const rows = await sql<(RowOf<typeof STATE> & (LineRow | Record<keyof LineRow, null>))[]>`
    select ${selected(sql, { ...STATE, ...LINE })}
    from run left join run_log on run_log.run_id = run.id and run_log.seq > ${seq}
    where run.id = ${runId} order by run_log.seq limit ${linesMax}`
  const [first] = rows
  if (first === undefined) return null
  return {
    state: { status: first.status, rows_written: first.rowsWritten, duration_ms: first.durationMs },
    lines: rows.flatMap(({ seq: number, at, level, message }): StoredLine[] =>
      number === null ? [] : [{ seq: number, timestamp: at.toISOString(), level, message }],
    ),
  }
}

/** Active runs of a pipeline, at most `limits.cancelBatch`. */
export async function activeRunsOf(sql: Sql, pipelineId: PipelineId): Promise<RunId[]> {
  const rows = await select(sql, { id: computed<RunId>('id') })`
    from run where pipeline_id = ${pipelineId} and status in ('pending', 'running') order by id
    limit ${limits.cancelBatch}`
  return rows.map(({ id }) => id)
}

interface ActiveRuns {
  active: number
  inReview: number
  /** Waiting runs that no runner can take. */
  unplaced: number
  /** Age of the oldest run that waits for its first attempt; 0 without such a run. */
  queueSeconds: number
}

export const countActiveRuns = async (sql: Sql): Promise<ActiveRuns> =>
  only(
    await select(sql, {
      active: COUNT,
      inReview: computed<number>(`count(*) filter (where phase = 'review')::int`),
      unplaced: computed<number>('count(*) filter (where waiting and waiting_reason is not null)::int'),
      queueSeconds: computed<number>(`coalesce(extract(epoch from
        clock_timestamp() - min(created_at) filter (where waiting and status = 'pending')), 0)::float8`),
    })`from run where status in ('pending', 'running')`,
  )
