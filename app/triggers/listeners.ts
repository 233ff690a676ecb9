// Triggers hear a name. Where things are somebody's, the next thing of a name is not what they were allowed to hear.
import { sql } from 'drizzle-orm'
import type { Tx } from '../../drizzle/client.ts'

/**
 * For the transaction that creates what `source` names (`zone:ns.name`, `pipeline:ns.layer.name`): triggers of pipelines that
 * are not its owner's stop hearing that name, disabled ones too. They hear it again when their configuration is given anew,
 * which takes the right to read what has the name then. A cron_dependency goes on waiting for what is gone.
 */
export async function forgetOthers(tx: Tx, source: string, owner: string): Promise<void> {
  // Locked in the order of the ids, as everybody locks triggers.
  await tx.execute(sql`
    with deaf as materialized (
      select t.id from trigger t
      join pipeline p on p.id = t.pipeline_id
      left join namespace n on n.name = p.namespace
      where (t.source = ${source} or t.id in (select trigger_id from trigger_dependency where source = ${source}))
        and coalesce(p.owner, n.owner) is distinct from ${owner}::text
      order by t.id for update of t),
    forgotten as (
      update trigger_dependency set source = ${GONE + source}
      where source = ${source} and trigger_id in (select id from deaf))
    update trigger set source = null where source = ${source} and id in (select id from deaf)`)
}

/** Before a dependency's source: no event and no pipeline has such a name. */
const GONE = 'gone:'
