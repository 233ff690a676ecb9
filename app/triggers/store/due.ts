// Triggers whose time has come, as the database has them.
import { alias } from 'drizzle-orm/pg-core'
import type { Sql, SqlTx } from '../../../drizzle/client.ts'
import { latestSuccess } from '../../../drizzle/latest-success.ts'
import { computed, only, type RowOf, select } from '../../../drizzle/rows.ts'
import { triggerDependencies } from '../../../drizzle/schema/index.ts'
import { FIRST_ID, type RunId, type TriggerId } from '../../core/ids.ts'

/** A due trigger that cannot be fired whatever is tried is left alone this long. */
const PASSED_OVER_MS = 60_000

const OUTLOOK = {
  now: computed<Date>('now'),
  /** Milliseconds until the next trigger is due; null: none will be. */
  nextDueMs: computed<number | null>(`
    extract(epoch from (select min(due_at) from trigger where due_at > now and state <> 'disabled') - now)::float8 * 1000`),
  hasEvents: computed<boolean>('exists (select 1 from trigger_event)'),
  hasCooled: computed<boolean>(
    "exists (select 1 from trigger where state = 'cooling' and cooling_until <= now)",
  ),
}
/** What time has brought, at one look. */
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
/** Where looking through what is due has come to: its order is due time, then id. */
export type DuePlace = RowOf<typeof DUE>

/** A trigger whose time has come. */
export interface DueTrigger extends DuePlace {
  /** A cron always is; a cron_dependency when every dependency has news. Not of a pipeline that is deleted. */
  isReady: boolean
}

/**
 * What is due, after a place in the order of due times; from the beginning when there is none. It is read in the order of
 * its index, which ends at the present: the time is fixed first, since a bound that is volatile bounds nothing.
 */
export function dueTriggers(sql: Sql, after: DuePlace | null, limit: number): Promise<DueTrigger[]> {
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

/** The dependencies of these triggers: the success that the last firing used, and the latest one. */
export const dependenciesOf = (tx: SqlTx, ids: readonly TriggerId[]) => select(tx, DEPENDENCY)`
  from trigger_dependency d ${latestSuccess(tx)}
  where d.trigger_id = any(${[...ids]}::uuid[])`

/** Takes the time from a trigger that cannot be fired whatever is tried; it is due again when its cron says so. */
export async function passOverDue(tx: SqlTx, id: TriggerId): Promise<void> {
  await tx`
    update trigger set due_at = clock_timestamp() + ${PASSED_OVER_MS}::float8 * interval '1 ms'
    where id = ${id} and due_at <= clock_timestamp()`
}
