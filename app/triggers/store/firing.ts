// A firing: the trigger's machine accepts it, and one statement requests the run. One statement handles many firings.
import type { JSONValue } from 'postgres'
import type { SqlTx } from '../../../drizzle/client.ts'
import { cteStatement } from '../../../drizzle/cte-statement.ts'
import { columnNames, columnTypes, toRecord } from '../../../drizzle/rows.ts'
import { transitions } from '../../../drizzle/schema/system.ts'
import { triggers } from '../../../drizzle/schema/trigger.ts'
import type { Part } from '../../../drizzle/sql.ts'
import { beginSpan, type OpenSpan } from '../../../ground/telemetry/spans.ts'
import type { ClientTrace } from '../../../ground/telemetry/trace.ts'
import { store } from '../../../machines/advance.ts'
import { TRIGGER_MACHINE_VERSION, type TriggerSnapshot, triggerColumns } from '../../../machines/trigger.ts'
import type { NewId, RunId } from '../../core/ids.ts'
import { outcomesOf, type RequestOutcome, requestedRuns } from '../../runs/service.ts'
import { type LockedTrigger, type Move, tryMove } from './moves.ts'

/** A request to fire a locked trigger. */
export interface Firing {
  trigger: LockedTrigger
  /** Subject of the event, or the due time. With the trigger's id, this is the key that prevents a second run. */
  event: string
  /** The `trigger` of the run: `webhook` or `trigger:<type>:<detail>`. */
  text: string
  chainDepth: number
  /** The upload that caused the firing. */
  landingFileId: string | null
  /** The trace of the cause. */
  trace: ClientTrace
  /** Only for cron_dependency: the successes that the firing uses. */
  used?: readonly { source: string; runId: RunId }[]
}

export interface Fired {
  firing: Firing
  /**
   * `ignored`: the trigger is cooling or disabled. Every outcome but `requested` has created no run. A firing may be ignored
   * because of a cooldown that then did not begin. That firing gets the outcome of the firing that should have begun the
   * cooldown.
   */
  outcome: RequestOutcome | 'ignored'
  runId: RunId
}

/**
 * A firing that the trigger's machine accepts, with both possible transitions. The outcome of the run request decides which
 * transition is stored.
 */
interface Accepted extends Fired {
  /** The span of the firing. It ends with the request of the run. */
  span: OpenSpan
  move: Move
  skip: Move | null
}

interface FiringOptions {
  /** The time of the database, read under the locks. */
  now: Date
  newId: NewId
  /** Locked triggers whose due time may have changed, whether or not they fire. */
  rescheduled?: Iterable<LockedTrigger>
  /** More parts for the same statement. */
  also?: readonly Part[]
}

/**
 * Fires in the given order. The machines first move as if every run could be requested. The statement stores the old state of a
 * trigger if none of its runs was created. A trigger whose pipeline cannot run is skipped: its history says why, and no
 * cooldown begins.
 */
export async function fireAll(
  tx: SqlTx,
  firings: readonly Firing[],
  { now, newId, rescheduled = [], also = [] }: FiringOptions,
): Promise<Fired[]> {
  const before = new Map<LockedTrigger, TriggerSnapshot>()
  const { fired, accepted } = moveTriggers(firings, before, { now, newId })
  const changed = new Set([...before.keys(), ...[...rescheduled].filter(({ isDueChanged }) => isDueChanged)])
  if (accepted.length === 0 && changed.size + also.length === 0) return fired
  const parts = [latestPart(tx, accepted.length > 0), ...savedPart(tx, [...changed], before), ...also]
  if (accepted.length === 0) await cteStatement(tx, parts, tx`select 1`)
  else {
    const all = [...parts, historyPart(tx, accepted, now), ...usedSuccessesPart(tx, accepted)]
    settle(fired, accepted, outcomesOf(await requestedRuns(tx, accepted.map(requestOf), all)))
  }
  return fired
}

