// Requests for runs of published versions, many in one statement: of people by name, of triggers and schedules by id.
import type { JSONValue, PendingQuery, Row } from 'postgres'
import type { Sql, SqlTx } from '../../../drizzle/client.ts'
import { columnNames, recordset } from '../../../drizzle/rows.ts'
import { runs } from '../../../drizzle/schema/run.ts'
import type { Part } from '../../../drizzle/sql.ts'
import { store } from '../../../machines/advance.ts'
import { newRun, RUN_MACHINE_VERSION } from '../../../machines/run.ts'
import { begunTrace, type ClientTrace } from '../../../proto/trace.ts'
import type { PipelineId, RunId } from '../../core/ids.ts'
import { limits } from '../../core/limits.ts'

export interface RunRequest {
  id: RunId
  pipelineId: PipelineId
  /** `schedule:<cron>`, `webhook`, `trigger:<type>:<detail>`. */
  trigger: string
  /** What makes the request unique (I2): a trigger with the subject of its event, or a schedule with its due time. */
  cause: { triggerId: string; event: string } | { scheduleId: string; due: Date }
  /** Firings between a person or a clock and this run. */
  chainDepth: number
  /** The upload that asked for it. */
  landingFileId: string | null
  /** Of what has led to it. */
  trace: ClientTrace
}

/** Why there is no run: no such pipeline any more, never published, too many runs waiting, or requested before. */
export type RequestOutcome = 'requested' | 'gone' | 'unpublished' | 'full' | 'repeated'

/**
 * A statement that inserts the pending rows with their first line of history; each pins the version that is published now.
 * A pipeline that is deleted meanwhile gets its run cancelled when that would be started. `also` is more for it to do, so
 * that a firing is whole or nothing: parts which may read the runs that are new from `inserted (id, created_at, trigger_id)`
 * and what each request has come to from `outcome (id, outcome)`, as `outcomesOf` reads its answer. There is one request at
 * least.
 */
export function requestedRuns(
  tx: SqlTx,
  requests: readonly RunRequest[],
  also: readonly Part[] = [],
): PendingQuery<Row[]> {
  const rows = requests.map(({ cause, trace, ...request }) => ({
    ...request,
    triggerId: 'triggerId' in cause ? cause.triggerId : null,
    triggerEvent: 'triggerId' in cause ? cause.event : null,
    scheduleId: 'scheduleId' in cause ? cause.scheduleId : null,
    scheduleDue: 'scheduleId' in cause ? cause.due : null,
    ...begunTrace(request.id, trace),
  }))
  return insertRequested(tx, rows, {
    find: tx`p.id = w.pipeline_id`,
    onRepeat: tx`on conflict do nothing`,
    also,
  })
}

export const outcomesOf = (rows: readonly Row[]): Map<RunId, RequestOutcome> =>
  new Map(rows.map(({ id, outcome }) => [id, outcome]))

/** What a person or program asks for, by the pipeline's name. */
export interface NamedRequest extends ClientTrace {
  id: RunId
  namespace: string
  layer: string
  pipeline: string
  trigger: string
}

/** As `requestedRuns`, for pipelines by name and with nothing to be unique by. One statement that commits by itself. */
export const requestNamed = async (
  sql: Sql,
  requests: readonly NamedRequest[],
): Promise<Map<RunId, RequestOutcome>> =>
  outcomesOf(
    await insertRequested(
      sql,
      requests.map((request) => ({ ...request, ...begunTrace(request.id, request), chainDepth: 0 })),
      {
        find: sql`p.namespace = w.namespace and p.layer = w.layer and p.name = w.pipeline`,
        onRepeat: sql``,
        also: [],
      },
    ),
  )

/** Columns that a request may fill; the pipeline is named by its id or by its name. */
const REQUESTED_COLUMNS = [
  'id',
  'pipelineId',
  'namespace',
  'layer',
  'pipeline',
  'trigger',
  'triggerId',
  'triggerEvent',
  'scheduleId',
  'scheduleDue',
  'chainDepth',
  'landingFileId',
  'traceparent',
  'tracestate',
] as const
type RunRow = typeof runs.$inferSelect
type Requested = Partial<Pick<RunRow, (typeof REQUESTED_COLUMNS)[number]>>

/**
 * Each pipeline and version is looked up by its index (`lateral ... limit 1` leaves the planner no other way): statistics
 * of tables that have just been filled would make it read them whole. A queue that has room when the statement begins may
 * be filled past its limit by this one statement.
 */
