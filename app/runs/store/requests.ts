// Requests for runs of published versions, many in one statement: by name from people, by id from triggers and schedules.
import type { JSONValue, PendingQuery, Row } from 'postgres'
import type { Sql, SqlTx } from '../../../drizzle/client.ts'
import { columnNames, recordset } from '../../../drizzle/rows.ts'
import { runs } from '../../../drizzle/schema/run.ts'
import type { Part } from '../../../drizzle/sql.ts'
import { begunTrace, type ClientTrace } from '../../../ground/telemetry/trace.ts'
import { store } from '../../../machines/advance.ts'
import { newRun, RUN_MACHINE_VERSION } from '../../../machines/run.ts'
import type { PipelineId, RunId } from '../../core/ids.ts'
import { MAIN } from '../../core/lake-version.ts'
import { limits } from '../../core/limits.ts'
import { authoredParentPart, openParentPart } from '../../versions/store/nested-branches.ts'

export interface RunRequest {
  id: RunId
  pipelineId: PipelineId
  /** `schedule:<cron>`, `webhook`, `trigger:<type>:<detail>`. */
  trigger: string
  /** The unique cause of the request (I2): a trigger with the subject of its event, or a schedule with its due time. */
  cause: { triggerId: string; event: string } | { scheduleId: string; due: Date }
  /** Number of firings between a person or a clock and this run. */
  chainDepth: number
  /** The upload that requested the run. */
  landingFileId: string | null
  /** The trace of the cause. */
  trace: ClientTrace
}

/**
 * `gone`: the pipeline does not exist. `unpublished`: it has no published version. `full`: too many runs wait. `repeated`: the
 * same cause has already requested a run.
 */
export type RequestOutcome = 'requested' | 'gone' | 'unpublished' | 'full' | 'repeated'

/**
 * A statement that inserts pending runs with their first history entries. Each run pins the currently published version. If a
 * pipeline is deleted meanwhile, its run is cancelled at the start. `also` adds parts to the statement, so that a firing
 * commits as a whole. The parts may read new runs from `inserted (id, created_at, trigger_id)`, and outcomes from `outcome (id,
 * outcome)`. `outcomesOf` parses the rows of the statement. `requests` must not be empty.
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

/** A request by a person or program, with the pipeline's name. */
export interface NamedRequest extends ClientTrace {
  id: RunId
  namespace: string
  layer: string
  pipeline: string
  trigger: string
  requestedBy?: string | null
}

/** Like `requestedRuns`, but by pipeline name and without a unique cause. One statement that commits by itself. */
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

/** Columns that a request may fill. Either the id or the name identifies the pipeline. */
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
  'requestedBy',
  'traceparent',
  'tracestate',
] as const
type InsertedRun = typeof runs.$inferSelect
type Requested = Partial<Pick<InsertedRun, (typeof REQUESTED_COLUMNS)[number]>>

