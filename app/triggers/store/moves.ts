// How events reach triggers: lock the rows, ask the machine, save state, history and columns, all in the caller's transaction.
// All lock in the order of the ids, so that no two transactions wait for each other.
import { getTableColumns } from 'drizzle-orm'
import { alias } from 'drizzle-orm/pg-core'
import type { SqlTx } from '../../../drizzle/client.ts'
import { columnNames, computed, insertRows, type RowOf, recordset, select } from '../../../drizzle/rows.ts'
import { transitions, triggers as triggerTable } from '../../../drizzle/schema/index.ts'
import type { Part } from '../../../drizzle/sql.ts'
import { together } from '../../../drizzle/together.ts'
import { advance, IllegalMove, type Move as MoveOf, restore, store } from '../../../machines/advance.ts'
import { NewerVersion } from '../../../machines/migrate.ts'
import {
  migrateTrigger,
  TRIGGER_MACHINE_VERSION,
  type TriggerEvent,
  type TriggerSnapshot,
  triggerColumns,
  triggerMachine,
} from '../../../machines/trigger.ts'
import type { PipelineId, RunId, TriggerId } from '../../core/ids.ts'
import type { TypedConfig } from '../schema.ts'

/** Columns of `trigger t`, some with what the program knows of them beyond their types in the table. */
export const ROW = {
  ...getTableColumns(alias(triggerTable, 't')),
  id: computed<TriggerId>('t.id'),
  pipelineId: computed<PipelineId>('t.pipeline_id'),
  type: computed<TypedConfig['type']>('t.type'),
  config: computed<TypedConfig['config']>('t.config'),
  lastRunId: computed<RunId | null>('t.last_run_id'),
}
export type TriggerRow = RowOf<typeof ROW>

/** A row with the database's time when it was locked: after a wait for somebody who changed it, that of its end. */
export interface Timed {
  now: Date
}
export const LOCKED = { ...ROW, now: computed<Date>('clock_timestamp()') }

/** The time when all rows were locked. Null: there are none. */
export const latestNow = (rows: readonly Timed[]): Date | null =>
  rows.reduce<Date | null>((latest, { now }) => (latest === null || now > latest ? now : latest), null)

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

/** A step of a trigger's machine, as its history has it. */
export type Transition = Pick<
  typeof transitions.$inferInsert,
  'entityId' | 'event' | 'from' | 'to' | 'effects' | 'cause'
>