const insertRequested = (
  sql: Sql | SqlTx,
  requests: readonly Requested[],
  { find, onRepeat, also }: { find: Part; onRepeat: Part; also: readonly Part[] },
): PendingQuery<Row[]> =>
  sql`
    with wanted as (
      select w.*, p.pipeline_id as found_id, p.namespace as ns, p.layer as ly, p.name, v.*
      from ${recordset(sql, runs, REQUESTED_COLUMNS, requests, 'w')}
      left join lateral (
        select p.id as pipeline_id, p.namespace, p.layer, p.name, p.published_version
        from pipeline p where ${find} and p.deleted_at is null limit 1) p on true
      left join lateral (
        select v.version_number, v.pipeline_type, v.published_versions, v.landing_zones
        from pipeline_version v
        where v.pipeline_id = p.pipeline_id and v.version_number = p.published_version limit 1) v on true),
    full_queue as materialized (
      select l.found_id from (select distinct found_id from wanted where found_id is not null) l
      where exists (
        select 1 from run q where q.pipeline_id = l.found_id and q.waiting
        offset ${limits.waitingRunsPerPipeline - 1} limit 1)),
    inserted as (
      insert into run (id, pipeline_id, namespace, layer, pipeline, pipeline_type, trigger, version_number, pins,
        landing_zones, snapshot, machine_version, status, trigger_id, trigger_event, schedule_id, schedule_due,
        chain_depth, landing_file_id, traceparent, tracestate)
      select w.id, w.found_id, w.ns, w.ly, w.name, w.pipeline_type, w.trigger, w.version_number, w.published_versions,
        w.landing_zones, ${sql.json(PENDING.snapshot as unknown as JSONValue)}, ${PENDING.machineVersion}, ${PENDING.status}, w.trigger_id, w.trigger_event,
        w.schedule_id, w.schedule_due, w.chain_depth, w.landing_file_id, w.traceparent, w.tracestate
      from wanted w
      where w.version_number is not null and w.found_id not in (select found_id from full_queue)
      ${onRepeat}
      returning id, created_at, trigger, trigger_id),
    told as (
      insert into transition (machine, entity_id, at, event, "from", "to", effects, cause)
      select 'run', id, created_at, 'requested', '', 'pending.waiting', '[]', trigger from inserted),
    outcome as (
      select w.id, case when i.id is not null then 'requested' when w.found_id is null then 'gone'
        when w.version_number is null then 'unpublished'
        when w.found_id in (select found_id from full_queue) then 'full' else 'repeated' end as outcome
      from wanted w left join inserted i on i.id = w.id)
    ${also.reduce((all, part) => sql`${all}, ${part}`, sql``)}
    select id, outcome from outcome`

/** What identifies a run that is inserted with its code: a draft, or a request with a key. */
const NEW_COLUMNS = [
  'id',
  'pipelineId',
  'namespace',
  'layer',
  'pipeline',
  'pipelineType',
  'trigger',
  'versionNumber',
  'pins',
  'landingZones',
] as const

/** A run to be inserted with its code; `versionNumber` is null for a draft. */
export interface NewRun extends Pick<RunRow, (typeof NEW_COLUMNS)[number]>, ClientTrace {
  id: RunId
  pipelineId: PipelineId
}

/**
 * The pending row, which is the queue entry, and its first line of history, in one statement.
 * False: the pipeline has been deleted meanwhile, or has too many runs waiting.
 */
export async function insertRun(sql: Sql | SqlTx, run: NewRun): Promise<boolean> {
  const columns = [...NEW_COLUMNS, ...PENDING_COLUMNS, 'traceparent', 'tracestate'] as const
  const row = { ...run, ...PENDING, ...begunTrace(run.id, run) }
  const rows = await sql`
    with requested as (
      insert into run (${columnNames(sql, runs, columns)})
      select ${columnNames(sql, runs, columns, 'n.')} from ${recordset(sql, runs, columns, [row], 'n')}
      join pipeline p on p.id = n.pipeline_id and p.deleted_at is null and not exists (
        select 1 from run q where q.pipeline_id = p.id and q.waiting
        offset ${limits.waitingRunsPerPipeline - 1} limit 1)
      returning id, created_at)
    insert into transition (machine, entity_id, at, event, "from", "to", effects, cause)
    select 'run', id, created_at, 'requested', '', 'pending.waiting', '[]', ${run.trigger} from requested
    returning entity_id`
  return rows.length > 0
}

/** How the row of a run begins. */
const PENDING_COLUMNS = ['snapshot', 'machineVersion', 'status'] as const
const PENDING: Pick<RunRow, (typeof PENDING_COLUMNS)[number]> = {
  snapshot: store(newRun()),
  machineVersion: RUN_MACHINE_VERSION,
  status: 'pending',
}
