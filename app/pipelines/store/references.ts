// Looks up names in pipeline code in the database.
import { sql } from 'drizzle-orm'
import type { Queryable } from '../../../drizzle/client.ts'
import { isVisibleId } from '../../../drizzle/visibility.ts'
import type { Visible } from '../../core/access.ts'
import type { PipelineRef } from '../../core/pipeline-ref.ts'

/** Names in literal calls: tables as `ns.layer.name`, zones as `ns.zone`. */
export interface Named {
  tables: string[]
  zones: string[]
}

/** The source that runs of a pipeline execute. */
export interface Source extends PipelineRef {
  pipelineId: string
  type: string
  /** The published version; null: never published, so the draft's source runs. */
  version: number | null
  /**
   * The object version of the source in the published version. Null: that version has no source file, or nothing was published.
   */
  pinned: string | null
  /** Revision of the draft. Every file write raises it after the write. */
  draftRevision: string
}

/**
 * Existing tables of the namespace with these names, as `ns.layer.name`. A table exists on main, or as a pipeline that will
 * write it.
 */
export async function tablesCalled(
  db: Queryable,
  { namespace }: PipelineRef,
  names: readonly string[],
  limit: number,
): Promise<string[]> {
  const rows = await db.execute<{ path: string }>(sql`
    select p.namespace || '.' || p.layer || '.' || p.name as path from pipeline p
    where p.deleted_at is null and p.namespace = ${namespace} and p.name = any(${textArray([...names])})
    union
    select e.namespace || '.' || e.layer || '.' || e.name from main_entry e
    where e.to_commit is null and e.namespace = ${namespace} and e.name = any(${textArray([...names])})
    order by path limit ${limit}`)
  return rows.map(({ path }) => path)
}

/** The names that exist: a table on main or of a pipeline, or a landing zone. */
export async function existing(db: Queryable, { tables, zones }: Named): Promise<Named> {
  const rows = await db.execute<{ kind: 'table' | 'zone'; path: string }>(sql`
    select 'table' as kind, path from unnest(${textArray(tables)}) as wanted(path)
    where exists (
        select 1 from pipeline p
        where p.deleted_at is null and p.namespace = split_part(path, '.', 1)
          and p.layer = split_part(path, '.', 2) and p.name = split_part(path, '.', 3))
      or exists (
        select 1 from main_entry e
        where e.to_commit is null and e.namespace = split_part(path, '.', 1)
          and e.layer = split_part(path, '.', 2) and e.name = split_part(path, '.', 3))
    union all
    select 'zone', path from unnest(${textArray(zones)}) as wanted(path)
    where exists (
      select 1 from landing_zone z
      where z.namespace = split_part(path, '.', 1) and z.name = split_part(path, '.', 2))`)
  const pathsOf = (kind: string) => rows.filter((row) => row.kind === kind).map(({ path }) => path)
  return { tables: pathsOf('table'), zones: pathsOf('zone') }
}

/** Sources of the pipelines in `visible` that write these tables (`ns.layer.name`). */
export const sourcesOf = async (db: Queryable, tables: readonly string[], visible?: Visible['pipelines']) =>
  db.execute<Source & { table: string } & Record<string, unknown>>(sql`
    select path as table, p.id as "pipelineId", p.namespace, p.layer, p.name,
      coalesce(v.pipeline_type, p.type) as type, v.version_number as version,
      p.draft_revision as "draftRevision",
      v.published_versions ->> (p.namespace || '/pipelines/' || p.layer || '/' || p.name
        || case coalesce(v.pipeline_type, p.type) when 'python' then '/pipeline.py' else '/pipeline.sql' end) as pinned
    from unnest(${sql.param([...tables])}::text[]) as wanted(path)
    join pipeline p on p.deleted_at is null and p.namespace = split_part(path, '.', 1)
      and p.layer = split_part(path, '.', 2) and p.name = split_part(path, '.', 3)
    left join pipeline_version v on v.pipeline_id = p.id and v.version_number = p.published_version
    where ${isVisibleId(sql`p.id`, visible) ?? sql`true`}`)

export const textArray = (texts: readonly string[]) => sql`${sql.param([...texts])}::text[]`
