// A firing: the trigger's machine accepts it and one run is requested, in one statement. Many at once, whatever fires them.
import type { JSONValue, PendingQuery, Row } from 'postgres'
import type { SqlTx } from '../../drizzle/client.ts'
import { type Part, together } from '../../drizzle/together.ts'
import { store } from '../../machines/advance.ts'
import { TRIGGER_MACHINE_VERSION, type TriggerSnapshot, triggerColumns } from '../../machines/trigger.ts'
import type { ClientTrace } from '../../proto/trace.ts'
import type { NewId, RunId } from '../core/ids.ts'
import { outcomesOf, type RequestOutcome, requestedRuns } from '../runs/service.ts'
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
}

export interface Fired<F extends Firing> {
  firing: F
  /**
   * `ignored`: it is cooling or disabled. Anything but `requested` has left no run. One that stood back for another's
   * cooldown, which then did not begin, has come to the same as that one.
   */
  outcome: RequestOutcome | 'ignored'
  runId: RunId
}

/** A firing that the trigger's machine accepts, with both of its histories: which of them is told, its run decides. */
interface Accepted<F extends Firing> extends Fired<F> {
  move: Move
  skip: Move | null
}

export interface FiringOptions<F extends Firing> {
  /** The database's time, read under the locks. */
  now: Date
  newId: NewId
  /** Locked triggers that may be due at another time, whether or not they fire. */
  rescheduled?: Iterable<LockedTrigger>
  /** More for the same statement; may read the new runs from `inserted` when there are accepted firings. */
  also?(accepted: readonly Fired<F>[]): readonly Part[]
}

/** The one statement of these firings, and what its answer says of each. */
export interface FiringStatement<F extends Firing> {
  /** Null: there is nothing to write. */
  statement: PendingQuery<Row[]> | null
  firedOf(rows: readonly Row[]): Fired<F>[]
}

/**
 * Fires in the given order. The machines are asked first and moved as if every run could be requested; the statement saves
 * a trigger as it was if none of its runs was. A trigger whose pipeline cannot run is skipped: its history says why, and
 * its cooldown does not begin.
 */
export function fireAll<F extends Firing>(
  tx: SqlTx,
  firings: readonly F[],
  { now, newId, rescheduled = [], also = () => [] }: FiringOptions<F>,
): FiringStatement<F> {
  const at = now.getTime()
  const before = new Map<LockedTrigger, TriggerSnapshot>()
  const accepted: Accepted<F>[] = []
  const fired = firings.map((firing): Fired<F> => {
    const { trigger } = firing
    const one: Fired<F> = { firing, outcome: 'ignored', runId: newId() as RunId }
    const move = tryMove(trigger.snapshot, { type: 'fired', at })
    if (move === null) return one
    accepted.push(
      Object.assign(one, {
        outcome: 'requested' as const,
        move,
        skip: tryMove(trigger.snapshot, { type: 'skipped' }),
      }),
    )
    if (!before.has(trigger)) before.set(trigger, trigger.snapshot)
    trigger.snapshot = move.next
    return one
  })
  const changed = new Set([...before.keys(), ...[...rescheduled].filter(({ isDueChanged }) => isDueChanged)])
  const more = also(accepted)
  const saved = savedPart(tx, changed, before)
  return {
    statement:
      accepted.length > 0
        ? requestedRuns(tx, accepted.map(requestOf), [
            latestPart(tx, true),
            ...saved,
            toldPart(tx, accepted, now),
            ...more,
          ])
        : saved.length + more.length > 0
          ? together(tx, [latestPart(tx, false), ...saved, ...more], tx`select 1`)
          : null,
    firedOf(rows) {
      const outcomes = accepted.length > 0 ? outcomesOf(rows) : new Map()
      const fruitless = new Map<LockedTrigger, Fired<F>['outcome']>()
      for (const one of accepted) {
        one.outcome = outcomes.get(one.runId) ?? 'gone'
        if (one.outcome !== 'requested') fruitless.set(one.firing.trigger, one.outcome)
      }
      for (const one of fired)
        if (one.outcome === 'ignored') one.outcome = fruitless.get(one.firing.trigger) ?? 'ignored'
      return fired
    },
  }
}

const requestOf = <F extends Firing>({ firing, runId }: Fired<F>) => ({
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

/** Each trigger as it is after its firings if one of them has a run, else as it was; due when it is due next in any case. */
function savedPart(
  tx: SqlTx,
  changed: ReadonlySet<LockedTrigger>,
  before: ReadonlyMap<LockedTrigger, TriggerSnapshot>,
): Part[] {
  if (changed.size === 0) return []
  const rows = [...changed].map((trigger) => ({
    id: trigger.id,
    due_at: trigger.dueAt,
    kept: valuesOf(before.get(trigger) ?? trigger.snapshot),
    fired: before.has(trigger) ? valuesOf(trigger.snapshot) : null,
  }))
  // The ids stand there a second time because the planner cannot see how few rows the other form has.
  return [
    tx`saved_triggers as (
      update trigger t set snapshot = v.snapshot, machine_version = ${TRIGGER_MACHINE_VERSION}, state = v.state,
        cooling_until = v.cooling_until, last_triggered_at = v.last_triggered_at,
        last_run_id = coalesce(f.id, t.last_run_id), due_at = n.due_at
      from jsonb_to_recordset(${tx.json(rows as unknown as JSONValue)}) as n(id uuid, due_at timestamptz, kept jsonb, fired jsonb)
      left join latest_fired f on f.trigger_id = n.id
      cross join lateral jsonb_to_record(case when f.id is null then n.kept else n.fired end)
        as v(snapshot jsonb, state text, cooling_until timestamptz, last_triggered_at timestamptz)
      where t.id = n.id and t.id = any(${rows.map(({ id }) => id)}::uuid[]))`,
  ]
}

function valuesOf(snapshot: TriggerSnapshot) {
  const { state, coolingUntil, lastTriggeredAt } = triggerColumns(snapshot)
  return {
    snapshot: store(snapshot),
    state,
    cooling_until: coolingUntil,
    last_triggered_at: lastTriggeredAt,
  }
}

/** The history of each trigger: that it fired, or why it was skipped. Of one whose run was there before there is nothing to tell. */
function toldPart<F extends Firing>(tx: SqlTx, accepted: readonly Accepted<F>[], now: Date): Part {
  const rows = accepted.map(({ firing, runId, move, skip }) => ({
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
    from jsonb_to_recordset(${tx.json(rows as unknown as JSONValue)}) as n(run uuid, trigger uuid, cause text, fired jsonb, skipped jsonb)
    join outcome o on o.id = n.run
    cross join lateral jsonb_to_record(case when o.outcome = 'requested' then n.fired
      when ${tx.json(SKIPPED)}::jsonb ? o.outcome then n.skipped end) as v(event text, "from" text, "to" text, effects jsonb)
    where v.event is not null)`
}

const historyOf = (event: 'fired' | 'skipped', { from, to, effects }: Move) => ({ event, from, to, effects })

const SKIPPED = {
  unpublished: 'the pipeline has never been published',
  full: 'too many of its runs are waiting',
} satisfies Partial<Record<RequestOutcome, string>>
