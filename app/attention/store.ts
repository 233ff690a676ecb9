// Everything that needs attention, of all pipelines and branches: one statement, so that no item is counted twice or left out.
import { alias } from 'drizzle-orm/pg-core'
import type { Sql } from '../../drizzle/client.ts'
import { verdictOnMain } from '../../drizzle/main-runs.ts'
import { computed, pick, type RowOf, select } from '../../drizzle/rows.ts'
import { runs } from '../../drizzle/schema/run.ts'
import { andVisibleId, type VisibleIds } from '../../drizzle/visibility.ts'
import type { Page } from '../core/pagination.ts'
import { ATTENTION_KINDS, type AttentionKind } from './schema.ts'

/** A run on main that is pending for longer needs attention. */
const WAITS_LONG_SECONDS = 60
/** Characters of an error that an item shows. The run itself has all of them. */
const REASON_CHARACTERS = 500

const item = alias(runs, 'item')
const ITEM = {
  kind: computed<AttentionKind>('item.kind'),
  ...pick(item, 'branch'),
  namespace: computed<string | null>('item.namespace'),
  layer: computed<string | null>('item.layer'),
  pipeline: computed<string | null>('item.pipeline'),
  runId: computed<string | null>('item.run_id'),
  since: computed<Date>('item.since'),
  reason: computed<string>('item.reason'),
  total: computed<number>('counted.total'),
}
export type AttentionRow = Omit<RowOf<typeof ITEM>, 'total'>

/** One page, the kinds in their order and the newest first, and the number of all items. */
export async function attention(
  sql: Sql,
  pipelines: VisibleIds,
  { limit, offset }: Page,
): Promise<{ items: AttentionRow[]; total: number }> {
  const rows = await select(
    sql,
    { ...ITEM, kind: computed<AttentionKind | null>('item.kind') },
    sql`
    with live as not materialized (
      select p.id, p.namespace, p.layer, p.name as pipeline from pipeline p
      where p.deleted_at is null ${andVisibleId(sql, sql`p.id`, pipelines)}),
    -- Few pipelines have failures, and indexes find them. The verdict on other pipelines is not read.
    judged as (
      select pipeline_id from run where status = 'failed' and branch = 'main'
      union
      select pipeline_id from quality_result where status = 'failed'),
    verdict as (
      select live.*, run.* from judged join live on live.id = judged.pipeline_id cross join lateral (
        select run.id as run_id, run.status, run.created_at, run.finished_at, run.error
        ${verdictOnMain(sql, sql`live.id`)}) run),
    active as (
      select live.*, run.id as run_id, run.phase, run.status, run.created_at, run.waiting_reason, run.waiting, review.entered_at
      from run join live on live.id = run.pipeline_id
      left join run_review review on run.phase = 'review' and review.run_id = run.id
      where run.status in ('pending', 'running') and run.branch = 'main'),
    item as materialized (
      select 'review' as kind, namespace, layer, pipeline, run_id, 'main' as branch, coalesce(entered_at, created_at) as since,
        'waits for a review' as reason
      from active where status = 'running' and phase = 'review'
      union all
      select 'failed', namespace, layer, pipeline, run_id, 'main', coalesce(finished_at, created_at),
        coalesce(left(error, ${REASON_CHARACTERS}::int), 'failed, and no later run succeeded')
      from verdict where status = 'failed'
      union all
      select 'waiting', namespace, layer, pipeline, run_id, 'main', created_at,
        coalesce(case when waiting then waiting_reason end, 'waits for a runner')
      from active
      where status = 'pending' and created_at < clock_timestamp() - ${WAITS_LONG_SECONDS}::int * interval '1 second'
      union all
      select 'failing_tests', namespace, layer, pipeline, run_id, 'main', coalesce(finished_at, created_at),
        'tests of severity warn failed: ' || test.names
      from verdict cross join lateral (
        select string_agg(q.name, ', ' order by q.name) as names from quality_result q
        where q.run_id = verdict.run_id and q.status = 'failed') test
      where verdict.status = 'success' and test.names is not null
      union all
      select 'behind', null, null, null, null, ref.name, coalesce(ref.updated_at, ref.created_at),
        (main.number - ref.base) || case main.number - ref.base when 1 then ' commit' else ' commits' end || ' behind main'
      from lake_ref ref join lake_ref main on main.name = 'main'
      where ref.kind = 'user' and ref.state = 'open' and not starts_with(ref.name, '_') and main.number > ref.base),
    counted as (select count(*)::int as total from item),
    page as (
      select * from item
      order by array_position(${[...ATTENTION_KINDS]}::text[], kind), since desc, run_id desc, branch
      limit ${limit} offset ${offset})`,
  )`
    from counted left join page item on true
    order by array_position(${[...ATTENTION_KINDS]}::text[], item.kind), item.since desc, item.run_id desc, item.branch`
  return {
    items: rows.flatMap(({ kind, total: _, ...row }) => (kind === null ? [] : [{ ...row, kind }])),
    total: rows[0]?.total ?? 0,
  }
}
