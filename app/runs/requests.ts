// Requests that no person made: triggers and schedules ask for runs of published versions, many in one statement.
import type { JSONValue } from 'postgres'
import type { SqlTx } from '../../drizzle/client.ts'
import { store } from '../../machines/advance.ts'
import { newRun, RUN_MACHINE_VERSION } from '../../machines/run.ts'
import type { PipelineId, RunId } from '../ids.ts'
import { limits } from '../limits.ts'

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
}

/** Why there is no run: no such pipeline any more, never published, too many runs waiting, or requested before. */
export type RequestOutcome = 'requested' | 'gone' | 'unpublished' | 'full' | 'repeated'

/**
 * Inserts the pending rows with their first line of history; each pins the version that is published now. One statement,
 * in the caller's transaction, so that a firing is whole or nothing. A deletion under way waits, and then sees these runs.
 */
export async function requestRuns(
  tx: SqlTx,
  requests: readonly RunRequest[],
): Promise<Map<RunId, RequestOutcome>> {
  if (requests.length === 0) return new Map()
  const wanted = requests.map(({ id, pipelineId, trigger, cause, chainDepth, landingFileId }) => ({
    id,
    pipeline_id: pipelineId,
    trigger,
    trigger_id: 'triggerId' in cause ? cause.triggerId : null,
    trigger_event: 'triggerId' in cause ? cause.event : null,
    schedule_id: 'scheduleId' in cause ? cause.scheduleId : null,
    schedule_due: 'scheduleId' in cause ? cause.due : null,
    chain_depth: chainDepth,
    landing_file_id: landingFileId,
  }))
  const rows = await tx<{ id: RunId; outcome: RequestOutcome }[]>`
    with wanted as (
      select * from jsonb_to_recordset(${tx.json(wanted as unknown as JSONValue)}) as w(id uuid, pipeline_id uuid,
        trigger text, trigger_id uuid, trigger_event text, schedule_id uuid, schedule_due timestamptz, chain_depth int,
        landing_file_id uuid)),
    live as (
      select p.id, p.namespace, p.layer, p.name, p.published_version from pipeline p
      where p.id in (select pipeline_id from wanted) and p.deleted_at is null order by p.id for share),
    full_queue as (
      select l.id from live l where exists (
        select 1 from run q where q.pipeline_id = l.id and q.waiting
        offset ${limits.waitingRunsPerPipeline - 1} limit 1)),
    inserted as (
      insert into run (id, pipeline_id, namespace, layer, pipeline, pipeline_type, trigger, version_number, pins,
        landing_zones, snapshot, machine_version, status, trigger_id, trigger_event, schedule_id, schedule_due,
        chain_depth, landing_file_id)
      select w.id, l.id, l.namespace, l.layer, l.name, v.pipeline_type, w.trigger, v.version_number, v.published_versions,
        v.landing_zones, ${tx.json(PENDING)}, ${RUN_MACHINE_VERSION}, 'pending', w.trigger_id, w.trigger_event,
        w.schedule_id, w.schedule_due, w.chain_depth, w.landing_file_id
      from wanted w join live l on l.id = w.pipeline_id
      join pipeline_version v on v.pipeline_id = l.id and v.version_number = l.published_version
      where l.id not in (select id from full_queue)
      on conflict do nothing
      returning id, created_at, trigger),
    told as (
      insert into transition (machine, entity_id, at, event, "from", "to", effects, cause)
      select 'run', id, created_at, 'requested', '', 'pending.waiting', '[]', trigger from inserted)
    select w.id, case when i.id is not null then 'requested' when l.id is null then 'gone'
      when l.published_version is null then 'unpublished'
      when l.id in (select id from full_queue) then 'full' else 'repeated' end as outcome
    from wanted w left join live l on l.id = w.pipeline_id left join inserted i on i.id = w.id`
  return new Map(rows.map(({ id, outcome }) => [id, outcome]))
}

const PENDING = store(newRun()) as unknown as JSONValue
