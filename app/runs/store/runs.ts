import type { Sql } from '../../../drizzle/client.ts'
import { pick, type RowOf, select, selected } from '../../../drizzle/rows.ts'
import { runLogs, runs } from '../../../drizzle/schema/run.ts'
import { traceIdOf } from '../../../proto/trace.ts'
import type { PipelineId, RunId } from '../../core/ids.ts'
import { limits } from '../../core/limits.ts'
import type { Run, RunListed } from '../schema.ts'
import type { LogLevel } from './logs.ts'

/** Columns of a run in a list. */
const LISTED = pick(
  runs,
  'id',
  'pipelineId',
  'namespace',
  'layer',
  'pipeline',
  'status',
  'phase',
  'trigger',
  'attempt',
  'versionNumber',
  'startedAt',
  'finishedAt',
  'durationMs',
  'rowsWritten',
  'createdAt',
)
const SHOWN = { ...LISTED, ...pick(runs, 'error', 'baseCommit', 'mergedCommit', 'traceparent') }

/** A row with `runColumns`. */
export type RunRow = RowOf<typeof LISTED>

export const runColumns = (sql: Sql) => selected(sql, LISTED)

export const listed = (row: RunRow): RunListed => ({
  id: row.id,
  pipeline_id: row.pipelineId,
  namespace: row.namespace,
  layer: row.layer,
  pipeline: row.pipeline,
  status: row.status,
  phase: row.phase,
  trigger: row.trigger,
  attempt: row.attempt,
  version_number: row.versionNumber,
  started_at: row.startedAt?.toISOString() ?? null,
  finished_at: row.finishedAt?.toISOString() ?? null,
  duration_ms: row.durationMs,
  rows_written: row.rowsWritten,
  created_at: row.createdAt.toISOString(),
})

export async function findRun(sql: Sql, id: string): Promise<Run | null> {
  const [row] = await select(sql, SHOWN)`from run where id = ${id}`
  if (row === undefined) return null
  return {
    ...listed(row),
    error: row.error,
    base_commit: row.baseCommit,
    merged_commit: row.mergedCommit,
    trace_id: row.traceparent === null ? null : traceIdOf(row.traceparent),
  }
}

export interface StoredLine {
  seq: number
  timestamp: string
  level: LogLevel
  message: string
}

const STATE = pick(runs, 'status', 'rowsWritten', 'durationMs')
const LINE = pick(runLogs, 'seq', 'at', 'level', 'message')
type LineRow = RowOf<typeof LINE>

/** A run's state and the lines after a number, as one statement saw them: a run that has ended has all its lines. */
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

/** Runs of a pipeline that have not ended, at most a batch of them. */
export async function activeRunsOf(sql: Sql, pipelineId: PipelineId): Promise<RunId[]> {
  const rows = await sql<{ id: RunId }[]>`
    select id from run where pipeline_id = ${pipelineId} and status in ('pending', 'running') order by id
    limit ${limits.cancelBatch}`
  return rows.map((row) => row.id)
}

export async function countActiveRuns(sql: Sql): Promise<number> {
  const [row] = await sql<{ active: string }[]>`
    select count(*) as active from run where status in ('pending', 'running')`
  return Number(row?.active ?? 0)
}
