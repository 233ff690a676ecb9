// Recorded events, and the triggers that listen for them.
import type { Sql, SqlTx } from '../../../drizzle/client.ts'
import type { Part } from '../../../drizzle/sql.ts'
import type { ClientTrace } from '../../../proto/trace.ts'
import type { RunId, TriggerId } from '../../core/ids.ts'
import { limits } from '../../core/limits.ts'
import { rowColumns, type Timed, type TriggerRow } from './locked.ts'

/** An event that was taken, with a trigger that listens for it; null: none does. */
export interface Listening extends ClientTrace {
  event_id: number
  kind: 'fileUploaded' | 'runSucceeded'
  event_source: string
  subject: string
  filename: string | null
  chain_depth: number
  heard_by: TriggerId | null
}

/** The trigger's columns are null when it is gone. */
export type TakenRow = Listening & Timed & (TriggerRow | { id: null })

export const storedEvents = (
  tx: SqlTx,
  { only, except }: { only?: number; except: readonly number[] },
): Part => tx`
    select id, kind, source, subject, filename, chain_depth, traceparent, tracestate, after_trigger from trigger_event
    where ${only === undefined ? tx`id <> all(${except as number[]}::bigint[])` : tx`id = ${only}`}
    order by id limit ${limits.eventBatch} for update skip locked`

/**
 * Events, oldest first, each with those that hear it, in the order of their ids: at most one row more than `triggersMax`. An
 * event that nobody hears is one row. Rows that are not read are not locked; the triggers are, in the order of their ids.
 */
export const takeEvents = (tx: SqlTx, events: Part, triggersMax: number) => tx<TakenRow[]>`
  with taken as materialized (${events}),
  heard as materialized (
    select e.*, h.trigger_id
    from taken e
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
    select * from trigger where id = any(array(select trigger_id from heard)) order by id for update)
  select ${rowColumns(tx)}, h.id::float8 as event_id, h.kind, h.source as event_source, h.subject, h.filename, h.chain_depth,
    h.traceparent, h.tracestate,
    h.trigger_id as heard_by, clock_timestamp() as now
  from heard h left join locked t on t.id = h.trigger_id
  order by h.id, h.trigger_id`

/** Removes events that are done with. */
export const donePart = (tx: SqlTx, ids: readonly number[]): Part[] =>
  ids.length === 0 ? [] : [tx`done as (delete from trigger_event where id = any(${[...ids]}::bigint[]))`]

/** Of an event that more triggers hear: it goes on after this trigger. */
export const goneOnPart = (tx: SqlTx, id: number, triggerId: TriggerId | null): Part =>
  tx`gone_on as (${goOnAfter(tx, id, triggerId)})`

/** The triggers up to this one have been asked about the event. */
export const goOnAfter = (tx: SqlTx, id: number, triggerId: TriggerId | null) =>
  tx`update trigger_event set after_trigger = ${triggerId} where id = ${id}`

export const removeEvent = (tx: SqlTx, id: number) => tx`delete from trigger_event where id = ${id}`

/** Runs whose success ends a chain of triggers, with `ns.layer.name` of their pipelines. */
export const endsOfChains = (tx: SqlTx, runs: readonly RunId[]) => tx<
  { id: RunId; attempt: number; name: string }[]
>`
  select id, attempt, namespace || '.' || layer || '.' || pipeline as name from run where id = any(${[...runs]}::uuid[])`

/** Ids of the oldest events but those, at most `limit`. */
export const waitingEvents = async (sql: Sql, except: readonly number[], limit: number): Promise<number[]> =>
  (
    await sql<{ id: number }[]>`
      select id::float8 as id from trigger_event where id <> all(${[...except]}::bigint[]) order by id limit ${limit}`
  ).map(({ id }) => id)
