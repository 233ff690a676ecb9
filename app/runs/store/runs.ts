import type { JSONValue } from 'postgres'
import type { Sql, SqlTx } from '../../../drizzle/client.ts'
import type { PinnedFiles } from '../../../drizzle/schema/pipeline.ts'
import { store } from '../../../machines/advance.ts'
import { newRun, RUN_MACHINE_VERSION, type RunStatus } from '../../../machines/run.ts'
import { begunTrace, type ClientTrace, traceIdOf } from '../../../proto/trace.ts'
import type { PipelineId, RunId } from '../../core/ids.ts'
import { limits } from '../../core/limits.ts'
import type { Run, RunListed } from '../schema.ts'
import type { LogLevel } from './logs.ts'

export interface NewRun extends ClientTrace {
  id: RunId
  pipelineId: PipelineId
  namespace: string
  layer: string
  pipeline: string
  pipelineType: string
  trigger: string
  versionNumber: number | null
  pins: PinnedFiles
  landingZones: string[]
}

/**
 * The pending row, which is the queue entry, and its first line of history, in one statement.
 * False: the pipeline has been deleted meanwhile, or has too many runs waiting.
 */
export async function insertRun(sql: Sql | SqlTx, run: NewRun): Promise<boolean> {
  const { traceparent, tracestate } = begunTrace(run.id, run)
  const rows = await sql`
    with live as (
      select id from pipeline where id = ${run.pipelineId} and deleted_at is null and not exists (
        select 1 from run q where q.pipeline_id = pipeline.id and q.waiting
        offset ${limits.waitingRunsPerPipeline - 1} limit 1)),
    requested as (
      insert into run (id, pipeline_id, namespace, layer, pipeline, pipeline_type, trigger, version_number, pins,
        landing_zones, snapshot, machine_version, status, traceparent, tracestate)
      select ${run.id}, live.id, ${run.namespace}, ${run.layer}, ${run.pipeline}, ${run.pipelineType}, ${run.trigger},
        ${run.versionNumber}, ${sql.json(run.pins)}, ${sql.json(run.landingZones)}, ${sql.json(PENDING)},
        ${RUN_MACHINE_VERSION}, 'pending', ${traceparent}, ${tracestate} from live
      returning id, created_at)
    insert into transition (machine, entity_id, at, event, "from", "to", effects, cause)
    select 'run', id, created_at, 'requested', '', 'pending.waiting', '[]', ${run.trigger} from requested
    returning entity_id`
  return rows.length > 0
}

const PENDING = store(newRun()) as unknown as JSONValue

export async function findRun(sql: Sql, id: string): Promise<Run | null> {
  const [row] = await sql<
    (RunRow & Record<'error' | 'base_commit' | 'merged_commit' | 'traceparent', string | null>)[]
  >`
    select ${runColumns(sql)}, error, base_commit, merged_commit, traceparent from run where id = ${id}`
  if (row === undefined) return null
  return {
    ...listed(row),
    error: row.error,
    base_commit: numberOf(row.base_commit),
    merged_commit: numberOf(row.merged_commit),
    trace_id: row.traceparent === null ? null : traceIdOf(row.traceparent),
  }
}

/** A row as `runColumns` reads it. */
export interface RunRow {
  id: RunId
  pipeline_id: PipelineId
  namespace: string
  layer: string
  pipeline: string
  status: RunStatus
  phase: string | null
  trigger: string
  attempt: number
  version_number: number | null
  started_at: Date | null
  finished_at: Date | null
  duration_ms: string | null
  rows_written: string | null
  created_at: Date
}

export const runColumns = (
  sql: Sql,
) => sql`id, pipeline_id, namespace, layer, pipeline, status, phase, trigger, attempt,
  version_number, started_at, finished_at, duration_ms, rows_written, created_at`

const numberOf = (text: string | null) => (text === null ? null : Number(text))

export const listed = (row: RunRow): RunListed => ({
  id: row.id,
  pipeline_id: row.pipeline_id,
  namespace: row.namespace,
  layer: row.layer,
  pipeline: row.pipeline,
  status: row.status,
  phase: row.phase,
  trigger: row.trigger,
  attempt: row.attempt,
  version_number: row.version_number,
  started_at: row.started_at?.toISOString() ?? null,
  finished_at: row.finished_at?.toISOString() ?? null,
  duration_ms: numberOf(row.duration_ms),
  rows_written: numberOf(row.rows_written),
  created_at: row.created_at.toISOString(),
})

export interface StoredLine {
  seq: number
  timestamp: string
  level: LogLevel
  message: string
}

/** A run's state and the lines after a number, as one statement saw them: a run that has ended has all its lines. */
export async function tailOf(sql: Sql, runId: string, seq: number, linesMax: number) {
  const rows = await sql<TailRow[]>`
    select r.status, r.rows_written, r.duration_ms, l.seq, l.at, l.level, l.message
    from run r left join run_log l on l.run_id = r.id and l.seq > ${seq}
    where r.id = ${runId} order by l.seq limit ${linesMax}`
  const [first] = rows
  if (first === undefined) return null
  return {
    state: {
      status: first.status,
      rows_written: numberOf(first.rows_written),
      duration_ms: numberOf(first.duration_ms),
    },
    lines: rows.flatMap(({ seq: number, at, level, message }): StoredLine[] =>
      number === null ? [] : [{ seq: Number(number), timestamp: at.toISOString(), level, message }],
    ),
  }
}

/** The columns of a line are null together, in the one row of a run that has none. */
type TailRow = {
  status: RunStatus
  rows_written: string | null
  duration_ms: string | null
  seq: string | null
  at: Date
  level: LogLevel
  message: string
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
