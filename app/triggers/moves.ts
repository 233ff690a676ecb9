// How events reach triggers: lock the rows, ask the machine, save state, history and columns, all in the caller's transaction.
import type { JSONValue } from 'postgres'
import type { Sql, SqlTx } from '../../drizzle/client.ts'
import { together } from '../../drizzle/together.ts'
import {
  advance,
  IllegalMove,
  type Move as MoveOf,
  restore,
  type Stored,
  store,
} from '../../machines/advance.ts'
import { NewerVersion } from '../../machines/migrate.ts'
import {
  migrateTrigger,
  TRIGGER_MACHINE_VERSION,
  type TriggerEvent,
  type TriggerSnapshot,
  triggerColumns,
  triggerMachine,
} from '../../machines/trigger.ts'
import type { PipelineId, RunId, TriggerId } from '../core/ids.ts'
import type { TypedConfig } from './schema.ts'

/** A row of `trigger` as the driver gives it. */
export interface TriggerRow {
  id: TriggerId
  pipeline_id: PipelineId
  type: TypedConfig['type']
  config: TypedConfig['config']
  cooldown_seconds: number
  snapshot: Stored
  machine_version: number
  state: 'armed' | 'cooling' | 'disabled'
  cooling_until: Date | null
  source: string | null
  due_at: Date | null
  token_hash: string | null
  last_triggered_at: Date | null
  last_run_id: RunId | null
  created_at: Date
  updated_at: Date
}

/** Of `trigger t`, by name: in a transaction, a prepared `*` fails once a newer program has added one. */
export const rowColumns = (sql: Sql | SqlTx) => sql`
  t.id, t.pipeline_id, t.type, t.config, t.cooldown_seconds, t.snapshot, t.machine_version, t.state, t.cooling_until,
  t.source, t.due_at, t.token_hash, t.last_triggered_at, t.last_run_id, t.created_at, t.updated_at`

/** A locked trigger while a transaction works on it. */
export interface LockedTrigger {
  id: TriggerId
  pipelineId: PipelineId
  typed: TypedConfig
  snapshot: TriggerSnapshot
  /** cron and cron_dependency: a new time is saved with the moves, or alone. */
  dueAt: Date | null
  moves: Transition[]
  isDueChanged: boolean
}

interface Transition {
  entity_id: TriggerId
  event: string
  from: string
  to: string
  effects: string[]
  cause: string
}

export type Move = MoveOf<typeof triggerMachine>

/** One locked row brought to life. Throws NewerVersion, and whatever a snapshot that was damaged makes of it. */
export function lockedTrigger(row: TriggerRow): LockedTrigger {
  return {
    id: row.id,
    pipelineId: row.pipeline_id,
    typed: { type: row.type, config: row.config } as TypedConfig,
    snapshot: restore(triggerMachine, migrateTrigger(row.machine_version, row.snapshot)),
    dueAt: row.due_at,
    moves: [],
    isDueChanged: false,
  }
}

export interface LockedTriggers {
  triggers: Map<TriggerId, LockedTrigger>
  /** Rows of a newer program: they are its business. */
  newer: TriggerId[]
  /** Rows that nobody can read, and why. */
  damaged: { id: TriggerId; error: unknown }[]
}

/** One bad row must not keep the others. */
export function lockedTriggers(rows: readonly TriggerRow[]): LockedTriggers {
  const locked: LockedTriggers = { triggers: new Map(), newer: [], damaged: [] }
  for (const row of rows) {
    try {
      locked.triggers.set(row.id, lockedTrigger(row))
    } catch (error) {
      if (error instanceof NewerVersion) locked.newer.push(row.id)
      else locked.damaged.push({ id: row.id, error })
    }
  }
  return locked
}

/**
 * Locks the given triggers in the order of their ids, so that no two transactions wait for each other. Whether a pipeline
 * is still there, the request of its run tells. Null: none of them is there any more.
 */
