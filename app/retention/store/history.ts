// Prunes records of the past: audit entries, unprocessed events, answers to repeated requests, and the history of drafts and
// triggers. The history of a run is pruned with the run.
import { alias } from 'drizzle-orm/pg-core'
import type { JSONValue } from 'postgres'
import { computed, type RowOf, select } from '../../../drizzle/rows.ts'
import { transitions } from '../../../drizzle/schema/system.ts'
import { FIRST_ID } from '../../core/ids.ts'
import { BATCH_ROWS, inBatches, PAGE, type Reaping } from './reaping.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
/** The answer to a repeated request is stored for a day (docs/semantics/runs.md). */
const IDEMPOTENCY_KEY_AGE_MS = 24 * HOUR_MS
/** Events are processed within seconds. An event that nothing could process for a week is dropped. */
const EVENT_AGE_MS = 7 * DAY_MS
/** Maximum number and age of stored transitions per draft or trigger. The latest is always kept. */
const HISTORY_PER_ENTITY = 1_000
const HISTORY_AGE_MS = 90 * DAY_MS

export async function pruneAudit(reaping: Reaping): Promise<void> {
  reaping.reaped.auditPruned += await pruneOlder(reaping, 'audit_entry', reaping.cutoffs.audit)
}

export async function pruneIdempotencyKeys(reaping: Reaping): Promise<void> {
  const cutoff = reaping.now.getTime() - IDEMPOTENCY_KEY_AGE_MS
  reaping.reaped.historyPruned += await pruneOlder(reaping, 'idempotency_key', cutoff)
}

export async function pruneEvents(reaping: Reaping): Promise<void> {
  const cutoff = reaping.now.getTime() - EVENT_AGE_MS
  reaping.reaped.historyPruned += await pruneOlder(reaping, 'trigger_event', cutoff)
}

const KINDS = {
  audit_entry: 'audit_entries',
  idempotency_key: 'idempotency_keys',
  trigger_event: 'trigger_events',
} as const

/** Walks a table by `created_at`, which is indexed on the large tables. Returns the number of deleted rows. */
async function pruneOlder(reaping: Reaping, table: keyof typeof KINDS, cutoff: number): Promise<number> {
  let from = new Date(0)
  let pruned = 0
  await inBatches(reaping, async (tx) => {
    const [batch] = await tx<{ gone: number; last: Date | null }[]>`
      with old as materialized (
        select ctid, created_at from ${tx(table)}
        where created_at >= ${from} and created_at < ${new Date(cutoff)}
        order by created_at limit ${BATCH_ROWS}),
      gone as (delete from ${tx(table)} where ctid = any(array(select ctid from old)) returning 1)
      select (select count(*) from gone)::int as gone, (select max(created_at) from old) as last`
    if (batch === undefined || batch.last === null) return false
    pruned += batch.gone
    reaping.dryRun?.add(KINDS[table], batch.gone)
    from = batch.last
    return batch.gone === BATCH_ROWS
  })
  return pruned
}

const BOUNDS = {
  entityId: alias(transitions, 'entity').entityId,
  until: computed<string | null>('bound.until'),
}

export async function pruneHistory(reaping: Reaping): Promise<void> {
  for (const machine of ['draft', 'trigger'] as const) {
    let after = FIRST_ID
    for (;;) {
      const entities = await entitiesWithBounds(reaping, machine, after)
      await pruneMoves(
        reaping,
        machine,
        entities.filter(({ until }) => until !== null),
      )
      const last = entities.at(-1)
      if (entities.length < PAGE || last === undefined) break
      after = last.entityId
      reaping.checkRunning()
    }
  }
}

/**
 * A page of drafts or triggers, each with the newest transition beyond the count or the age. The latest transition is never
 * among them, except for a deleted trigger.
 */
const entitiesWithBounds = ({ sql, now }: Reaping, machine: 'draft' | 'trigger', after: string) =>
  select(
    sql,
    BOUNDS,
    sql`
    with recursive leap as (
      (select t.entity_id from transition t where t.machine = ${machine} and t.entity_id > ${after}
        order by t.entity_id limit 1)
      union all
      select next.entity_id from leap cross join lateral (
        select t.entity_id from transition t where t.machine = ${machine} and t.entity_id > leap.entity_id
        order by t.entity_id limit 1) next)`,
  )`
    from (select entity_id from leap limit ${PAGE}) entity
    cross join lateral (
      select greatest(
        (select t.id from transition t where t.machine = ${machine} and t.entity_id = entity.entity_id
          order by t.id desc offset ${HISTORY_PER_ENTITY} limit 1),
        (select old.id from (
          select t.id, t.at from transition t where t.machine = ${machine} and t.entity_id = entity.entity_id
          order by t.id desc offset ${
            machine === 'draft'
              ? sql`1`
              : sql`
            (select count(*) from trigger living where living.id = entity.entity_id)`
          } limit ${HISTORY_PER_ENTITY}) old
          where old.at < ${new Date(now.getTime() - HISTORY_AGE_MS)} order by old.id desc limit 1)) as until) bound
    order by entity.entity_id`

async function pruneMoves(
  reaping: Reaping,
  machine: string,
  ranges: readonly RowOf<typeof BOUNDS>[],
): Promise<void> {
  if (ranges.length === 0) return
  await inBatches(reaping, async (tx) => {
    const { count } = await tx`
      delete from transition where ctid = any(array(
        select gone.ctid from jsonb_to_recordset(${tx.json(ranges as unknown as JSONValue)})
          as range("entityId" uuid, until bigint)
        cross join lateral (
          select t.ctid from transition t
          where t.machine = ${machine} and t.entity_id = range."entityId" and t.id <= range.until
          limit ${BATCH_ROWS}) gone
        limit ${BATCH_ROWS}))`
    reaping.reaped.historyPruned += count
    reaping.dryRun?.add('transitions', count)
    return count === BATCH_ROWS
  })
}
