// Triggers that a transaction has locked in order to move them. All lock in the order of the ids, so that no two transactions
// wait for each other.
import { getTableColumns } from 'drizzle-orm'
import { alias } from 'drizzle-orm/pg-core'
import type { SqlTx } from '../../../drizzle/client.ts'
import { columnNames, computed, insertRows, type RowOf, recordset, select } from '../../../drizzle/rows.ts'
import { transitions, triggers } from '../../../drizzle/schema/index.ts'
import type { Part } from '../../../drizzle/sql.ts'
import { together } from '../../../drizzle/together.ts'
import { TRIGGER_MACHINE_VERSION } from '../../../machines/trigger.ts'
import type { PipelineId, RunId, TriggerId } from '../../core/ids.ts'
import type { TypedConfig } from '../schema.ts'

/** Columns of `trigger t`, some with what the program knows of them beyond their types in the table. */
export const ROW = {
  ...getTableColumns(alias(triggers, 't')),
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

export const lockRows = (tx: SqlTx, ids: readonly TriggerId[]) => select(tx, LOCKED)`
  from trigger t where id = any(${[...new Set(ids)]}::uuid[]) order by id for update`

/** Triggers of live pipelines that have these webhook tokens and are not disabled, each with `ns.layer.name` of its pipeline. */
export const lockRowsOfTokens = (tx: SqlTx, hashes: readonly string[]) => select(tx, {
  ...LOCKED,
  pipeline: computed<string>("p.namespace || '.' || p.layer || '.' || p.name"),
})`
  from trigger t join pipeline p on p.id = t.pipeline_id and p.deleted_at is null
  where t.token_hash = any(${[...new Set(hashes)]}::text[]) and t.state <> 'disabled'
  order by t.id for update of t`

/** Some triggers of a pipeline that are not disabled. */
export const lockEnabledOf = (tx: SqlTx, pipelineId: PipelineId, limit: number) => select(tx, LOCKED)`
  from trigger t where pipeline_id = ${pipelineId}
    and state <> 'disabled' and machine_version <= ${TRIGGER_MACHINE_VERSION}
  order by id limit ${limit} for update`

/** Triggers whose cooldown is over, the longest over first. Those that somebody has locked are left out. */
export const lockCooled = (tx: SqlTx, limit: number) => select(tx, LOCKED)`
  from trigger t where t.id in (
    select id from trigger where state = 'cooling' and cooling_until <= (select clock_timestamp())
    order by cooling_until limit ${limit})
  order by t.id for update of t skip locked`

/** A step of a trigger's machine, as its history has it. */
export type Transition = Pick<
  typeof transitions.$inferInsert,
  'entityId' | 'event' | 'from' | 'to' | 'effects' | 'cause'
>

/** The columns that follow from a trigger's machine, and its due time. */
const MOVED = ['snapshot', 'state', 'cooldownSeconds', 'coolingUntil', 'lastTriggeredAt', 'dueAt'] as const
export type MovedColumns = Pick<typeof triggers.$inferSelect, 'id' | (typeof MOVED)[number]>

export async function saveMoved(
  tx: SqlTx,
  rows: readonly MovedColumns[],
  moves: readonly Transition[],
  now: Date,
): Promise<void> {
  // The ids stand there a second time because the planner cannot see how few rows the other form has.
  const saved = tx`saved_triggers as (
    update trigger t set machine_version = ${TRIGGER_MACHINE_VERSION},
      (${columnNames(tx, triggers, MOVED)}) = row(${columnNames(tx, triggers, MOVED, 'n.')})
    from ${recordset(tx, triggers, ['id', ...MOVED], rows, 'n')}
    where t.id = n.id and t.id = any(${rows.map(({ id }) => id)}::uuid[]))`
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
