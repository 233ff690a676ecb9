import assert from 'node:assert'
import type { Sql } from '../../../drizzle/client.ts'
import type { Visible } from '../../core/access.ts'

/**
 * The owner of a run's pipeline, or else of its namespace, who is its administrator then; null: it is nobody's. And who has
 * handed it over without anybody having vouched since for the code that this run has fixed when it was requested.
 */
export async function ownersOfRun(
  sql: Sql,
  runId: string,
): Promise<{ pipelineId: string | null; owner: string | null; handedBy: readonly string[] }> {
  const [row] = await sql<{ pipelineId: string; owner: string | null; handedBy: string[] }[]>`
    select p.id as "pipelineId", coalesce(p.owner, n.owner) as owner,
      p.handed_by || case when coalesce(r.version_number, 0) < p.vouched_version then p.handed_before else '{}' end
        as "handedBy"
    from run r join pipeline p on p.id = r.pipeline_id left join namespace n on n.name = p.namespace
    where r.id = ${runId}`
  return row ?? { pipelineId: null, owner: null, handedBy: [] }
}

/**
 * What belongs to nobody, in namespaces of nobody: all that there was before anybody owned anything, and what an API key
 * has made. It is seen by code that belongs to nobody either.
 */
export async function unowned(sql: Sql): Promise<Visible> {
  const [row] = await sql<{ pipelines: string[]; zones: string[]; namespaces: string[] }[]>`
    with owned as materialized (select name from namespace where owner is not null)
    select
      array(select id from pipeline where owner is null and namespace not in (select name from owned))::text[] as pipelines,
      array(select id from landing_zone where owner is null and namespace not in (select name from owned))::text[] as zones,
      array(
        select name from namespace where owner is null
        union select namespace from main_entry where to_commit is null and namespace not in (select name from owned)
      ) as namespaces`
  assert(row !== undefined)
  return row
}
