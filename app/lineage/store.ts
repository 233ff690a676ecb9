import type { Sql } from '../../drizzle/client.ts'
import type { lakeContents, landingZones, runs } from '../../drizzle/schema/index.ts'
import { andSeenId, andTableSeen } from '../../drizzle/visibility.ts'
import type { TableName } from '../../lake/pipeline/names.ts'
import type { Visible } from '../core/access.ts'
import type { Layer } from '../core/names.ts'
import type { Source } from '../pipelines/source-references.ts'
import type { PipelineNode } from './schema.ts'

/** One namespace or all, as far as it is visible. */
export interface Scope {
  namespace: string | undefined
  visible: Visible
}

type RunRow = typeof runs.$inferSelect

/** A live pipeline with its source, its latest run (null: none) and the results of that run's tests. */
export interface LineagePipeline extends Source {
  layer: Layer
  runId: RunRow['id'] | null
  status: NonNullable<PipelineNode['latest_run']>['status'] | null
  startedAt: RunRow['startedAt']
  durationMs: RunRow['durationMs']
  total: number
  passed: number
  failed: number
  warned: number
}

/** In order of name. The latest run and its results are each one step in an index, however many runs there are. */
export const pipelinesOf = (sql: Sql, { namespace, visible }: Scope) => sql<LineagePipeline[]>`
  select p.id as "pipelineId", p.namespace, p.layer, p.name, p.draft_revision as "draftRevision",
    coalesce(v.pipeline_type, p.type) as type, v.version_number as version,
    v.published_versions ->> (p.namespace || '/pipelines/' || p.layer || '/' || p.name
      || case coalesce(v.pipeline_type, p.type) when 'python' then '/pipeline.py' else '/pipeline.sql' end) as pinned,
    run.id as "runId", run.status, run.started_at as "startedAt", run.duration_ms::float8 as "durationMs",
    result.total, result.passed, result.failed, result.warned
  from pipeline p
  left join pipeline_version v on v.pipeline_id = p.id and v.version_number = p.published_version
  left join lateral (
    select id, status, started_at, duration_ms from run
    where pipeline_id = p.id order by created_at desc, id desc limit 1) run on true
  cross join lateral (
    select count(*)::int as total,
      (count(*) filter (where q.status = 'passed'))::int as passed,
      (count(*) filter (where q.status <> 'passed' and severity <> 'warn'))::int as failed,
      (count(*) filter (where q.status <> 'passed' and severity = 'warn'))::int as warned
    from quality_result q where q.run_id = run.id) result
  where p.deleted_at is null ${namespace === undefined ? sql`` : sql`and p.namespace = ${namespace}`}
    ${andSeenId(sql, sql`p.id`, visible.pipelines)}
  order by p.namespace, p.layer, p.name`

export type LineageTable = TableName & Pick<typeof lakeContents.$inferSelect, 'rowCount' | 'sizeBytes'>

/** Tables of main, in order of name: those of the scope, and these of other namespaces. */
export function tablesOf(sql: Sql, { namespace, visible }: Scope, others: readonly TableName[]) {
  const column = (key: keyof TableName) => others.map((table) => table[key])
  const isWanted =
    namespace === undefined
      ? sql``
      : sql`and (entry.namespace = ${namespace} or (entry.namespace, entry.layer, entry.name) in (
          select * from unnest(${column('namespace')}::text[], ${column('layer')}::text[], ${column('name')}::text[])))`
  return sql<LineageTable[]>`
    select entry.namespace, entry.layer, entry.name, content.row_count::float8 as "rowCount",
      content.size_bytes::float8 as "sizeBytes"
    from main_entry entry join lake_content content on content.id = entry.content_id
    where entry.to_commit is null ${isWanted} ${andTableSeen(sql, visible)}
    order by entry.namespace, entry.layer, entry.name`
}

/** A zone with its number of active files. */
export type LineageZone = Pick<typeof landingZones.$inferSelect, 'namespace' | 'name'> & { files: number }

/** In order of name. */
export const zonesOf = (sql: Sql, { namespace, visible }: Scope) => sql<LineageZone[]>`
  select zone.namespace, zone.name,
    (select count(*) from landing_file where zone_id = zone.id and archived_by_run is null)::int as files
  from landing_zone zone
  where ${namespace === undefined ? sql`true` : sql`zone.namespace = ${namespace}`}
    ${andSeenId(sql, sql`zone.id`, visible.zones)}
  order by zone.namespace, zone.name`
