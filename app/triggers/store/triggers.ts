import { sql as typed } from 'drizzle-orm'
import type { Sql, SqlTx, Tx } from '../../../drizzle/client.ts'
import { latestSuccess } from '../../../drizzle/latest-success.ts'
import { isLiveRow } from '../../../drizzle/live-pipeline.ts'
import { COUNT, columnNames, computed, only, recordset, returning, select } from '../../../drizzle/rows.ts'
import { triggers } from '../../../drizzle/schema/trigger.ts'
import { store } from '../../../machines/advance.ts'
import { TRIGGER_MACHINE_VERSION, type TriggerSnapshot, triggerColumns } from '../../../machines/trigger.ts'
import type { PipelineId, TriggerId } from '../../core/ids.ts'
import type { Page } from '../../core/pagination.ts'
import type { PipelineRef } from '../../core/pipeline-ref.ts'
import type { TypedConfig } from '../schema.ts'
import { insertHistory, ROW, type TriggerRow } from './moves.ts'

const PIPELINE_ID = computed<PipelineId>('id')
const CLOCK = { now: computed<Date>('clock_timestamp()') }

export async function livePipelineId(sql: Sql | SqlTx, ref: PipelineRef): Promise<PipelineId | null> {
  const [row] = await select(sql, { id: PIPELINE_ID })`
    from pipeline p
    where ${isLiveRow(sql, ref)}`
  return row?.id ?? null
}

/**
 * Locks the pipeline until the transaction ends, so that it stays live and gets no other trigger. `now` is read after the lock.
 */
export async function lockForTriggers(
  tx: SqlTx,
  ref: PipelineRef,
): Promise<{ pipelineId: PipelineId; triggers: number; now: Date } | null> {
  const locked = await select(tx, { id: PIPELINE_ID })`
    from pipeline p
    where ${isLiveRow(tx, ref)}
    for no key update`
  const [pipeline] = locked
  if (pipeline === undefined) return null
  const counted = await select(tx, {
    triggers: COUNT,
    ...CLOCK,
  })`from trigger where pipeline_id = ${pipeline.id}`
  return { pipelineId: pipeline.id, ...only(counted) }
}

/** Oldest first. */
export async function triggersOf(
  sql: Sql,
  pipelineId: PipelineId,
  { limit, offset }: Page,
): Promise<{ items: TriggerRow[]; total: number }> {
  const [items, counted] = await Promise.all([
    select(sql, ROW)`
      from trigger t where pipeline_id = ${pipelineId} order by created_at, id limit ${limit} offset ${offset}`,
    select(sql, { total: COUNT })`from trigger where pipeline_id = ${pipelineId}`,
  ])
  return { items, ...only(counted) }
}

export async function triggerOf(sql: Sql, ref: PipelineRef, id: string): Promise<TriggerRow | null> {
  const [row] = await select(sql, ROW)`
    from trigger t join pipeline p on p.id = t.pipeline_id
    where t.id = ${id} and ${isLiveRow(sql, ref)}`
  return row ?? null
}

/** Locks the row. Returns it with the time of the database after the lock; null: the pipeline has no such trigger. */
export async function lockTriggerOf(
  tx: SqlTx,
  ref: PipelineRef,
  id: string,
): Promise<{ row: TriggerRow; now: Date } | null> {
  const [[row], clock] = await Promise.all([
    select(tx, ROW)`
      from trigger t join pipeline p on p.id = t.pipeline_id
      where t.id = ${id} and ${isLiveRow(tx, ref)}
      for update of t`,
    select(tx, CLOCK)``,
  ])
  return row === undefined ? null : { row, ...only(clock) }
}

type NewTrigger = Pick<TriggerRow, 'id' | 'pipelineId' | 'type' | 'source' | 'dueAt' | 'tokenHash'> & {
  config: TypedConfig['config'] | { token_hash: string }
  snapshot: TriggerSnapshot
  now: Date
}

const NEW = [
  'id',
  'pipelineId',
  'type',
  'config',
  'cooldownSeconds',
  'snapshot',
  'machineVersion',
  'state',
  'source',
  'dueAt',
  'tokenHash',
  'createdAt',
  'updatedAt',
] as const

