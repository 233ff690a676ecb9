import { alias } from 'drizzle-orm/pg-core'
import type { Sql } from '../../drizzle/client.ts'
import { latestOnMain } from '../../drizzle/main-runs.ts'
import { computed, nullable, pick, type RowOf, select } from '../../drizzle/rows.ts'
import { lakeContents, mainEntries } from '../../drizzle/schema/catalog.ts'
import { landingZones } from '../../drizzle/schema/landing.ts'
import { pipelines, pipelineVersions } from '../../drizzle/schema/pipeline.ts'
import { runs } from '../../drizzle/schema/run.ts'
import type { Part } from '../../drizzle/sql.ts'
import { andVisibleId, andVisibleTable } from '../../drizzle/visibility.ts'
import type { TableName } from '../../ground/names.ts'
import type { Visible } from '../core/access.ts'

/** The visible part of one namespace, or of all namespaces. */
interface Scope {
  namespace: string | undefined
  visible: Visible
}

const p = alias(pipelines, 'p')
const SOURCE = {
  pipelineId: p.id,
  ...pick(p, 'namespace', 'layer', 'name'),
  draftRevision: computed<string>('p.draft_revision'),
  type: computed<string>('coalesce(v.pipeline_type, p.type)'),
  version: nullable(alias(pipelineVersions, 'v').versionNumber),
  pinned: computed<string | null>(`
    v.published_versions ->> (p.namespace || '/pipelines/' || p.layer || '/' || p.name
      || case coalesce(v.pipeline_type, p.type) when 'python' then '/pipeline.py' else '/pipeline.sql' end)`),
}

/** A live pipeline with the source that its runs execute. */
export type LineageSource = RowOf<typeof SOURCE>

/** Ordered by name. */
export const sourcesOf = (sql: Sql, { namespace, visible }: Scope) => select(sql, SOURCE)`
  from pipeline p
  left join pipeline_version v on v.pipeline_id = p.id and v.version_number = p.published_version
  where p.deleted_at is null ${namespace === undefined ? sql`` : sql`and p.namespace = ${namespace}`}
    ${andVisibleId(sql, sql`p.id`, visible.pipelines)}
  order by p.namespace, p.layer, p.name`

const latest = alias(runs, 'run')
const LATEST_RUN = {
  pipelineId: p.id,
  ...pick(latest, 'id', 'status', 'startedAt', 'durationMs'),
  total: computed<number>('result.total'),
  passed: computed<number>('result.passed'),
  failed: computed<number>('result.failed'),
  warned: computed<number>('result.warned'),
}

/** The latest run of a pipeline on main, with its test results. */
export type LatestRun = RowOf<typeof LATEST_RUN>

/** A pipeline without a run has no row. Each run and its results take one index step, for any number of runs. */
export const latestRunsOf = (sql: Sql, pipelineIds: readonly string[]) => select(sql, LATEST_RUN)`
  from unnest(${pipelineIds}::uuid[]) p(id)
  cross join lateral (
    select id, status, started_at, duration_ms ${latestOnMain(sql, sql`p.id`)}) run
  cross join lateral (
    select count(*)::int as total,
      (count(*) filter (where q.status = 'passed'))::int as passed,
      (count(*) filter (where q.status <> 'passed' and severity <> 'warn'))::int as failed,
      (count(*) filter (where q.status <> 'passed' and severity = 'warn'))::int as warned
    from quality_result q where q.run_id = run.id) result`

const TABLE = {
  ...pick(alias(mainEntries, 'entry'), 'namespace', 'layer', 'name'),
  ...pick(alias(lakeContents, 'content'), 'rowCount', 'sizeBytes'),
}
export type LineageTable = RowOf<typeof TABLE>

/** Visible tables of main: those of a namespace (undefined: all, null: none), and the tables `others`. Ordered by name. */
export function tablesOf(
  sql: Sql,
  namespace: string | undefined | null,
  others: readonly TableName[],
  visible: Visible,
) {
  const column = (key: keyof TableName) => others.map((table) => table[key])
  const isWanted =
    namespace === undefined
      ? sql``
      : sql`and (entry.namespace = ${namespace} or (entry.namespace, entry.layer, entry.name) in (
          select * from unnest(${column('namespace')}::text[], ${column('layer')}::text[], ${column('name')}::text[])))`
  return select(sql, TABLE)`
    from main_entry entry join lake_content content on content.id = entry.content_id
    where entry.to_commit is null ${isWanted} ${andVisibleTable(sql, visible)}
    order by entry.namespace, entry.layer, entry.name`
}

export interface ZoneName {
  namespace: string
  name: string
}

/** A zone with its number of active files. */
export type LineageZone = RowOf<typeof ZONE>
const ZONE = {
  ...pick(alias(landingZones, 'zone'), 'namespace', 'name'),
  files: computed<number>(
    '(select count(*) from landing_file where zone_id = zone.id and archived_by_run is null and quarantined_at is null)::int',
  ),
}

/** The zones of a scope. Ordered by name. */
export const zonesOf = (sql: Sql, { namespace, visible }: Scope) =>
  zonesWhere(sql, namespace === undefined ? sql`true` : sql`zone.namespace = ${namespace}`, visible)

/** The zones with some of these names. Ordered by name. */
export function zonesNamed(sql: Sql, names: readonly ZoneName[], visible: Visible) {
  const column = (key: keyof ZoneName) => names.map((zone) => zone[key])
  const isNamed = sql`(zone.namespace, zone.name) in (
    select * from unnest(${column('namespace')}::text[], ${column('name')}::text[]))`
  return zonesWhere(sql, isNamed, visible)
}

const zonesWhere = (sql: Sql, isWanted: Part, visible: Visible) => select(sql, ZONE)`
  from landing_zone zone where ${isWanted} ${andVisibleId(sql, sql`zone.id`, visible.zones)}
  order by zone.namespace, zone.name`
