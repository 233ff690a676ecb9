// A firing: the trigger's machine accepts it and one run is requested, in one statement. Many at once, whatever fires them.
import type { JSONValue } from 'postgres'
import type { SqlTx } from '../../../drizzle/client.ts'
import { columnNames, columnTypes, toRecord } from '../../../drizzle/rows.ts'
import { transitions, triggers } from '../../../drizzle/schema/index.ts'
import type { Part } from '../../../drizzle/sql.ts'
import { together } from '../../../drizzle/together.ts'
import { store } from '../../../machines/advance.ts'
import { TRIGGER_MACHINE_VERSION, type TriggerSnapshot, triggerColumns } from '../../../machines/trigger.ts'
import type { ClientTrace } from '../../../proto/trace.ts'
import type { NewId, RunId } from '../../core/ids.ts'
import { outcomesOf, type RequestOutcome, requestedRuns } from '../../runs/service.ts'
import { type LockedTrigger, type Move, tryMove } from './moves.ts'

/** What asks a locked trigger to fire. */
export interface Firing {
  trigger: LockedTrigger
  /** With the trigger's id the key against firing twice: the subject of an event, or a due time. */
  event: string
  /** Of the run: `webhook`, `trigger:<type>:<detail>`. */
  text: string
  chainDepth: number
  /** The upload that asks for it. */
  landingFileId: string | null
  /** Of what has led to it. */
  trace: ClientTrace
  /** Of a cron_dependency: the successes that its firing uses. */
  used?: readonly { source: string; runId: RunId }[]
}

export interface Fired {
  firing: Firing
  /**
   * `ignored`: it is cooling or disabled. Anything but `requested` has left no run. One that stood back for another's
   * cooldown, which then did not begin, has come to the same as that one.
   */
  outcome: RequestOutcome | 'ignored'
  runId: RunId
}

/** A firing that the trigger's machine accepts, with both of its histories: which of them is told, its run decides. */
interface Accepted extends Fired {
  move: Move
  skip: Move | null
}

export interface FiringOptions {
  /** The database's time, read under the locks. */
  now: Date
  newId: NewId
  /** Locked triggers that may be due at another time, whether or not they fire. */
  rescheduled?: Iterable<LockedTrigger>
  /** More for the same statement. */
  also?: readonly Part[]
}

/**
 * Fires in the given order. The machines are asked first and moved as if every run could be requested; the statement saves
 * a trigger as it was if none of its runs was. A trigger whose pipeline cannot run is skipped: its history says why, and
 * its cooldown does not begin.
 */
export async function fireAll(
  tx: SqlTx,
  firings: readonly Firing[],
  { now, newId, rescheduled = [], also = [] }: FiringOptions,
): Promise<Fired[]> {
  const before = new Map<LockedTrigger, TriggerSnapshot>()
  const { fired, accepted } = askMachines(firings, before, { now, newId })
  const changed = new Set([...before.keys(), ...[...rescheduled].filter(({ isDueChanged }) => isDueChanged)])
  if (accepted.length === 0 && changed.size + also.length === 0) return fired
  const parts = [latestPart(tx, accepted.length > 0), ...savedPart(tx, [...changed], before), ...also]
  if (accepted.length === 0) await together(tx, parts, tx`select 1`)
  else {
    const all = [...parts, toldPart(tx, accepted, now), ...rememberedUsedPart(tx, accepted)]
    settle(fired, accepted, outcomesOf(await requestedRuns(tx, accepted.map(requestOf), all)))
  }
  return fired
}

/** Moves the triggers as if every run could be requested; `before` gets those that move as they were. */
function askMachines(
  firings: readonly Firing[],
  before: Map<LockedTrigger, TriggerSnapshot>,
  { now, newId }: FiringOptions,
) {
  const accepted: Accepted[] = []
  const fired = firings.map((firing): Fired => {
    const { trigger } = firing
    const one: Fired = { firing, outcome: 'ignored', runId: newId() as RunId }
    const move = tryMove(trigger.snapshot, { type: 'fired', at: now.getTime() })
    if (move === null) return one
    const skip = tryMove(trigger.snapshot, { type: 'skipped' })
    accepted.push(Object.assign(one, { outcome: 'requested' as const, move, skip }))
    if (!before.has(trigger)) before.set(trigger, trigger.snapshot)
    trigger.snapshot = move.next
    return one
  })
  return { fired, accepted }
}

function settle(
  fired: readonly Fired[],
  accepted: readonly Accepted[],
  outcomes: ReadonlyMap<RunId, RequestOutcome>,
) {
  const fruitless = new Map<LockedTrigger, Fired['outcome']>()
  for (const one of accepted) {
    one.outcome = outcomes.get(one.runId) ?? 'gone'
    if (one.outcome !== 'requested') fruitless.set(one.firing.trigger, one.outcome)
  }
  for (const one of fired)
    if (one.outcome === 'ignored') one.outcome = fruitless.get(one.firing.trigger) ?? 'ignored'
}

