import assert from 'node:assert/strict'
import { and, asc, count, eq, exists, getTableColumns, isNull, sql } from 'drizzle-orm'
import { alias } from 'drizzle-orm/pg-core'
import type { JSONValue } from 'postgres'
import type { Db, Queryable, SqlTx } from '../../drizzle/client.ts'
import { isLive } from '../../drizzle/live-pipeline.ts'
import { columnNames, computed, pick, type RowOf, select } from '../../drizzle/rows.ts'
import { pipelines } from '../../drizzle/schema/pipeline.ts'
import { schedules } from '../../drizzle/schema/trigger.ts'
import type { Part } from '../../drizzle/sql.ts'
import { isVisibleId } from '../../drizzle/visibility.ts'
import type { Visible } from '../core/access.ts'
import type { PipelineId, RunId } from '../core/ids.ts'
import type { Page } from '../core/pagination.ts'
import type { PipelineRef } from '../core/pipeline-ref.ts'
import type { UpdateSchedule } from './schema.ts'

// Every query joins live pipelines, so schedules of deleted pipelines are invisible.

const isOfLive = and(eq(pipelines.id, schedules.pipelineId), isNull(pipelines.deletedAt))

type StoredSchedule = typeof schedules.$inferSelect
/** A schedule with the names of its pipeline. */
export type ScheduleRow = Awaited<ReturnType<typeof shown>>[number]

const SHOWN = {
  ...getTableColumns(schedules),
  namespace: pipelines.namespace,
  layer: pipelines.layer,
  pipeline: pipelines.name,
}
const shown = (db: Queryable) => db.select(SHOWN).from(schedules).innerJoin(pipelines, isOfLive)

/** Null: the pipeline does not exist. Waits for a concurrent deletion of the pipeline, then returns null. */
export const insertSchedule = (
  db: Db,
  ref: PipelineRef,
  schedule: Pick<StoredSchedule, 'id' | 'cron' | 'enabled'>,
): Promise<StoredSchedule | null> =>
  db.transaction(async (tx) => {
    const [pipeline] = await tx.select({ id: pipelines.id }).from(pipelines).where(isLive(ref)).for('share')
    if (pipeline === undefined) return null
    const [row] = await tx
      .insert(schedules)
      .values({ ...schedule, pipelineId: pipeline.id })
      .returning()
    assert(row)
    return row
  })

/** Oldest first, only of pipelines that the caller may see. */
export async function schedulesOn(
  db: Db,
  { limit, offset }: Page,
  visible: Visible['pipelines'],
): Promise<{ items: ScheduleRow[]; total: number }> {
  const where = isVisibleId(pipelines.id, visible)
  const [items, [counted]] = await Promise.all([
    shown(db).where(where).orderBy(asc(schedules.createdAt), asc(schedules.id)).limit(limit).offset(offset),
    db.select({ total: count() }).from(schedules).innerJoin(pipelines, isOfLive).where(where),
  ])
  assert(counted)
  return { items, total: counted.total }
}

export async function scheduleById(db: Db, id: string): Promise<ScheduleRow | null> {
  const [row] = await shown(db).where(eq(schedules.id, id))
  return row ?? null
}

/**
 * Absent fields stay unchanged. A new cron text and the end of a pause reset the next time; the next tick of the scheduler only
 * computes a new one. Null: the schedule does not exist.
 */
export async function changeSchedule(
  db: Db,
  id: string,
  { cron, enabled }: UpdateSchedule,
): Promise<ScheduleRow | null> {
  const keepsTime = and(
    eq(schedules.enabled, true),
    cron === undefined ? undefined : eq(schedules.cron, cron),
  )
  const [row] = await db
    .update(schedules)
    .set({
      cron,
      enabled,
      nextRunAt: enabled === false ? null : sql`case when ${keepsTime} then ${schedules.nextRunAt} end`,
      updatedAt: sql`clock_timestamp()`,
    })
    .from(pipelines)
    .where(and(eq(schedules.id, id), isOfLive))
    .returning(SHOWN)
  return row ?? null
}

/** Returns true if the schedule existed. */
export async function removeSchedule(db: Db, id: string): Promise<boolean> {
  const removed = await db
    .delete(schedules)
    .where(and(eq(schedules.id, id), exists(db.select().from(pipelines).where(isOfLive))))
    .returning({ id: schedules.id })
  return removed.length > 0
}

const DUE = ['id', 'pipelineId', 'cron', 'nextRunAt'] as const
const DUE_COLUMNS = {
  now: computed<Date>('at.now'),
  ...pick(alias(schedules, 's'), ...DUE),
  pipeline: computed<string>("p.namespace || '.' || p.layer || '.' || p.name"),
  isLive: computed<boolean>('p.deleted_at is null'),
  isPublished: computed<boolean>('p.published_version is not null'),
  isActive: computed<boolean>(`s.next_run_at is not null and exists (
    select 1 from run r where r.pipeline_id = s.pipeline_id and r.status in ('pending', 'running')
      and r.phase is distinct from 'review')`),
}

/** A due schedule, or a new one that the scheduler has not seen; then its next time is null. */
export interface DueRow extends RowOf<typeof DUE_COLUMNS> {
  pipelineId: PipelineId
}

/** Locks due and new schedules. Skips rows that other transactions have locked; the next pass handles them. */
export async function lockDue(tx: SqlTx, { limit, asOf }: { limit: number; asOf: Date | null }) {
  const columns = columnNames(tx, schedules, DUE)
  const moments = tx`
    with at as materialized (select clock_timestamp() as now, coalesce(${asOf}, clock_timestamp()) as as_of),
    due as (
      select ${columns} from schedule
      where enabled and next_run_at <= (select as_of from at)
      order by next_run_at, id limit ${limit} for no key update skip locked),
    fresh as (
      select ${columns} from schedule
      where enabled and next_run_at is null
      order by id limit ${limit} for no key update skip locked)`
  const found = await select(tx, DUE_COLUMNS, moments)`
    from at left join (
      (select * from due union all select * from fresh) s
      -- Looks up each pipeline by index; otherwise the planner reads all pipelines.
      cross join lateral (
        select namespace, layer, name, deleted_at, published_version from pipeline where id = s.pipeline_id limit 1) p) on true
    order by s.next_run_at, s.id`
  const [first] = found
  assert(first)
  // Without due schedules, the only row holds just the time.
  return { now: first.now, rows: found.filter((row): row is DueRow => row.id !== null) }
}

export interface NextTime {
  id: string
  /** Null: the schedule is never due again, so it is disabled. */
  next: Date | null
  run: RunId | null
}

/** Updates next times. `hasRuns`: the update is part of a statement that provides the requested runs as `inserted`. */
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

/** The update as a part of the statement that requests the runs. */
export const movedPart = (tx: SqlTx, nexts: readonly NextTime[]): Part =>
  tx`moved as (${moved(tx, nexts, true)})`

export const moveSchedules = (tx: SqlTx, nexts: readonly NextTime[]) => moved(tx, nexts, false)
