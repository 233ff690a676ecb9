import { alias } from 'drizzle-orm/pg-core'
import type { Sql } from '../../../drizzle/client.ts'
import { computed, only, select } from '../../../drizzle/rows.ts'
import { pipelines } from '../../../drizzle/schema/pipeline.ts'
import type { Visible } from '../../core/access.ts'

const BEHIND = {
  pipelineId: alias(pipelines, 'p').id,
  owner: computed<string | null>('coalesce(p.owner, n.owner)'),
  handedBy: computed<string[]>(
    "p.handed_by || case when coalesce(r.version_number, 0) < p.vouched_version then p.handed_before else '{}' end",
  ),
}

/**
 * `owner` is the owner of a run's pipeline, or the owner of its namespace when the pipeline has no owner. Null: neither has an
 * owner. `handedBy` are earlier owners of the pipeline, if no later owner has approved the code version that the run executes.
 */
export async function ownersOfRun(
  sql: Sql,
  runId: string,
): Promise<{ pipelineId: string | null; owner: string | null; handedBy: readonly string[] }> {
  const [row] = await select(sql, BEHIND)`
    from run r join pipeline p on p.id = r.pipeline_id left join namespace n on n.name = p.namespace
    where r.id = ${runId}`
  return row ?? { pipelineId: null, owner: null, handedBy: [] }
}

/**
 * Resources without an owner in namespaces without an owner. They were created before the first owner existed or with an API
 * key. Code of a pipeline without an owner sees them.
 */
export async function unowned(sql: Sql): Promise<Visible> {
  const owned = sql`with owned as materialized (select name from namespace where owner is not null)`
  return only(await select(sql, UNOWNED, owned)``)
}

const UNOWNED = {
  pipelines: computed<string[]>(`array(
    select id from pipeline where owner is null and namespace not in (select name from owned))::text[]`),
  zones: computed<string[]>(`array(
    select id from landing_zone where owner is null and namespace not in (select name from owned))::text[]`),
  namespaces: computed<string[]>(`array(
    select name from namespace where owner is null
    union select namespace from main_entry where to_commit is null and namespace not in (select name from owned))`),
}