/** One locked row brought to life. Throws NewerVersion, and whatever a snapshot that was damaged makes of it. */
export function lockedTrigger(row: TriggerRow): LockedTrigger {
  return {
    id: row.id,
    pipelineId: row.pipelineId,
    typed: { type: row.type, config: row.config } as TypedConfig,
    snapshot: restore(triggerMachine, migrateTrigger(row.machineVersion, row.snapshot)),
    dueAt: row.dueAt,
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

/** With their rows, and the time when all were locked. Null: there are none. */
export function timedTriggers<Row extends TriggerRow & Timed>(rows: readonly Row[]) {
  const now = latestNow(rows)
  return now && { ...lockedTriggers(rows), rows, now }
}

/** Locks the given triggers. Whether a pipeline is still there, the request of its run tells. Null: none of them is there any more. */
export const lockTriggers = async (tx: SqlTx, ids: readonly TriggerId[]) =>
  timedTriggers(
    await select(tx, LOCKED)`
      from trigger t where id = any(${[...new Set(ids)]}::uuid[]) order by id for update`,
  )

/**
 * As `lockTriggers`, for triggers of live pipelines that have these webhook tokens and are not disabled; `rows` have the
 * hashes, and `ns.layer.name` of the pipelines.
 */
export const lockTriggersOfTokens = async (tx: SqlTx, hashes: readonly string[]) =>
  timedTriggers(
    await select(tx, {
      ...LOCKED,
      pipeline: computed<string>("p.namespace || '.' || p.layer || '.' || p.name"),
    })`
      from trigger t join pipeline p on p.id = t.pipeline_id and p.deleted_at is null
      where t.token_hash = any(${[...new Set(hashes)]}::text[]) and t.state <> 'disabled'
      order by t.id for update of t`,
  )

/** As `lockTriggers`, for some triggers of a pipeline that are not disabled. */
export const lockEnabledOf = async (tx: SqlTx, pipelineId: PipelineId, limit: number) =>
  timedTriggers(
    await select(tx, LOCKED)`
      from trigger t where pipeline_id = ${pipelineId}
        and state <> 'disabled' and machine_version <= ${TRIGGER_MACHINE_VERSION}
      order by id limit ${limit} for update`,
  )

/** Sends one event. False: the trigger does not accept it now, and nothing has changed. */
export function moveTrigger(trigger: LockedTrigger, event: TriggerEvent, cause: string): boolean {
  const moved = tryMove(trigger.snapshot, event)
  if (moved === null) return false
  const { next, from, to, effects } = moved
  trigger.snapshot = next
  trigger.moves.push({ entityId: trigger.id, event: event.type, from, to, effects, cause })
  return true
}

export type Move = MoveOf<typeof triggerMachine>

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

/** The columns that follow from a trigger's machine, and its due time. */
const MOVED = ['snapshot', 'state', 'cooldownSeconds', 'coolingUntil', 'lastTriggeredAt', 'dueAt'] as const

/** Writes back every trigger that moved or is due at another time, with its history. */
export async function saveTriggers(tx: SqlTx, locked: Iterable<LockedTrigger>, now: Date): Promise<void> {
  const changed = [...locked].filter(({ moves, isDueChanged }) => moves.length > 0 || isDueChanged)
  if (changed.length === 0) return
  const rows = changed.map(({ id, snapshot, dueAt }) => ({
    ...triggerColumns(snapshot),
    id,
    snapshot: store(snapshot),
    dueAt,
  }))
  // The ids stand there a second time because the planner cannot see how few rows the other form has.
  const saved = tx`saved_triggers as (
    update trigger t set machine_version = ${TRIGGER_MACHINE_VERSION},
      (${columnNames(tx, triggerTable, MOVED)}) = row(${columnNames(tx, triggerTable, MOVED, 'n.')})
    from ${recordset(tx, triggerTable, ['id', ...MOVED], rows, 'n')}
    where t.id = n.id and t.id = any(${rows.map(({ id }) => id)}::uuid[]))`
  const moves = changed.flatMap((trigger) => trigger.moves)
  const told = tx`told_triggers as (${insertTold(tx, moves, now)})`
  await together(tx, moves.length === 0 ? [saved] : [saved, told], tx`select 1`)
}

const TOLD = ['machine', 'entityId', 'at', 'event', 'from', 'to', 'effects', 'cause'] as const

/** Tells steps in the history of their triggers. */
export const insertTold = (tx: SqlTx, moves: readonly Transition[], at: Date): Part =>
  insertRows(
    tx,
    transitions,
    TOLD,
    moves.map((move) => ({ ...move, machine: 'trigger', at })),
  )

/**
 * Ends the cooldowns that are over, the longest over first; triggers that somebody has locked are left out. Firing does not
 * wait for it: the machine knows the time itself.
 */
export async function endCooldowns(tx: SqlTx, limit: number): Promise<{ cooled: number; hasMore: boolean }> {
  const locked = timedTriggers(
    await select(tx, LOCKED)`
      from trigger t where t.id in (
        select id from trigger where state = 'cooling' and cooling_until <= (select clock_timestamp())
        order by cooling_until limit ${limit})
      order by t.id for update of t skip locked`,
  )
  if (locked === null) return { cooled: 0, hasMore: false }
  const { triggers, rows, now } = locked
  for (const trigger of triggers.values())
    moveTrigger(trigger, { type: 'cooled', at: now.getTime() }, 'clock')
  await saveTriggers(tx, triggers.values(), now)
  const cooled = [...triggers.values()].filter(({ moves }) => moves.length > 0).length
  return { cooled, hasMore: rows.length === limit && cooled > 0 }
}
