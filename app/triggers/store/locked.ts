// Triggers that a transaction has locked in order to move them. All lock in the order of the ids, so that no two transactions
// wait for each other.
import { getTableColumns } from 'drizzle-orm'
import { alias } from 'drizzle-orm/pg-core'
import type { JSONValue } from 'postgres'
import type { Sql, SqlTx } from '../../../drizzle/client.ts'
import { selected } from '../../../drizzle/rows.ts'
import { triggers } from '../../../drizzle/schema/index.ts'
import { together } from '../../../drizzle/together.ts'
import type { Stored } from '../../../machines/advance.ts'
import { TRIGGER_MACHINE_VERSION } from '../../../machines/trigger.ts'
import type { PipelineId, RunId, TriggerId } from '../../core/ids.ts'
import type { TypedConfig } from '../schema.ts'

/** What the program knows of columns beyond their types in the table, which checks `type` and `state`. */
interface Narrowed {
  id: TriggerId
  pipelineId: PipelineId
  type: TypedConfig['type']
  config: TypedConfig['config']
  snapshot: Stored
  state: 'armed' | 'cooling' | 'disabled'
  lastRunId: RunId | null
}

export type TriggerRow = Omit<typeof triggers.$inferSelect, keyof Narrowed> & Narrowed

/** Of `trigger t`. */
export const rowColumns = (sql: Sql | SqlTx) => selected(sql, getTableColumns(alias(triggers, 't')))

/** A row with the database's time when it was locked: after a wait for somebody who changed it, that of its end. */
export interface Timed {
  now: Date
}

/** The time when all rows were locked. Null: there are none. */
export const latestNow = (rows: readonly Timed[]): Date | null =>
  rows.reduce<Date | null>((latest, { now }) => (latest === null || now > latest ? now : latest), null)

export const lockRows = (tx: SqlTx, ids: readonly TriggerId[]) => tx<(TriggerRow & Timed)[]>`
  select ${rowColumns(tx)}, clock_timestamp() as now from trigger t
  where id = any(${[...new Set(ids)]}::uuid[]) order by id for update`

/** Triggers of live pipelines that have these webhook tokens and are not disabled, each with `ns.layer.name` of its pipeline. */
export const lockRowsOfTokens = (tx: SqlTx, hashes: readonly string[]) => tx<
  (TriggerRow & Timed & { pipeline: string })[]
>`
  select ${rowColumns(tx)}, p.namespace || '.' || p.layer || '.' || p.name as pipeline, clock_timestamp() as now
  from trigger t join pipeline p on p.id = t.pipeline_id and p.deleted_at is null
  where t.token_hash = any(${[...new Set(hashes)]}::text[]) and t.state <> 'disabled'
  order by t.id for update of t`

/** Some triggers of a pipeline that are not disabled. */
export const lockEnabledOf = (tx: SqlTx, pipelineId: PipelineId, limit: number) => tx<(TriggerRow & Timed)[]>`
  select ${rowColumns(tx)}, clock_timestamp() as now from trigger t where pipeline_id = ${pipelineId}
    and state <> 'disabled' and machine_version <= ${TRIGGER_MACHINE_VERSION}
  order by id limit ${limit} for update`

/** Triggers whose cooldown is over, the longest over first. Those that somebody has locked are left out. */
export const lockCooled = (tx: SqlTx, limit: number) => tx<(TriggerRow & Timed)[]>`
  select ${rowColumns(tx)}, clock_timestamp() as now from trigger t where t.id in (
    select id from trigger where state = 'cooling' and cooling_until <= (select clock_timestamp())
    order by cooling_until limit ${limit})
  order by t.id for update of t skip locked`

/** A step of a trigger's machine, as its history has it. */
export interface Transition {
  entity_id: TriggerId
  event: string
  from: string
  to: string
  effects: string[]
  cause: string
}

/** The columns that follow from a trigger's machine, and its due time. */
export interface MovedColumns {
  id: TriggerId
  snapshot: Stored
  state: string
  cooldown_seconds: number
  cooling_until: Date | null
  last_triggered_at: Date | null
  due_at: Date | null
}

export async function saveMoved(
  tx: SqlTx,
  rows: readonly MovedColumns[],
  moves: readonly Transition[],
  now: Date,
): Promise<void> {
  // The ids stand there a second time because the planner cannot see how few rows the other form has.
  const saved = tx`saved_triggers as (
    update trigger t set snapshot = n.snapshot, machine_version = ${TRIGGER_MACHINE_VERSION}, state = n.state,
      cooldown_seconds = n.cooldown_seconds, cooling_until = n.cooling_until,
      last_triggered_at = n.last_triggered_at, due_at = n.due_at
    from jsonb_to_recordset(${tx.json(rows as unknown as JSONValue)}) as n(id uuid, snapshot jsonb, state text,
      cooldown_seconds int, cooling_until timestamptz, last_triggered_at timestamptz, due_at timestamptz)
    where t.id = n.id and t.id = any(${rows.map(({ id }) => id)}::uuid[]))`
  const told = tx`told_triggers as (
    insert into transition (machine, entity_id, at, event, "from", "to", effects, cause)
    select 'trigger', m.entity_id, ${now}, m.event, m."from", m."to", m.effects, m.cause
    from jsonb_to_recordset(${tx.json(moves as unknown as JSONValue)})
      as m(entity_id uuid, event text, "from" text, "to" text, effects jsonb, cause text))`
  await together(tx, moves.length === 0 ? [saved] : [saved, told], tx`select 1`)
}
