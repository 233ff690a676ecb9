// Clocks become firings. A cron is due until it has fired, once, however many of its times have passed. A cron_dependency
// stays due until each dependency has a success that the last firing did not use: identities are compared, not times.
import type { Sql, SqlTx } from '../../drizzle/client.ts'
import type { Part } from '../../drizzle/together.ts'
import { nextAfter } from '../../machines/cron.ts'
import { type ClientTrace, NO_TRACE } from '../../proto/trace.ts'
import type { NewId, RunId, TriggerId } from '../core/ids.ts'
import { limits } from '../core/limits.ts'
import { cronOf } from './config.ts'
import { type Fired, type Firing, fireAll } from './firing.ts'
import { type LockedTrigger, lockTriggers, setDue } from './moves.ts'
import { damagedNotes, type Note, notesOf } from './notes.ts'

/** What time has brought, at one look. */
export interface Outlook {
  now: Date
  /** Milliseconds until the next trigger is due; null: none will be. */
  nextDueMs: number | null
  hasEvents: boolean
  hasCooled: boolean
}

export async function lookAhead(sql: Sql): Promise<Outlook> {
  const [seen] = await sql<Outlook[]>`
    with moment as materialized (select clock_timestamp() as now)
    select now,
      extract(epoch from (select min(due_at) from trigger where due_at > now and state <> 'disabled') - now)::float8 * 1000
        as "nextDueMs",
      exists (select 1 from trigger_event) as "hasEvents",
      exists (select 1 from trigger where state = 'cooling' and cooling_until <= now) as "hasCooled"
    from moment`
  if (seen === undefined) throw new Error('the database has no time')
  return seen
}

/** Where looking through what is due has come to: its order is due time, then id. */
export interface DuePlace {
  dueAt: Date
  id: TriggerId
}

/** A trigger whose time has come. */
export interface DueTrigger extends DuePlace {
  /** A cron always is; a cron_dependency when every dependency has news. Not of a pipeline that is deleted. */
  isReady: boolean
}

/**
 * What is due, after a place in the order of due times; from the beginning when there is none. It is read in the order of
 * its index, which ends at the present: the time is fixed first, since a bound that is volatile bounds nothing.
 */
export const dueTriggers = (sql: Sql, after: DuePlace | null, limit: number): Promise<DueTrigger[]> =>
  sql<DueTrigger[]>`
    select t.id, t.due_at as "dueAt",
      exists (select 1 from pipeline p where p.id = t.pipeline_id and p.deleted_at is null)
      and (t.type = 'cron' or coalesce((
        select bool_and(latest.id is not null and latest.id is distinct from d.used_run)
        from trigger_dependency d ${latestSuccess(sql)}
        where d.trigger_id = t.id), false)) as "isReady"
    from trigger t
    where t.due_at <= (select clock_timestamp()) and t.state <> 'disabled'
      and (t.due_at, t.id) > (${after?.dueAt ?? BEGINNING}::timestamptz, ${after?.id ?? FIRST_ID}::uuid)
    order by t.due_at, t.id limit ${limit}`

const BEGINNING = new Date(0)
const FIRST_ID = '00000000-0000-0000-0000-000000000000'

/** Joins to each dependency `d` the latest success of the pipeline that has its name now. */
export const latestSuccess = (sql: Sql | SqlTx) => sql`
  left join lateral (
    select p.id from pipeline p
    where p.deleted_at is null and p.namespace = split_part(substr(d.source, 10), '.', 1)
      and p.layer = split_part(substr(d.source, 10), '.', 2) and p.name = split_part(substr(d.source, 10), '.', 3)
    limit 1) dp on true
  left join lateral (
    select r.id, r.finished_at from run r where r.pipeline_id = dp.id and r.status = 'success'
    order by r.finished_at desc, r.id desc limit 1) latest on true`

export interface Due {
  runs: number
  notes: Note[]
}