/** Inserts the trigger with its first history row. */
export async function insertTrigger(
  tx: SqlTx,
  { snapshot, now, ...trigger }: NewTrigger,
): Promise<TriggerRow> {
  const { state, cooldownSeconds } = triggerColumns(snapshot)
  const row = {
    ...trigger,
    state,
    cooldownSeconds,
    snapshot: store(snapshot),
    machineVersion: TRIGGER_MACHINE_VERSION,
    createdAt: now,
    updatedAt: now,
  }
  const created = {
    entityId: trigger.id,
    event: 'created',
    from: '',
    to: state,
    effects: [],
    cause: 'created',
  }
  const [inserted] = await Promise.all([
    returning(tx, ROW)`
      insert into trigger as t (${columnNames(tx, triggers, NEW)})
      select ${columnNames(tx, triggers, NEW, 'n.')} from ${recordset(tx, triggers, NEW, [row], 'n')}`,
    insertHistory(tx, [created], now),
  ])
  return only(inserted)
}

/** Saves the columns that clients may change and that do not follow from the machine. */
export async function changeTrigger(
  tx: SqlTx,
  id: TriggerId,
  { config, source, now }: { config: TypedConfig['config']; source: string | null; now: Date },
): Promise<TriggerRow> {
  const changed = await returning(tx, ROW)`
    update trigger t set config = ${tx.json(config)}, source = ${source}, updated_at = ${now} where id = ${id}`
  return only(changed)
}

/**
 * Sets the dependencies of a cron_dependency trigger. Retained dependencies keep their used success. For a new dependency, a
 * success before the last firing counts as used. Before the first firing, every success is new.
 */
export async function setDependencies(tx: SqlTx, id: TriggerId, sources: readonly string[]): Promise<void> {
  await tx`delete from trigger_dependency where trigger_id = ${id} and source <> all(${sources as string[]}::text[])`
  if (sources.length === 0) return
  await tx`
    insert into trigger_dependency (trigger_id, source, used_run)
    select t.id, d.source, case when latest.finished_at <= t.last_triggered_at then latest.id end
    from unnest(${sources as string[]}::text[]) as d(source)
    join trigger t on t.id = ${id}
    ${latestSuccess(tx)}
    on conflict (trigger_id, source) do nothing`
}

export async function removeTrigger(sql: Sql, ref: PipelineRef, id: string): Promise<boolean> {
  const removed = await sql`
    delete from trigger t using pipeline p
    where t.id = ${id} and p.id = t.pipeline_id and ${isLiveRow(sql, ref)}
    returning t.id`
  return removed.length > 0
}

/** The sources that name neither a landing zone nor a pipeline. */
export async function missingSources(sql: Sql | SqlTx, sources: readonly string[]): Promise<string[]> {
  if (sources.length === 0) return []
  const rows = await select(sql, { source: computed<string>('s.source') })`
    from unnest(${sources as string[]}::text[]) as s(source)
    where not exists (
        select 1 from landing_zone z where s.source like 'zone:%'
          and z.namespace = split_part(substr(s.source, 6), '.', 1) and z.name = split_part(substr(s.source, 6), '.', 2))
      and not exists (
        select 1 from pipeline p where s.source like 'pipeline:%' and p.deleted_at is null
          and p.namespace = split_part(substr(s.source, 10), '.', 1)
          and p.layer = split_part(substr(s.source, 10), '.', 2) and p.name = split_part(substr(s.source, 10), '.', 3))`
  return rows.map(({ source }) => source)
}

/**
 * Runs in the transaction that creates the resource `source` (`zone:ns.name` or `pipeline:ns.layer.name`). Triggers on
 * pipelines of other owners stop listening for that name, even if they are disabled. They listen again after a client sends
 * their configuration again, which requires the right to read the new resource. A cron_dependency keeps waiting for the old
 * resource.
 */
export async function forgetOthers(tx: Tx, source: string, owner: string): Promise<void> {
  // Locks in order of id, like every other lock of triggers.
  await tx.execute(typed`
    with affected as materialized (
      select t.id from trigger t
      join pipeline p on p.id = t.pipeline_id
      left join namespace n on n.name = p.namespace
      where (t.source = ${source} or t.id in (select trigger_id from trigger_dependency where source = ${source}))
        and coalesce(p.owner, n.owner) is distinct from ${owner}::text
      order by t.id for update of t),
    renamed as (
      update trigger_dependency set source = ${LOST_PREFIX + source}
      where source = ${source} and trigger_id in (select id from affected))
    update trigger set source = null where source = ${source} and id in (select id from affected)`)
}

/** Prefix for the source of a lost dependency. No event and no pipeline has such a name. */
const LOST_PREFIX = 'gone:'
