// Recorded events, and the triggers that listen for them.
import { alias } from 'drizzle-orm/pg-core'
import type { Sql, SqlTx } from '../../../drizzle/client.ts'
import { computed, only, pick, type RowOf, select } from '../../../drizzle/rows.ts'
import { runs } from '../../../drizzle/schema/run.ts'
import { triggerEvents } from '../../../drizzle/schema/trigger.ts'
import type { Part } from '../../../drizzle/sql.ts'
import type { RunId, TriggerId } from '../../core/ids.ts'
import { limits } from '../../core/limits.ts'
import { LOCKED, type Timed, type TriggerRow } from './moves.ts'

const h = alias(triggerEvents, 'h')
const LISTENING = {
  ...pick(h, 'kind', 'subject', 'filename', 'chainDepth', 'traceparent', 'tracestate'),
  eventId: h.id,
  eventSource: h.source,
  consumedBy: computed<TriggerId | null>('h.trigger_id'),
}
/** A locked event with one trigger that listens for it; null: no trigger listens. */
export type Listening = RowOf<typeof LISTENING>

/** The columns of the trigger are null if it was deleted meanwhile. */
export type ClaimedRow = Listening & Timed & (TriggerRow | { id: null })

export const storedEvents = (
  tx: SqlTx,
  { only, except }: { only?: number; except: readonly number[] },
): Part => tx`
    select id, kind, source, subject, filename, chain_depth, traceparent, tracestate, after_trigger from trigger_event
    where ${only === undefined ? tx`id <> all(${except as number[]}::bigint[])` : tx`id = ${only}`}
    order by id limit ${limits.eventBatch} for update skip locked`

/**
 * Locks events, oldest first. Returns each with its listening triggers in order of id, at most `triggersMax` + 1 rows. An event
 * without listeners is one row. Events beyond the batch stay unlocked; the returned triggers are locked in order of id.
 */
export const claimEvents = (tx: SqlTx, events: Part, triggersMax: number): Promise<ClaimedRow[]> =>
  select(
    tx,
    { ...LOCKED, ...LISTENING },
    tx`
  with claimed as materialized (${events}),
  listening as materialized (
    select e.*, h.trigger_id
    from claimed e
    left join lateral (
      (select t.id as trigger_id from trigger t
       where t.source = e.source and t.state <> 'disabled' and (e.after_trigger is null or t.id > e.after_trigger)
       order by t.id limit ${triggersMax + 1})
      union all
      (select t.id from trigger_dependency d join trigger t on t.id = d.trigger_id
       where e.kind = 'runSucceeded' and d.source = e.source and t.state <> 'disabled' and t.due_at <= (select clock_timestamp())
         and (e.after_trigger is null or t.id > e.after_trigger)
       order by t.id limit ${triggersMax + 1})
      order by trigger_id limit ${triggersMax + 1}) h on true
    limit ${triggersMax + 1}),
  locked as materialized (
    select * from trigger where id = any(array(select trigger_id from listening)) order by id for update)`,
  )`
  from listening h left join locked t on t.id = h.trigger_id
  order by h.id, h.trigger_id`

/** Removes processed events. */
export const donePart = (tx: SqlTx, ids: readonly number[]): Part[] =>
  ids.length === 0 ? [] : [tx`done as (delete from trigger_event where id = any(${[...ids]}::bigint[]))`]

/** Saves the position of an event that has more listeners. */
export const goneOnPart = (tx: SqlTx, id: number, triggerId: TriggerId | null): Part =>
  tx`gone_on as (${goOnAfter(tx, id, triggerId)})`

/** Records that all triggers up to `triggerId` have processed the event. */
export const goOnAfter = (tx: SqlTx, id: number, triggerId: TriggerId | null) =>
  tx`update trigger_event set after_trigger = ${triggerId} where id = ${id}`

/** Age of the oldest event that no evaluation has consumed; 0 without such an event. */
export const eventLagSeconds = async (sql: Sql): Promise<number> =>
  only(await select(sql, { seconds: LAG })`from trigger_event`).seconds

const LAG = computed<number>('coalesce(extract(epoch from clock_timestamp() - min(created_at)), 0)::float8')

export const removeEvent = (tx: SqlTx, id: number) => tx`delete from trigger_event where id = ${id}`

const END = {
  id: computed<RunId>('id'),
  attempt: runs.attempt,
  name: computed<string>("namespace || '.' || layer || '.' || pipeline"),
}

/** Runs whose success ends a chain of triggers, with `ns.layer.name` of their pipelines. */
export const endsOfChains = (tx: SqlTx, ids: readonly RunId[]) => select(tx, END)`
  from run where id = any(${[...ids]}::uuid[])`

/** Ids of the oldest events, without those in `except`. */
export const waitingEvents = async (sql: Sql, except: readonly number[], limit: number): Promise<number[]> =>
  (
    await select(sql, pick(triggerEvents, 'id'))`
      from trigger_event where id <> all(${[...except]}::bigint[]) order by trigger_event.id limit ${limit}`
  ).map(({ id }) => id)
