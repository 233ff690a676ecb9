import assert from 'node:assert/strict'
import { getTableColumns } from 'drizzle-orm'
import { alias } from 'drizzle-orm/pg-core'
import type { JSONValue } from 'postgres'
import type { Sql, SqlTx } from '../../drizzle/client.ts'
import { selected } from '../../drizzle/rows.ts'
import { schedules } from '../../drizzle/schema/index.ts'
import type { Part } from '../../drizzle/sql.ts'
import { andSeenId } from '../../drizzle/visibility.ts'
import type { Visible } from '../core/access.ts'
import type { PipelineId, RunId } from '../core/ids.ts'
import type { Layer } from '../core/names.ts'
import type { Page } from '../core/pagination.ts'
import type { PipelineRef } from '../core/pipeline-ref.ts'
import type { UpdateSchedule } from './schema.ts'

// A deleted pipeline's schedules are gone: every question is about those of live ones.

type Seen = Visible['pipelines']

/** With the names of its pipeline. */
export type ScheduleRow = typeof schedules.$inferSelect & {
  namespace: string
  layer: Layer
  pipeline: string
}

const shown = (sql: Sql) =>
  sql`${selected(sql, getTableColumns(alias(schedules, 's')))}, p.namespace, p.layer, p.name as pipeline`

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
  assert(row)
  return row.total
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

/** A schedule that is due, or that nobody has looked at yet. */
export interface DueRow {
  id: string
  pipeline_id: PipelineId
  pipeline: string
  cron: string
  /** Null: nobody has looked at this schedule yet. */
  due: Date | null
  is_live: boolean
  is_published: boolean
  is_active: boolean
}

/** Rows that somebody is changing just now are left to the next pass. */
export async function lockDue(tx: SqlTx, { limit, asOf }: { limit: number; asOf: Date | null }) {
  const found = await tx<({ now: Date } & (DueRow | { id: null }))[]>`
    with at as materialized (select clock_timestamp() as now, coalesce(${asOf}, clock_timestamp()) as as_of),
    due as (
      select id, pipeline_id, cron, next_run_at from schedule
      where enabled and next_run_at <= (select as_of from at)
      order by next_run_at, id limit ${limit} for no key update skip locked),
    fresh as (
      select id, pipeline_id, cron, next_run_at from schedule
      where enabled and next_run_at is null
      order by id limit ${limit} for no key update skip locked)
    select at.now, s.id, s.pipeline_id, p.namespace || '.' || p.layer || '.' || p.name as pipeline, s.cron,
      s.next_run_at as due, p.deleted_at is null as is_live, p.published_version is not null as is_published,
      s.next_run_at is not null and exists (
        select 1 from run r where r.pipeline_id = s.pipeline_id and r.status in ('pending', 'running')) as is_active
    from at left join (
      (select * from due union all select * from fresh) s
      -- By its index, one by one: the planner would rather read all pipelines.
      cross join lateral (
        select namespace, layer, name, deleted_at, published_version from pipeline where id = s.pipeline_id limit 1) p) on true
    order by s.next_run_at, s.id`
  const [first] = found
  assert(first)
  return { now: first.now, rows: found.filter((row) => row.id !== null) as DueRow[] }
}

export interface NextTime {
  id: string
  /** Null: it is never due again, and disabled. */
  next: Date | null
  run: RunId | null
}

/** The next times of schedules; `hasRuns`: as part of a statement that has the requested runs as `inserted`. */
const moved = (tx: SqlTx, nexts: readonly NextTime[], hasRuns: boolean) => tx`
  update schedule s set next_run_at = n.next, enabled = n.next is not null
    ${
      hasRuns
        ? tx`, last_run_at = coalesce(i.created_at, s.last_run_at), last_run_id = coalesce(i.id, s.last_run_id)`
        : tx``
    }
  from jsonb_to_recordset(${tx.json(nexts as unknown as JSONValue)}) as n(id uuid, next timestamptz, run uuid)
  ${hasRuns ? tx`left join inserted i on i.id = n.run` : tx``}
  where s.id = n.id`

/** For the statement that requests the runs. */
export const movedPart = (tx: SqlTx, nexts: readonly NextTime[]): Part =>
  tx`moved as (${moved(tx, nexts, true)})`

export const moveSchedules = (tx: SqlTx, nexts: readonly NextTime[]) => moved(tx, nexts, false)
