// Reads due triggers from the database.
import { alias } from 'drizzle-orm/pg-core'
import type { Sql, SqlTx } from '../../../drizzle/client.ts'
import { latestSuccess } from '../../../drizzle/latest-success.ts'
import { computed, only, type RowOf, select } from '../../../drizzle/rows.ts'
import { triggerDependencies } from '../../../drizzle/schema/trigger.ts'
import { FIRST_ID, type PipelineId, type RunId, type TriggerId } from '../../core/ids.ts'

/** Delay for a due trigger that cannot be fired. */
const SKIPPED_DELAY_MS = 60_000

const OUTLOOK = {
  now: computed<Date>('now'),
  /** Milliseconds until the next trigger is due; null: no trigger has a future time. */
  nextDueMs: computed<number | null>(`
    extract(epoch from (select min(due_at) from trigger where due_at > now and state <> 'disabled') - now)::float8 * 1000`),
  hasEvents: computed<boolean>('exists (select 1 from trigger_event)'),
  hasCooled: computed<boolean>(
    "exists (select 1 from trigger where state = 'cooling' and cooling_until <= now)",
  ),
}
/** The state of all triggers and events at one moment. */
export type Outlook = RowOf<typeof OUTLOOK>

export const lookAhead = async (sql: Sql): Promise<Outlook> =>
  only(
    await select(
      sql,
      OUTLOOK,
      sql`with moment as materialized (select clock_timestamp() as now)`,
    )`from moment`,
  )

const DUE = { id: computed<TriggerId>('t.id'), dueAt: computed<Date>('t.due_at') }
/** A position in the list of due triggers, which is ordered by due time and id. */
export type DuePosition = RowOf<typeof DUE>

/** A trigger whose time has come. */
export interface DueTrigger extends DuePosition {
  /**
   * True if the trigger can fire: always for a cron, and for a cron_dependency if every dependency has a new success. False if
   * the pipeline was deleted.
   */
  isReady: boolean
}

/**
 * Due triggers after a position, or from the beginning. The subselect fixes the present time once; a volatile function would
 * not bound the index scan.
 */
export function dueTriggers(sql: Sql, after: DuePosition | null, limit: number): Promise<DueTrigger[]> {
  const isReady = computed<boolean>(sql`
    exists (select 1 from pipeline p where p.id = t.pipeline_id and p.deleted_at is null)
    and (t.type = 'cron' or coalesce((
      select bool_and(latest.id is not null and latest.id is distinct from d.used_run)
      from trigger_dependency d ${latestSuccess(sql)}
      where d.trigger_id = t.id), false))`)
  return select(sql, { ...DUE, isReady })`
    from trigger t
    where t.due_at <= (select clock_timestamp()) and t.state <> 'disabled'
      and (t.due_at, t.id) > (${after?.dueAt ?? BEGINNING}::timestamptz, ${after?.id ?? FIRST_ID}::uuid)
    order by t.due_at, t.id limit ${limit}`
}

const BEGINNING = new Date(0)

const DEPENDENCY = {
  triggerId: computed<TriggerId>('d.trigger_id'),
  source: alias(triggerDependencies, 'd').source,
  used: computed<RunId | null>('d.used_run'),
  latest: computed<RunId | null>('latest.id'),
}

/** The dependencies of these triggers. Each has the latest successful run, and the one that the last firing counted. */
export const dependenciesOf = (tx: SqlTx, ids: readonly TriggerId[]) => select(tx, DEPENDENCY)`
  from trigger_dependency d ${latestSuccess(tx)}
  where d.trigger_id = any(${[...ids]}::uuid[])`

/** Those of the pipelines that have a waiting or executing run. A run in review does not count. */
export async function activePipelines(tx: SqlTx, ids: readonly PipelineId[]): Promise<Set<PipelineId>> {
  if (ids.length === 0) return new Set()
  const rows = await tx<{ id: PipelineId }[]>`
    select p.id from unnest(${[...new Set(ids)]}::uuid[]) as p(id) where exists (
      select 1 from run r where r.pipeline_id = p.id and r.status in ('pending', 'running')
        and r.phase is distinct from 'review')`
  return new Set(rows.map(({ id }) => id))
}

/** Delays a due trigger that cannot be fired, by `SKIPPED_DELAY_MS`. */
export async function skipDue(tx: SqlTx, id: TriggerId): Promise<void> {
  await tx`
    update trigger set due_at = clock_timestamp() + ${SKIPPED_DELAY_MS}::float8 * interval '1 ms'
    where id = ${id} and due_at <= clock_timestamp()`
}
