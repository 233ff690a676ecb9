// A success is announced where triggers hear it: a row in the transaction of the success, so that none is ever missed.
import type { JSONValue } from 'postgres'
import type { SqlTx } from '../../drizzle/client.ts'
import type { LockedRun } from './moves.ts'

/** What triggers are matched with: `pipeline:ns.layer.name`. */
export const pipelineSource = (run: { namespace: string; layer: string; pipeline: string }) =>
  `pipeline:${run.namespace}.${run.layer}.${run.pipeline}`

/** Announces those of the runs that ended in success in this transaction, if any trigger would hear it. */
export async function announceSuccesses(tx: SqlTx, runs: Iterable<LockedRun>): Promise<void> {
  const successes = [...runs].filter(
    ({ status, effects }) => status === 'success' && effects.includes('announce'),
  )
  if (successes.length === 0) return
  const rows = successes.map((run) => ({
    source: pipelineSource(run),
    subject: run.id,
    chain_depth: run.chainDepth + 1,
  }))
  await tx`
    insert into trigger_event (kind, source, subject, chain_depth)
    select 'runSucceeded', s.source, s.subject, s.chain_depth
    from jsonb_to_recordset(${tx.json(rows as unknown as JSONValue)}) as s(source text, subject uuid, chain_depth int)
    where exists (select 1 from trigger t where t.source = s.source and t.state <> 'disabled')
      or exists (select 1 from trigger_dependency d where d.source = s.source)`
}
