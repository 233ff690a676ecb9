// How events reach triggers: lock the rows, ask the machine, save state, history and columns, all in the caller's transaction.
import type { SqlTx } from '../../drizzle/client.ts'
import { advance, IllegalMove, type Move as MoveOf, restore, store } from '../../machines/advance.ts'
import { NewerVersion } from '../../machines/migrate.ts'
import {
  migrateTrigger,
  type TriggerEvent,
  type TriggerSnapshot,
  triggerColumns,
  triggerMachine,
} from '../../machines/trigger.ts'
import type { PipelineId, TriggerId } from '../core/ids.ts'
import type { TypedConfig } from './schema.ts'
import {
  latestNow,
  lockCooled,
  lockRows,
  lockRowsOfTokens,
  saveMoved,
  type Transition,
  type TriggerRow,
} from './store/locked.ts'

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

export type Move = MoveOf<typeof triggerMachine>

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

/** Locks the given triggers. Whether a pipeline is still there, the request of its run tells. Null: none of them is there any more. */
export async function lockTriggers(
  tx: SqlTx,
  ids: readonly TriggerId[],
): Promise<(LockedTriggers & { now: Date }) | null> {
  const rows = await lockRows(tx, ids)
  const now = latestNow(rows)
  return now && { ...lockedTriggers(rows), now }
}

/** As `lockTriggers`, for webhooks by the hashes of their tokens; `rows` have hashes and the names of the pipelines. */
export async function lockTriggersOfTokens(tx: SqlTx, hashes: readonly string[]) {
  const rows = await lockRowsOfTokens(tx, hashes)
  const now = latestNow(rows)
  return now && { ...lockedTriggers(rows), rows, now }
}

/** Sends one event. False: the trigger does not accept it now, and nothing has changed. */
export function moveTrigger(trigger: LockedTrigger, event: TriggerEvent, cause: string): boolean {
  const moved = tryMove(trigger.snapshot, event)
  if (moved === null) return false
  trigger.snapshot = moved.next
  trigger.moves.push({
    entityId: trigger.id,
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
  const rows = changed.map(({ id, snapshot, dueAt }) => ({
    ...triggerColumns(snapshot),
    id,
    snapshot: store(snapshot),
    dueAt,
  }))
  const moves = changed.flatMap((trigger) => trigger.moves)
  await saveMoved(tx, rows, moves, now)
}

/** Ends the cooldowns that are over. Firing does not wait for it: the machine knows the time itself. */
export async function endCooldowns(tx: SqlTx, limit: number): Promise<{ cooled: number; hasMore: boolean }> {
  const rows = await lockCooled(tx, limit)
  const { triggers } = lockedTriggers(rows)
  const now = rows.at(-1)?.now
  if (now === undefined) return { cooled: 0, hasMore: false }
  for (const trigger of triggers.values())
    moveTrigger(trigger, { type: 'cooled', at: now.getTime() }, 'clock')
  await saveTriggers(tx, triggers.values(), now)
  const cooled = [...triggers.values()].filter(({ moves }) => moves.length > 0).length
  return { cooled, hasMore: rows.length === limit && cooled > 0 }
}