const requestOf = ({ firing, runId }: Fired) => ({
  id: runId,
  pipelineId: firing.trigger.pipelineId,
  trigger: firing.text,
  cause: { triggerId: firing.trigger.id, event: firing.event },
  chainDepth: firing.chainDepth,
  landingFileId: firing.landingFileId,
  trace: firing.trace,
})

/** The run that each trigger has started last, of those of this statement. */
const latestPart = (tx: SqlTx, hasRequests: boolean): Part =>
  hasRequests
    ? tx`latest_fired as (select distinct on (trigger_id) trigger_id, id from inserted order by trigger_id, id desc)`
    : tx`latest_fired as (select null::uuid as trigger_id, null::uuid as id where false)`

/**
 * Each trigger is saved as it is after its firings if one of them has a run, else as it was `before`; its due time in any
 * case.
 */
function savedPart(
  tx: SqlTx,
  changed: readonly LockedTrigger[],
  before: ReadonlyMap<LockedTrigger, TriggerSnapshot>,
): Part[] {
  if (changed.length === 0) return []
  const rows = changed.map((trigger) => ({
    id: trigger.id,
    due_at: trigger.dueAt,
    kept: valuesOf(before.get(trigger) ?? trigger.snapshot),
    fired: before.has(trigger) ? valuesOf(trigger.snapshot) : null,
  }))
  // The ids stand there a second time because the planner cannot see how few rows the other form has.
  return [
    tx`saved_triggers as (
      update trigger t set machine_version = ${TRIGGER_MACHINE_VERSION},
        (${columnNames(tx, triggers, FIRED)}) = row(${columnNames(tx, triggers, FIRED, 'v.')}),
        last_run_id = coalesce(f.id, t.last_run_id), due_at = n.due_at
      from jsonb_to_recordset(${tx.json(rows as unknown as JSONValue)}) as n(id uuid, due_at timestamptz, kept jsonb, fired jsonb)
      left join latest_fired f on f.trigger_id = n.id
      cross join lateral jsonb_to_record(case when f.id is null then n.kept else n.fired end)
        as v(${columnTypes(tx, triggers, FIRED)})
      where t.id = n.id and t.id = any(${rows.map(({ id }) => id)}::uuid[]))`,
  ]
}

/** Columns that follow from a trigger's machine and that a firing changes. */
const FIRED = ['snapshot', 'state', 'coolingUntil', 'lastTriggeredAt'] as const
const valuesOf = (snapshot: TriggerSnapshot) =>
  toRecord(triggers, FIRED, { ...triggerColumns(snapshot), snapshot: store(snapshot) })

const HISTORY = ['event', 'from', 'to', 'effects'] as const
const historyOf = (event: 'fired' | 'skipped', { from, to, effects }: Move) => ({ event, from, to, effects })

/** The history tells that a trigger fired, or why it was skipped. A firing whose run was there before has no history. */
function toldPart(tx: SqlTx, accepted: readonly Accepted[], now: Date): Part {
  const histories = accepted.map(({ firing, runId, move, skip }) => ({
    run: runId,
    trigger: firing.trigger.id,
    cause: firing.text,
    fired: historyOf('fired', move),
    skipped: skip && historyOf('skipped', skip),
  }))
  return tx`told_triggers as (
    insert into transition (machine, entity_id, at, event, "from", "to", effects, cause)
    select 'trigger', n.trigger, ${now}, v.event, v."from", v."to", v.effects,
      n.cause || coalesce(': ' || (${tx.json(SKIPPED)}::jsonb ->> o.outcome), '')
    from jsonb_to_recordset(${tx.json(histories as unknown as JSONValue)}) as n(run uuid, trigger uuid, cause text, fired jsonb, skipped jsonb)
    join outcome o on o.id = n.run
    cross join lateral jsonb_to_record(case when o.outcome = 'requested' then n.fired
      when ${tx.json(SKIPPED)}::jsonb ? o.outcome then n.skipped end) as v(${columnTypes(tx, transitions, HISTORY)})
    where v.event is not null)`
}

const SKIPPED = {
  unpublished: 'the pipeline has never been published',
  full: 'too many of its runs are waiting',
} satisfies Partial<Record<RequestOutcome, string>>

/** The successes that firings of cron_dependencies have used are no news for the next firing, if these have their runs. */
function rememberedUsedPart(tx: SqlTx, accepted: readonly Accepted[]): Part[] {
  const successes = accepted.flatMap(({ firing: { trigger, used = [] }, runId }) =>
    used.map(({ source, runId: latest }) => ({ trigger_id: trigger.id, source, used: latest, run: runId })),
  )
  if (successes.length === 0) return []
  return [
    tx`remembered_used as (
      update trigger_dependency d set used_run = u.used
      from jsonb_to_recordset(${tx.json(successes)}) as u(trigger_id uuid, source text, used uuid, run uuid)
      join inserted i on i.id = u.run
      where d.trigger_id = u.trigger_id and d.source = u.source)`,
  ]
}