export async function lockTriggers(
  tx: SqlTx,
  ids: readonly TriggerId[],
): Promise<(LockedTriggers & { now: Date }) | null> {
  const rows = await tx<(TriggerRow & Timed)[]>`
    select ${rowColumns(tx)}, clock_timestamp() as now from trigger t where id = any(${[...new Set(ids)]}::uuid[]) order by id for update`
  const now = latestNow(rows)
  return now && { ...lockedTriggers(rows), now }
}

/** A row with the database's time when it was locked: after a wait for somebody who changed it, that of its end. */
export interface Timed {
  now: Date
}

/** The time when all rows were locked. */
export const latestNow = (rows: readonly Timed[]): Date | null =>
  rows.reduce<Date | null>((latest, { now }) => (latest === null || now > latest ? now : latest), null)

/** Sends one event. False: the trigger does not accept it now, and nothing has changed. */
export function moveTrigger(trigger: LockedTrigger, event: TriggerEvent, cause: string): boolean {
  const moved = tryMove(trigger.snapshot, event)
  if (moved === null) return false
  trigger.snapshot = moved.next
  trigger.moves.push({
    entity_id: trigger.id,
    event: event.type,
    from: moved.from,
    to: moved.to,
    effects: moved.effects,
    cause,
  })
  return true
}

/** Null: the event is not accepted. */
export function tryMove(snapshot: TriggerSnapshot, event: TriggerEvent): Move | null {
  try {
    return advance(triggerMachine, snapshot, event)
  } catch (error) {
    if (error instanceof IllegalMove) return null
    throw error
  }
}

export function setDue(trigger: LockedTrigger, dueAt: Date | null) {
  if (trigger.dueAt?.getTime() === dueAt?.getTime()) return
  trigger.dueAt = dueAt
  trigger.isDueChanged = true
}

/** Writes back every trigger that moved or is due at another time, with its history. */
export async function saveTriggers(tx: SqlTx, locked: Iterable<LockedTrigger>, now: Date): Promise<void> {
  const changed = [...locked].filter((trigger) => trigger.moves.length > 0 || trigger.isDueChanged)
  if (changed.length === 0) return
  const rows = changed.map((trigger) => {
    const { state, cooldownSeconds, coolingUntil, lastTriggeredAt } = triggerColumns(trigger.snapshot)
    return {
      id: trigger.id,
      snapshot: store(trigger.snapshot),
      state,
      cooldown_seconds: cooldownSeconds,
      cooling_until: coolingUntil,
      last_triggered_at: lastTriggeredAt,
      due_at: trigger.dueAt,
    }
  })
  // The ids stand there a second time because the planner cannot see how few rows the other form has.
  const saved = tx`saved_triggers as (
    update trigger t set snapshot = n.snapshot, machine_version = ${TRIGGER_MACHINE_VERSION}, state = n.state,
      cooldown_seconds = n.cooldown_seconds, cooling_until = n.cooling_until,
      last_triggered_at = n.last_triggered_at, due_at = n.due_at
    from jsonb_to_recordset(${tx.json(rows as unknown as JSONValue)}) as n(id uuid, snapshot jsonb, state text,
      cooldown_seconds int, cooling_until timestamptz, last_triggered_at timestamptz, due_at timestamptz)
    where t.id = n.id and t.id = any(${changed.map(({ id }) => id)}::uuid[]))`
  const moves = changed.flatMap((trigger) => trigger.moves)
  const told = tx`told_triggers as (
    insert into transition (machine, entity_id, at, event, "from", "to", effects, cause)
    select 'trigger', m.entity_id, ${now}, m.event, m."from", m."to", m.effects, m.cause
    from jsonb_to_recordset(${tx.json(moves as unknown as JSONValue)})
      as m(entity_id uuid, event text, "from" text, "to" text, effects jsonb, cause text))`
  await together(tx, moves.length === 0 ? [saved] : [saved, told], tx`select 1`)
}
