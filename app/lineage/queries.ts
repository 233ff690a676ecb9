import type { Sql } from '../../drizzle/client.ts'
import type { TableName } from '../../lake/pipeline/names.ts'
import type { Visible } from '../access/ports.ts'
import { andSeenId, andTableSeen } from '../access/sight.ts'
import type { Layer } from '../http/names.ts'
import type { Source } from '../pipelines/source-references.ts'

/** Of one namespace or of all, as far as it is visible. */
export interface Scope {
  namespace: string | undefined
  visible: Visible
}

export type PipelineSource = Source & { layer: Layer }

export const sourcesOf = (sql: Sql, scope: Scope): Promise<PipelineSource[]> => sql<PipelineSource[]>`
  select p.id as "pipelineId", p.namespace, p.layer, p.name, coalesce(v.pipeline_type, p.type) as type,
    v.version_number as version, p.draft_revision as "draftRevision",
    v.published_versions ->> (p.namespace || '/pipelines/' || p.layer || '/' || p.name
      || case coalesce(v.pipeline_type, p.type) when 'python' then '/pipeline.py' else '/pipeline.sql' end) as pinned
  from pipeline p
  left join pipeline_version v on v.pipeline_id = p.id and v.version_number = p.published_version
  where ${isSeen(sql, scope)}
  order by p.namespace collate "C", p.layer collate "C", p.name collate "C"`

export interface LatestRun {
  pipelineId: string
  id: string
  status: 'pending' | 'running' | 'success' | 'failed' | 'cancelled'
  startedAt: Date | null
  durationMs: string | null
}

/** The latest run of each pipeline that has one: each is one step in an index, however many runs there are. */
export const latestRunsOf = (sql: Sql, scope: Scope): Promise<LatestRun[]> => sql<LatestRun[]>`
  select p.id as "pipelineId", latest.id, latest.status, latest.started_at as "startedAt",
    latest.duration_ms as "durationMs"
  from pipeline p
  cross join lateral (
    select id, status, started_at, duration_ms from run
    where pipeline_id = p.id order by created_at desc, id desc limit 1) latest
  where ${isSeen(sql, scope)}`

/** Results of quality tests in all, and those of the three kinds. */
export interface Quality {
  runId: string
  total: number
  passed: number
  failed: number
  warned: number
}

/**
 * Of the latest runs, those that have results. They are looked up run by run (`offset 0` keeps the planner from reading
 * all results) and summed up at once: an aggregate for each run would take longer than the look-up.
 */
export const qualityOf = (sql: Sql, scope: Scope): Promise<Quality[]> => sql<Quality[]>`
  select latest.id as "runId", count(*)::int as total, count(*) filter (where result.status = 'passed')::int as passed,
    count(*) filter (where result.status <> 'passed' and severity <> 'warn')::int as failed,
    count(*) filter (where result.status <> 'passed' and severity = 'warn')::int as warned
  from pipeline p
  cross join lateral (
    select id from run where pipeline_id = p.id order by created_at desc, id desc limit 1) latest
  cross join lateral (select status, severity from quality_result where run_id = latest.id offset 0) result
  where ${isSeen(sql, scope)}
  group by latest.id`

export type Table = TableName & { rowCount: string; sizeBytes: string }

/** Tables of main. */
export const tablesOf = (sql: Sql, { namespace, visible }: Scope): Promise<Table[]> => sql<Table[]>`
  ${selectTables(sql)}
  where entry.to_commit is null ${namespace === undefined ? sql`` : sql`and entry.namespace = ${namespace}`}
    ${andTableSeen(sql, visible)}
  order by entry.namespace collate "C", entry.layer collate "C", entry.name collate "C"`

/** Those of these tables that main has. */
export const tablesNamed = (sql: Sql, names: readonly TableName[], visible: Visible): Promise<Table[]> => {
  const column = (key: keyof TableName) => names.map((name) => name[key])
  return sql<Table[]>`
    ${selectTables(sql)}
    join unnest(${column('namespace')}::text[], ${column('layer')}::text[], ${column('name')}::text[])
      as wanted (namespace, layer, name)
      on entry.namespace = wanted.namespace and entry.layer = wanted.layer and entry.name = wanted.name
    where entry.to_commit is null ${andTableSeen(sql, visible)}`
}

export interface Zone {
  namespace: string
  name: string
  fileCount: number
}

/** Landing zones with the number of their active files. */
export const zonesOf = (sql: Sql, { namespace, visible: { zones } }: Scope): Promise<Zone[]> => sql<Zone[]>`
  select zone.namespace, zone.name, active.count as "fileCount"
  from landing_zone zone cross join lateral (
    select count(*)::int from landing_file where zone_id = zone.id and archived_by_run is null) active
  where ${namespace === undefined ? sql`true` : sql`zone.namespace = ${namespace}`}
    ${andSeenId(sql, sql`zone.id`, zones)}
  order by zone.namespace, zone.name`

const isSeen = (sql: Sql, { namespace, visible: { pipelines } }: Scope) => sql`
  p.deleted_at is null
  ${namespace === undefined ? sql`` : sql`and p.namespace = ${namespace}`}
  ${andSeenId(sql, sql`p.id`, pipelines)}`

const selectTables = (sql: Sql) => sql`
  select entry.namespace, entry.layer, entry.name, content.row_count as "rowCount", content.size_bytes as "sizeBytes"
  from main_entry entry join lake_content content on content.id = entry.content_id`
