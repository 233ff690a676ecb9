// Applies events to triggers: locks the rows, asks the machine, and saves state, history and columns in the caller's
// transaction. Every transaction locks in order of id, so that no two deadlock.
import { getTableColumns } from 'drizzle-orm'
import { alias } from 'drizzle-orm/pg-core'
import type { SqlTx } from '../../../drizzle/client.ts'
import { cteStatement } from '../../../drizzle/cte-statement.ts'
import { columnNames, computed, insertRows, type RowOf, recordset, select } from '../../../drizzle/rows.ts'
import { transitions } from '../../../drizzle/schema/system.ts'
import { triggers as triggerTable } from '../../../drizzle/schema/trigger.ts'
import type { Part } from '../../../drizzle/sql.ts'
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

/** Columns of `trigger t`, some with narrower types than in the table. */
export const ROW = {
  ...getTableColumns(alias(triggerTable, 't')),
  id: computed<TriggerId>('t.id'),
  pipelineId: computed<PipelineId>('t.pipeline_id'),
  type: computed<TypedConfig['type']>('t.type'),
  config: computed<TypedConfig['config']>('t.config'),
  lastRunId: computed<RunId | null>('t.last_run_id'),
}
export type TriggerRow = RowOf<typeof ROW>

/**
 * A row with the time of the database at its lock. After a wait for another transaction, the time is later than that
 * transaction's end.
 */
export interface Timed {
  now: Date
}
export const LOCKED = { ...ROW, now: computed<Date>('clock_timestamp()') }

/** The time when all rows were locked. Null: there are no rows. */
export const latestNow = (rows: readonly Timed[]): Date | null =>
  rows.reduce<Date | null>((latest, { now }) => (latest === null || now > latest ? now : latest), null)

/** A locked trigger in the memory of a transaction. */
export interface LockedTrigger {
  id: TriggerId
  pipelineId: PipelineId
  typed: TypedConfig
  snapshot: TriggerSnapshot
  /** Next time of a cron or cron_dependency. A new time is saved even if the trigger does not move. */
  dueAt: Date | null
  moves: Transition[]
  isDueChanged: boolean
}

/** A transition of a trigger's machine, as its history stores it. */
type Transition = Pick<
  typeof transitions.$inferInsert,
  'entityId' | 'event' | 'from' | 'to' | 'effects' | 'cause'
>

/** Restores a trigger from its locked row. Throws NewerVersion, and other errors for a damaged snapshot. */
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
  /** Rows that a newer program version wrote; this version skips them. */
  newer: TriggerId[]
  /** Rows with an unreadable snapshot. */
  damaged: { id: TriggerId; error: unknown }[]
}

/** Restores all rows. An unreadable row does not affect the others. */
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

/** Restores the triggers of locked rows. Adds the rows, and the time when all were locked. Null: there are no rows. */
function timedTriggers<Row extends TriggerRow & Timed>(rows: readonly Row[]) {
  const now = latestNow(rows)
  return now && { ...lockedTriggers(rows), rows, now }
}

/** Locks the given triggers. The later run request checks that their pipelines exist. Null: none of the triggers exists. */
export const lockTriggers = async (tx: SqlTx, ids: readonly TriggerId[]) =>
  timedTriggers(
    await select(tx, LOCKED)`
      from trigger t where id = any(${[...new Set(ids)]}::uuid[]) order by id for update`,
  )

/**
 * As `lockTriggers`, for enabled triggers of live pipelines with these webhook tokens. `rows` also have the token hashes, and
 * `ns.layer.name` of the pipelines.
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

/** As `lockTriggers`, for up to `limit` enabled triggers of a pipeline. */
export const lockEnabledOf = async (tx: SqlTx, pipelineId: PipelineId, limit: number) =>
  timedTriggers(
    await select(tx, LOCKED)`
      from trigger t where pipeline_id = ${pipelineId}
        and state <> 'disabled' and machine_version <= ${TRIGGER_MACHINE_VERSION}
      order by id limit ${limit} for update`,
  )

/** Sends one event. Returns false, without a change, if the trigger does not accept the event now. */
export function moveTrigger(trigger: LockedTrigger, event: TriggerEvent, cause: string): boolean {
  const moved = tryMove(trigger.snapshot, event)
  if (moved === null) return false
  const { next, from, to, effects } = moved
  trigger.snapshot = next
  trigger.moves.push({ entityId: trigger.id, event: event.type, from, to, effects, cause })
  return true
}

export type Move = MoveOf<typeof triggerMachine>

/** Null: the machine does not accept the event. */
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

/** Saves every trigger that moved or has a new due time, with its history. */
export async function saveTriggers(tx: SqlTx, locked: Iterable<LockedTrigger>, now: Date): Promise<void> {
  const changed = [...locked].filter(({ moves, isDueChanged }) => moves.length > 0 || isDueChanged)
  if (changed.length === 0) return
  const rows = changed.map(({ id, snapshot, dueAt }) => ({
    ...triggerColumns(snapshot),
    id,
    snapshot: store(snapshot),
    dueAt,
  }))
  // The ids are repeated, because the planner cannot estimate the number of rows in the record set.
  const saved = tx`saved_triggers as (
    update trigger t set machine_version = ${TRIGGER_MACHINE_VERSION},
      (${columnNames(tx, triggerTable, MOVED)}) = row(${columnNames(tx, triggerTable, MOVED, 'n.')})
    from ${recordset(tx, triggerTable, ['id', ...MOVED], rows, 'n')}
    where t.id = n.id and t.id = any(${rows.map(({ id }) => id)}::uuid[]))`
  const moves = changed.flatMap((trigger) => trigger.moves)
  const recorded = tx`trigger_history as (${insertHistory(tx, moves, now)})`
  await cteStatement(tx, moves.length === 0 ? [saved] : [saved, recorded], tx`select 1`)
}

const HISTORY_COLUMNS = ['machine', 'entityId', 'at', 'event', 'from', 'to', 'effects', 'cause'] as const

/** Inserts transitions into the history of their triggers. */
export const insertHistory = (tx: SqlTx, moves: readonly Transition[], at: Date): Part =>
  insertRows(
    tx,
    transitions,
    HISTORY_COLUMNS,
    moves.map((move) => ({ ...move, machine: 'trigger', at })),
  )

/**
 * Ends expired cooldowns, the earliest end first. Skips triggers that other transactions have locked. A firing does not depend
 * on this, because the machine checks the time itself.
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
