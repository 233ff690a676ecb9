import type { Sql } from '../../drizzle/client.ts'
import { andSeenId } from '../../drizzle/visibility.ts'
import type { Visible } from '../core/access.ts'
import type { Layer } from '../core/names.ts'
import type { Page } from '../core/pagination.ts'
import type { PipelineRef } from '../core/pipeline-ref.ts'
import type { UpdateSchedule } from './schema.ts'

// A deleted pipeline's schedules are gone: every question is about those of live ones.

type Seen = Visible['pipelines']

export interface ScheduleRow {
  id: string
  namespace: string
  layer: Layer
  pipeline: string
  cron: string
  enabled: boolean
  last_run_at: Date | null
  next_run_at: Date | null
  created_at: Date
  updated_at: Date
}

const shown = (sql: Sql) => sql`
  s.id, p.namespace, p.layer, p.name as pipeline, s.cron, s.enabled, s.last_run_at, s.next_run_at, s.created_at, s.updated_at`

/** Null when there is no such pipeline. One that is being deleted is waited for, and then is none. */
export async function insertSchedule(
  sql: Sql,
  { id, pipeline, cron, enabled }: { id: string; pipeline: PipelineRef; cron: string; enabled: boolean },
): Promise<ScheduleRow | null> {
  const [row] = await sql<ScheduleRow[]>`
    with p as (
      select id, namespace, layer, name from pipeline
      where namespace = ${pipeline.namespace} and layer = ${pipeline.layer} and name = ${pipeline.name}
        and deleted_at is null for share),
    s as (insert into schedule (id, pipeline_id, cron, enabled) select ${id}, id, ${cron}, ${enabled} from p returning *)
    select ${shown(sql)} from s, p`
  return row ?? null
}

/** Oldest first, of the pipelines the caller sees. */
export async function schedulesOn(sql: Sql, { limit, offset }: Page, seen: Seen): Promise<ScheduleRow[]> {
  return sql<ScheduleRow[]>`
    select ${shown(sql)} from schedule s join pipeline p on p.id = s.pipeline_id and p.deleted_at is null
      ${andSeenId(sql, sql`p.id`, seen)}
    order by s.created_at, s.id limit ${limit} offset ${offset}`
}

export async function scheduleCount(sql: Sql, seen: Seen): Promise<number> {
  const [row] = await sql<{ total: number }[]>`
    select count(*)::int as total from schedule s join pipeline p on p.id = s.pipeline_id and p.deleted_at is null
      ${andSeenId(sql, sql`p.id`, seen)}`
  return row?.total ?? 0
}

export async function scheduleById(sql: Sql, id: string): Promise<ScheduleRow | null> {
  const [row] = await sql<ScheduleRow[]>`
    select ${shown(sql)} from schedule s join pipeline p on p.id = s.pipeline_id and p.deleted_at is null
    where s.id = ${id}`
  return row ?? null
}

/**
 * What is not given stays. Another cron text, and the end of a pause, count from now on: the schedule is as a new one, so
 * that the next tick only finds out when it is due. Null when there is none.
 */
export async function changeSchedule(
  sql: Sql,
  id: string,
  { cron, enabled }: UpdateSchedule,
): Promise<ScheduleRow | null> {
  const [row] = await sql<ScheduleRow[]>`
    update schedule s set
      cron = coalesce(${cron ?? null}, s.cron),
      enabled = coalesce(${enabled ?? null}, s.enabled),
      next_run_at = case when s.enabled and coalesce(${enabled ?? null}, true) and s.cron = coalesce(${cron ?? null}, s.cron)
        then s.next_run_at end,
      updated_at = clock_timestamp()
    from pipeline p where s.id = ${id} and p.id = s.pipeline_id and p.deleted_at is null
    returning ${shown(sql)}`
  return row ?? null
}

/** Whether there was one. */
export async function removeSchedule(sql: Sql, id: string): Promise<boolean> {
  const removed = await sql`
    delete from schedule s using pipeline p
    where s.id = ${id} and p.id = s.pipeline_id and p.deleted_at is null returning 1`
  return removed.length > 0
}