/** Fires what is still due of these, and gives each its next time. Whatever its outcome, that time has been used. */
export async function fireDue(
  tx: SqlTx,
  ids: readonly TriggerId[],
  { newId }: { newId: NewId },
): Promise<Due> {
  const locked = await lockTriggers(tx, ids)
  if (locked === null) return { runs: 0, notes: [] }
  const { triggers, damaged, now } = locked
  const due = [...triggers.values()].filter((trigger) => isDue(trigger, now))
  const crons = due
    .filter(({ typed }) => typed.type === 'cron')
    .map((trigger) => clockFiring(trigger, NO_TRACE))
  const dependents = due.flatMap((trigger): [LockedTrigger, ClientTrace][] =>
    trigger.typed.type === 'cron_dependency' ? [[trigger, NO_TRACE]] : [],
  )
  const firings: Firing[] = [...crons, ...(await dependentFirings(tx, dependents, now))]
  for (const { trigger } of firings) setNextDue(trigger, now)
  const { statement, firedOf } = fireAll(tx, firings, {
    now,
    newId,
    rescheduled: triggers.values(),
    also: (accepted) => rememberedUsedPart(tx, accepted),
  })
  const fired = firedOf(statement === null ? [] : await statement)
  return {
    runs: fired.filter(({ outcome }) => outcome === 'requested').length,
    notes: [...notesOf(fired), ...damagedNotes(damaged)],
  }
}

/** Takes the time from a trigger that cannot be fired whatever is tried; it is due again when its cron says so. */
export async function passOverDue(tx: SqlTx, id: TriggerId): Promise<void> {
  await tx`
    update trigger set due_at = clock_timestamp() + ${limits.passedOverMs}::float8 * interval '1 ms'
    where id = ${id} and due_at <= clock_timestamp()`
}

const isDue = ({ dueAt, snapshot }: LockedTrigger, now: Date) =>
  dueAt !== null && dueAt <= now && snapshot.value !== 'disabled'

/** Of a cron_dependency: what its firing uses. */
interface DependentFiring extends Firing {
  used: { source: string; runId: RunId }[]
}

/** The firings of those that are due and whose dependencies all have news, with what has led to them. Locked by the caller. */
export async function dependentFirings(
  tx: SqlTx,
  triggers: Iterable<[LockedTrigger, ClientTrace]>,
  now: Date,
): Promise<DependentFiring[]> {
  const due = [...triggers].filter(([trigger]) => isDue(trigger, now))
  if (due.length === 0) return []
  const rows = await tx<{ triggerId: TriggerId; source: string; used: RunId | null; latest: RunId | null }[]>`
    select d.trigger_id as "triggerId", d.source, d.used_run as used, latest.id as latest
    from trigger_dependency d ${latestSuccess(tx)}
    where d.trigger_id = any(${due.map(([{ id }]) => id)}::uuid[])`
  const dependencies = Map.groupBy(rows, ({ triggerId }) => triggerId)
  return due.flatMap(([trigger, trace]) => {
    const of = dependencies.get(trigger.id) ?? []
    const used = of.flatMap(({ source, used, latest }) =>
      latest === null || latest === used ? [] : [{ source, runId: latest }],
    )
    return of.length === 0 || used.length < of.length ? [] : [{ ...clockFiring(trigger, trace), used }]
  })
}

/** The clock stands behind it, also when a success was the last thing it waited for: the chain begins anew. */
function clockFiring(trigger: LockedTrigger, trace: ClientTrace): Firing {
  return {
    trigger,
    event: trigger.dueAt?.toISOString() ?? '',
    text: `trigger:${trigger.typed.type}:${cronOf(trigger.typed) ?? ''}`,
    chainDepth: 0,
    landingFileId: null,
    trace,
  }
}

/** Null: its time never comes again. */
export function setNextDue(trigger: LockedTrigger, now: Date) {
  const cron = cronOf(trigger.typed)
  setDue(trigger, cron === null ? null : nextAfter(cron, now))
}

/** What these firings have used is no news for the next, if they have their runs. */
export function rememberedUsedPart(tx: SqlTx, accepted: readonly Fired<Firing>[]): Part[] {
  const used = accepted.flatMap(({ firing, runId }) =>
    'used' in firing
      ? (firing as DependentFiring).used.map(({ source, runId: latest }) => ({
          trigger_id: firing.trigger.id,
          source,
          used: latest,
          run: runId,
        }))
      : [],
  )
  if (used.length === 0) return []
  return [
    tx`remembered_used as (
      update trigger_dependency d set used_run = u.used
      from jsonb_to_recordset(${tx.json(used)}) as u(trigger_id uuid, source text, used uuid, run uuid)
      join inserted i on i.id = u.run
      where d.trigger_id = u.trigger_id and d.source = u.source)`,
  ]
}
