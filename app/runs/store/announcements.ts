// A success with listening triggers inserts an event in the same transaction, so that no success is missed.
import type { JSONValue } from 'postgres'
import type { SqlTx } from '../../../drizzle/client.ts'
import type { Part } from '../../../drizzle/sql.ts'
import { MAIN } from '../../core/lake-version.ts'
import type { LockedRun } from './moves.ts'
import { notifyingEvents } from './notices.ts'

/** The source that triggers match: `pipeline:ns.layer.name`. */
const pipelineSource = (run: { namespace: string; layer: string; pipeline: string }) =>
  `pipeline:${run.namespace}.${run.layer}.${run.pipeline}`

/**
 * Inserts an event for each run on main that ended in success in this transaction, if any trigger listens. One listener is enough, and
 * an index finds it. With a plain `exists`, the planner may collect all listeners.
 */
export function announcedPart(tx: SqlTx, runs: Iterable<LockedRun>): Part[] {
  const successes = [...runs].filter(
    ({ branch, status, effects }) => branch === MAIN && status === 'success' && effects.includes('announce'),
  )
  if (successes.length === 0) return []
  const rows = successes.map((run) => ({
    source: pipelineSource(run),
    subject: run.id,
    chain_depth: run.chainDepth + 1,
  }))
  return [
    tx`announced as (
    insert into trigger_event (kind, source, subject, chain_depth, traceparent, tracestate)
    select 'runSucceeded', s.source, s.subject, s.chain_depth, r.traceparent, r.tracestate
    from jsonb_to_recordset(${tx.json(rows as unknown as JSONValue)}) as s(source text, subject uuid, chain_depth int)
    cross join lateral (
      (select 1 from trigger t where t.source = s.source and t.state <> 'disabled' limit 1)
      union all
      (select 1 from trigger_dependency d where d.source = s.source limit 1)
      limit 1) listener
    left join lateral (select traceparent, tracestate from run where id = s.subject limit 1) r on true
    returning 1)`,
  ]
}

/** For the answer of the same statement: the number of inserted events, as `events`. The commit reports them to evaluators. */
export const announcedEvents = (tx: SqlTx, announced: readonly Part[]): Part =>
  announced.length === 0
    ? tx`0 as events`
    : tx`(select count(*) from announced)::int as events, ${notifyingEvents(tx, tx`announced`)} as reported`