/**
 * `lateral ... limit 1` makes the planner look up each pipeline and version by index. Otherwise the planner reads whole tables,
 * because statistics of newly filled tables mislead it. If the queue has room when the statement begins, this one statement may
 * exceed the queue's limit.
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
        select v.version_number, v.pipeline_type, v.published_versions, v.landing_zones, v.placement
        from pipeline_version v
        where v.pipeline_id = p.pipeline_id and v.version_number = p.published_version limit 1) v on true),
    full_queue as materialized (
      select l.found_id from (select distinct found_id from wanted where found_id is not null) l
      where exists (
        select 1 from run q where q.pipeline_id = l.found_id and q.waiting
        offset ${limits.waitingRunsPerPipeline - 1} limit 1)),
    inserted as (
      insert into run (id, pipeline_id, namespace, layer, pipeline, pipeline_type, trigger, version_number, pins,
        landing_zones, placement, snapshot, machine_version, status, trigger_id, trigger_event, schedule_id, schedule_due,
        chain_depth, landing_file_id, requested_by, traceparent, tracestate)
      select w.id, w.found_id, w.ns, w.ly, w.name, w.pipeline_type, w.trigger, w.version_number, w.published_versions,
        w.landing_zones, w.placement, ${sql.json(PENDING.snapshot as unknown as JSONValue)}, ${PENDING.machineVersion}, ${PENDING.status}, w.trigger_id, w.trigger_event,
        w.schedule_id, w.schedule_due, w.chain_depth, w.landing_file_id, w.requested_by, w.traceparent, w.tracestate
      from wanted w
      where w.version_number is not null and w.found_id not in (select found_id from full_queue)
      ${onRepeat}
      returning id, created_at, trigger, trigger_id),
    history as (
      insert into transition (machine, entity_id, at, event, "from", "to", effects, cause)
      select 'run', id, created_at, 'requested', '', 'pending.waiting', '[]', trigger from inserted),
    outcome as (
      select w.id, case when i.id is not null then 'requested' when w.found_id is null then 'gone'
        when w.version_number is null then 'unpublished'
        when w.found_id in (select found_id from full_queue) then 'full' else 'repeated' end as outcome
      from wanted w left join inserted i on i.id = w.id)
    ${also.reduce((all, part) => sql`${all}, ${part}`, sql``)}
    select id, outcome from outcome`

/** Columns of a run that is inserted with its code: a draft run, or a request with a key. */
const NEW_COLUMNS = [
  'id',
  'pipelineId',
  'namespace',
  'layer',
  'pipeline',
  'pipelineType',
  'trigger',
  'branch',
  'isDraft',
  'versionNumber',
  'pins',
  'landingZones',
  'placement',
] as const

/** A run to insert with its code; `versionNumber` is null for a draft. */
export interface NewRun extends Pick<InsertedRun, (typeof NEW_COLUMNS)[number]>, ClientTrace {
  requestedBy?: string | null
  id: RunId
  pipelineId: PipelineId
}

/**
 * Inserts the pending row, which is the queue entry, and its first history entry in one statement. False: the pipeline was
 * deleted meanwhile, too many of its runs wait, or no branch of a user with this name is open. The lock of the branch makes its
 * end wait, so a branch never ends with an unfinished run.
 */
export async function insertRun(sql: Sql | SqlTx, run: NewRun): Promise<boolean> {
  const columns = [...NEW_COLUMNS, ...PENDING_COLUMNS, 'requestedBy', 'traceparent', 'tracestate'] as const
  const row = { ...run, ...PENDING, ...begunTrace(run.id, run) }
  const isOnMain = run.branch === MAIN
  const rows = await sql`
    with ${isOnMain ? sql`` : sql`${openParentPart(sql, run.branch)},`} requested as (
      insert into run (${columnNames(sql, runs, columns)})
      select ${columnNames(sql, runs, columns, 'n.')} from ${recordset(sql, runs, columns, [row], 'n')}
      join pipeline p on p.id = n.pipeline_id and p.deleted_at is null and not exists (
        select 1 from run q where q.pipeline_id = p.id and q.waiting
        offset ${limits.waitingRunsPerPipeline - 1} limit 1)
        and ${isOnMain ? sql`true` : sql`exists (select from open_parent)`}
      returning id, created_at)
    ${isOnMain ? sql`` : sql`, ${authoredParentPart(sql, run.branch, sql`(${authorsOf(sql, run)} from requested)`)}`}
    insert into transition (machine, entity_id, at, event, "from", "to", effects, cause)
    select 'run', id, created_at, 'requested', '', 'pending.waiting', '[]', ${run.trigger} from requested
    returning entity_id`
  return rows.length > 0
}

/** A SELECT without its FROM: everybody whose change the run brings to its branch. A run without a version executes the draft. */
const authorsOf = (sql: Sql | SqlTx, { pipelineId, versionNumber, requestedBy = null }: NewRun): Part => sql`
  select array_remove(${versionNumber === null ? sql`(select draft_authors from pipeline where id = ${pipelineId})` : sql`'{}'::text[]`}
    || ${requestedBy}::text, null)`

/** Initial values of a run's row. */
const PENDING_COLUMNS = ['snapshot', 'machineVersion', 'status'] as const
const PENDING: Pick<InsertedRun, (typeof PENDING_COLUMNS)[number]> = {
  snapshot: store(newRun()),
  machineVersion: RUN_MACHINE_VERSION,
  status: 'pending',
}