/** Moves the triggers as if every run could be requested. `before` gets the old snapshot of each trigger that moves. */
function moveTriggers(
  firings: readonly Firing[],
  before: Map<LockedTrigger, TriggerSnapshot>,
  { now, newId }: FiringOptions,
) {
  const accepted: Accepted[] = []
  const fired = firings.map((firing): Fired => {
    const { trigger } = firing
    const result: Fired = { firing, outcome: 'ignored', runId: newId() as RunId }
    const move = tryMove(trigger.snapshot, { type: 'fired', at: now.getTime() })
    if (move === null) return result
    const skip = tryMove(trigger.snapshot, { type: 'skipped' })
    const attributes = {
      'sluice.run_id': result.runId,
      'sluice.trigger_id': trigger.id,
      'sluice.trigger_type': trigger.typed.type,
    }
    const span = beginSpan('trigger', attributes, firing.trace)
    accepted.push(Object.assign(result, { outcome: 'requested' as const, span, move, skip }))
    if (!before.has(trigger)) before.set(trigger, trigger.snapshot)
    trigger.snapshot = move.next
    return result
  })
  return { fired, accepted }
}

function settle(
  fired: readonly Fired[],
  accepted: readonly Accepted[],
  outcomes: ReadonlyMap<RunId, RequestOutcome>,
) {
  const fruitless = new Map<LockedTrigger, Fired['outcome']>()
  for (const result of accepted) {
    result.outcome = outcomes.get(result.runId) ?? 'gone'
    if (result.outcome === 'requested') result.span.end()
    else fruitless.set(result.firing.trigger, result.outcome)
  }
  for (const result of fired)
    if (result.outcome === 'ignored') result.outcome = fruitless.get(result.firing.trigger) ?? 'ignored'
}

const requestOf = ({ firing, runId, span }: Accepted) => ({
  id: runId,
  pipelineId: firing.trigger.pipelineId,
  trigger: firing.text,
  cause: { triggerId: firing.trigger.id, event: firing.event },
  chainDepth: firing.chainDepth,
  landingFileId: firing.landingFileId,
  trace: span.trace,
})

/** The newest run that this statement created for each trigger. */
const latestPart = (tx: SqlTx, hasRequests: boolean): Part =>
  hasRequests
    ? tx`latest_fired as (select distinct on (trigger_id) trigger_id, id from inserted order by trigger_id, id desc)`
    : tx`latest_fired as (select null::uuid as trigger_id, null::uuid as id where false)`

/**
 * Saves each trigger in its state after the firings if one of them created a run, otherwise in its state `before`. The due time
 * is saved in any case.
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
    persisted: valuesOf(before.get(trigger) ?? trigger.snapshot),
    fired: before.has(trigger) ? valuesOf(trigger.snapshot) : null,
  }))
  // The ids are repeated, because the planner cannot estimate the number of rows in the record set.
  return [
    tx`saved_triggers as (
      update trigger t set machine_version = ${TRIGGER_MACHINE_VERSION},
        (${columnNames(tx, triggers, FIRED)}) = row(${columnNames(tx, triggers, FIRED, 'v.')}),
        last_run_id = coalesce(f.id, t.last_run_id), due_at = n.due_at
      from jsonb_to_recordset(${tx.json(rows as unknown as JSONValue)}) as n(id uuid, due_at timestamptz, persisted jsonb, fired jsonb)
      left join latest_fired f on f.trigger_id = n.id
      cross join lateral jsonb_to_record(case when f.id is null then n.persisted else n.fired end)
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

/** Records in the history that a trigger fired, or why it was skipped. A firing whose run existed before adds no history. */
function historyPart(tx: SqlTx, accepted: readonly Accepted[], now: Date): Part {
  const histories = accepted.map(({ firing, runId, move, skip }) => ({
    run: runId,
    trigger: firing.trigger.id,
    cause: firing.text,
    fired: historyOf('fired', move),
    skipped: skip && historyOf('skipped', skip),
  }))
  return tx`trigger_history as (
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
  full: 'too many runs of the pipeline are waiting',
} satisfies Partial<Record<RequestOutcome, string>>

/**
 * Records the successes that firings of cron_dependencies used, if these firings created their runs. The next firing then needs
 * newer successes.
 */
function usedSuccessesPart(tx: SqlTx, accepted: readonly Accepted[]): Part[] {
  const successes = accepted.flatMap(({ firing: { trigger, used = [] }, runId }) =>
    used.map(({ source, runId: latest }) => ({ trigger_id: trigger.id, source, used: latest, run: runId })),
  )
  if (successes.length === 0) return []
  return [
    tx`used_successes as (
      update trigger_dependency d set used_run = u.used
      from jsonb_to_recordset(${tx.json(successes)}) as u(trigger_id uuid, source text, used uuid, run uuid)
      join inserted i on i.id = u.run
      where d.trigger_id = u.trigger_id and d.source = u.source)`,
  ]
}
