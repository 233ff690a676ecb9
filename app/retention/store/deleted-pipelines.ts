import { alias } from 'drizzle-orm/pg-core'
import type { Sql, SqlTx } from '../../../drizzle/client.ts'
import { computed, pick, type RowOf, select } from '../../../drizzle/rows.ts'
import { pipelines } from '../../../drizzle/schema/pipeline.ts'

const DELETED = {
  ...pick(alias(pipelines, 'p'), 'id', 'namespace', 'layer', 'name'),
  deletedAt: computed<Date>('p.deleted_at'),
}
export type DeletedPipeline = RowOf<typeof DELETED>

/**
 * A page of pipelines that were deleted before `before`, oldest deletion first. Leaves out pipelines with an active run, or
 * whose files are still being removed.
 */
export const deletedPipelines = (
  sql: Sql,
  { before, after, limit }: { before: Date; after: Pick<DeletedPipeline, 'deletedAt' | 'id'>; limit: number },
) => select(sql, DELETED)`
  from pipeline p
  where p.deleted_at < ${before} and (p.deleted_at, p.id) > (${after.deletedAt}, ${after.id})
    and not exists (select from run r where r.pipeline_id = p.id and r.status in ('pending', 'running'))
    and not exists (
      select from outbox o where o.kind = 'pipelineDeleted' and o.payload ->> 'pipeline_id' = p.id::text)
  order by p.deleted_at, p.id limit ${limit}`

/** Deletes at most `limit` history rows of a pipeline's draft and triggers; returns their number. */
export async function deleteHistoryOf(tx: SqlTx, id: string, limit: number): Promise<number> {
  const { count } = await tx`
    delete from transition where ctid = any(array(
      select t.ctid from transition t where (t.machine = 'draft' and t.entity_id = ${id})
        or (t.machine = 'trigger' and t.entity_id in (select id from trigger where pipeline_id = ${id}))
      limit ${limit}))`
  return count
}

/**
 * Deletes the pipeline's row, and with it versions, triggers, schedules and overrides. Returns 0 if a run remains because its
 * row was locked; the next tick tries again.
 */
export async function deleteRecordOf(tx: SqlTx, id: string): Promise<number> {
  const { count } = await tx`
    delete from pipeline p where p.id = ${id} and not exists (select from run r where r.pipeline_id = p.id)`
  return count
}

/** Other pipelines of the same name, live or deleted, and the object versions that they or their runs have pinned. */
export async function othersOfName(sql: Sql, { id, namespace, layer, name }: DeletedPipeline) {
  const others = await select(sql, { id: pipelines.id, isLive: computed<boolean>('deleted_at is null') })`
    from pipeline
    where namespace = ${namespace} and layer = ${layer} and name = ${name} and id <> ${id}`
  const ids = others.map((other) => other.id)
  const pins = await sql<{ key: string; versionId: string }[]>`
    select distinct pin.key, pin.value as "versionId" from (
      select published_versions as pins from pipeline_version where pipeline_id = any(${ids}::uuid[])
      union all
      select pins from run where pipeline_id = any(${ids}::uuid[])) pinned, jsonb_each_text(pinned.pins) pin`
  return { others, pins }
}
