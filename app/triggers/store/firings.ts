// The parts of the statement that fires triggers: their states, their history, and what their firings have used.
import type { JSONValue } from 'postgres'
import type { SqlTx } from '../../../drizzle/client.ts'
import { columnNames, columnTypes, toRecord } from '../../../drizzle/rows.ts'
import { transitions, triggers } from '../../../drizzle/schema/index.ts'
import type { Part } from '../../../drizzle/sql.ts'
import { together } from '../../../drizzle/together.ts'
import { store } from '../../../machines/advance.ts'
import { TRIGGER_MACHINE_VERSION, type TriggerSnapshot, triggerColumns } from '../../../machines/trigger.ts'
import type { RunId, TriggerId } from '../../core/ids.ts'
import type { RequestOutcome } from '../../runs/service.ts'
import type { Transition } from './locked.ts'

/** A trigger as it was, and as it is after its firings; null: it does not fire. */
export interface FiringRow {
  id: TriggerId
  dueAt: Date | null
  kept: TriggerSnapshot
  fired: TriggerSnapshot | null
}

const HISTORY = ['event', 'from', 'to', 'effects'] as const
type History = Pick<Transition, (typeof HISTORY)[number]>

/** An accepted firing with both of its histories: which of them is told, its run decides. */
export interface FiringHistory {
  run: RunId
  trigger: TriggerId
  cause: string
  fired: History
  skipped: History | null
}

/**
 * Each trigger is saved as it is after its firings if one of them has a run, else as it was; its due time in any case. The
 * history tells that it fired, or why it was skipped. A firing whose run was there before has no history.
 */
export const firingParts = (
  tx: SqlTx,
  rows: readonly FiringRow[],
  histories: readonly FiringHistory[],
  now: Date,
): Part[] => [
  latestPart(tx, histories.length > 0),
  ...savedPart(tx, rows),
  ...(histories.length > 0 ? [toldPart(tx, histories, now)] : []),
]

/** One statement of these parts alone. */
export const perform = async (tx: SqlTx, parts: readonly Part[]): Promise<void> =>
  void (await together(tx, parts, tx`select 1`))

/** The run that each trigger has started last, of those of this statement. */
const latestPart = (tx: SqlTx, hasRequests: boolean): Part =>
  hasRequests
    ? tx`latest_fired as (select distinct on (trigger_id) trigger_id, id from inserted order by trigger_id, id desc)`
    : tx`latest_fired as (select null::uuid as trigger_id, null::uuid as id where false)`

function savedPart(tx: SqlTx, changed: readonly FiringRow[]): Part[] {
  if (changed.length === 0) return []
  const rows = changed.map(({ id, dueAt, kept, fired }) => ({
    id,
    due_at: dueAt,
    kept: valuesOf(kept),
    fired: fired && valuesOf(fired),
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

const toldPart = (tx: SqlTx, histories: readonly FiringHistory[], now: Date): Part =>
  tx`told_triggers as (
    insert into transition (machine, entity_id, at, event, "from", "to", effects, cause)
    select 'trigger', n.trigger, ${now}, v.event, v."from", v."to", v.effects,
      n.cause || coalesce(': ' || (${tx.json(SKIPPED)}::jsonb ->> o.outcome), '')
    from jsonb_to_recordset(${tx.json(histories as unknown as JSONValue)}) as n(run uuid, trigger uuid, cause text, fired jsonb, skipped jsonb)
    join outcome o on o.id = n.run
    cross join lateral jsonb_to_record(case when o.outcome = 'requested' then n.fired
      when ${tx.json(SKIPPED)}::jsonb ? o.outcome then n.skipped end) as v(${columnTypes(tx, transitions, HISTORY)})
    where v.event is not null)`

const SKIPPED = {
  unpublished: 'the pipeline has never been published',
  full: 'too many of its runs are waiting',
} satisfies Partial<Record<RequestOutcome, string>>

/** A success that a firing of a cron_dependency has used: it is no news for the next firing, if this one has its run. */
export interface UsedSuccess {
  trigger_id: TriggerId
  source: string
  used: RunId
  run: RunId
}

export const rememberedUsedPart = (tx: SqlTx, used: readonly UsedSuccess[]): Part[] =>
  used.length === 0
    ? []
    : [
        tx`remembered_used as (
          update trigger_dependency d set used_run = u.used
          from jsonb_to_recordset(${tx.json(used as unknown as JSONValue)}) as u(trigger_id uuid, source text, used uuid, run uuid)
          join inserted i on i.id = u.run
          where d.trigger_id = u.trigger_id and d.source = u.source)`,
      ]
