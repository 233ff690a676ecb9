import type { Sql } from '../../drizzle/client.ts'
import { andSeenId, andTableSeen } from '../../drizzle/visibility.ts'
import { type TableName, tableKey } from '../../lake/pipeline/names.ts'
import type { Visible } from '../core/access.ts'
import type { Layer } from '../core/names.ts'
import type { Source } from '../pipelines/source-references.ts'

// The graph is asked for as marks: texts with a line for each thing, that names states which never change. A line that was
// there before needs no more; what an unknown one stands for is asked for by its id. See ADR 29.

/** Of one namespace or of all, as far as it is visible. */
export interface Scope {
  namespace: string | undefined
  visible: Visible
}

/** Texts of lines, in no order. */
export interface Marks {
  /** `<id> <type> <draft revision> <published version>` */
  pipelines: string
  /** Of pipelines that have runs, the latest one: `<id> <status> <number of results>`. In two texts: two connections find them. */
  runs: readonly string[]
  /** Of main: `<content id> <namespace>.<layer>.<name>` */
  tables: string
  /** `<namespace>.<name> <number of active files>` */
  zones: string
}

export async function marksOf(sql: Sql, scope: Scope): Promise<Marks> {
  const [[others], ...runs] = await Promise.all([
    otherMarks(sql, scope),
    latestRunMarks(sql, scope, 0),
    latestRunMarks(sql, scope, 1),
  ])
  return {
    pipelines: others?.pipelines ?? '',
    tables: others?.tables ?? '',
    zones: others?.zones ?? '',
    runs: runs.map(([row]) => row?.runs ?? ''),
  }
}

type Texts<Key extends string> = Record<Key, string | null>

/** In one statement: no name is seen twice while it is given to another pipeline. */
const otherMarks = (sql: Sql, { namespace, visible }: Scope) => sql<
  Texts<'pipelines' | 'tables' | 'zones'>[]
>`
  select
    (select string_agg(${pipelineMark(sql)}, chr(10)) from pipeline p
      where ${isSeen(sql, { namespace, visible })}) as pipelines,
    (select string_agg(entry.content_id || ' ' || entry.namespace || '.' || entry.layer || '.' || entry.name, chr(10))
      from main_entry entry
      where entry.to_commit is null ${namespace === undefined ? sql`` : sql`and entry.namespace = ${namespace}`}
        ${andTableSeen(sql, visible)}) as tables,
    (select string_agg(zone.namespace || '.' || zone.name || ' ' || (
        select count(*) from landing_file where zone_id = zone.id and archived_by_run is null), chr(10))
      from landing_zone zone
      where ${namespace === undefined ? sql`true` : sql`zone.namespace = ${namespace}`}
        ${andSeenId(sql, sql`zone.id`, visible.zones)}) as zones`

/** Each is a step in an index, however many runs there are. */
const latestRunMarks = (sql: Sql, scope: Scope, half: 0 | 1) => sql<Texts<'runs'>[]>`
  select string_agg(${runMark(sql)} || (select count(*) from quality_result where run_id = run.id), chr(10)) as runs
  from pipeline p
  cross join lateral (
    select id, status from run where pipeline_id = p.id order by created_at desc, id desc limit 1) run
  where ${isSeen(sql, scope)} and uuid_hash(p.id) & 1 = ${half}`

const pipelineMark = (sql: Sql) => sql`
  p.id || ' ' || p.type || ' ' || p.draft_revision || ' ' || coalesce(p.published_version, 0)`

const runMark = (sql: Sql) => sql`run.id || ' ' || run.status || ' '`

/** What a mark stands for; its own when it was asked, which may be another by then. */
export type Marked = { mark: string }

export type PipelineSource = Source & { layer: Layer }

export const pipelinesOf = (sql: Sql, ids: readonly string[]) => sql<(PipelineSource & Marked)[]>`
  select ${pipelineMark(sql)} as mark, p.id as "pipelineId", p.namespace, p.layer, p.name,
    coalesce(v.pipeline_type, p.type) as type, v.version_number as version, p.draft_revision as "draftRevision",
    v.published_versions ->> (p.namespace || '/pipelines/' || p.layer || '/' || p.name
      || case coalesce(v.pipeline_type, p.type) when 'python' then '/pipeline.py' else '/pipeline.sql' end) as pinned
  from pipeline p
  left join pipeline_version v on v.pipeline_id = p.id and v.version_number = p.published_version
  where p.id = any(${ids as string[]}::uuid[])`

/** A run with its results of quality tests: in all, and those of the three kinds. */
export interface Run {
  pipelineId: string
  id: string
  status: 'pending' | 'running' | 'success' | 'failed' | 'cancelled'
  startedAt: Date | null
  durationMs: string | null
  total: number
  passed: number
  failed: number
  warned: number
}

/**
 * Results are looked up run by run (`offset 0` keeps the planner from reading all of them) and summed up at once: an
 * aggregate for each run would take longer than the look-up.
 */
export const runsOf = (sql: Sql, ids: readonly string[]) => sql<(Run & Marked)[]>`
  with result as materialized (
    select wanted.id, count(*)::int as total, count(*) filter (where found.status = 'passed')::int as passed,
      count(*) filter (where found.status <> 'passed' and severity <> 'warn')::int as failed,
      count(*) filter (where found.status <> 'passed' and severity = 'warn')::int as warned
    from unnest(${ids as string[]}::uuid[]) as wanted (id)
    cross join lateral (select status, severity from quality_result where run_id = wanted.id offset 0) found
    group by wanted.id)
  select ${runMark(sql)} || coalesce(total, 0) as mark, run.pipeline_id as "pipelineId", run.id, run.status,
    run.started_at as "startedAt", run.duration_ms as "durationMs", coalesce(total, 0) as total,
    coalesce(passed, 0) as passed, coalesce(failed, 0) as failed, coalesce(warned, 0) as warned
  from run left join result on result.id = run.id
  where run.id = any(${ids as string[]}::uuid[])`

export interface Stats {
  rowCount: string
  sizeBytes: string
}

export const contentsOf = (sql: Sql, ids: readonly string[]) => sql<(Stats & { id: string })[]>`
  select id, row_count as "rowCount", size_bytes as "sizeBytes" from lake_content
  where id = any(${ids as string[]}::uuid[])`

/** Of these tables those that main has, by their keys. */
export async function tablesNamed(
  sql: Sql,
  names: readonly TableName[],
  visible: Visible,
): Promise<Map<string, Stats>> {
  const column = (key: keyof TableName) => names.map((name) => name[key])
  const rows = await sql<(TableName & Stats)[]>`
    select entry.namespace, entry.layer, entry.name, content.row_count as "rowCount", content.size_bytes as "sizeBytes"
    from main_entry entry join lake_content content on content.id = entry.content_id
    join unnest(${column('namespace')}::text[], ${column('layer')}::text[], ${column('name')}::text[])
      as wanted (namespace, layer, name)
      on entry.namespace = wanted.namespace and entry.layer = wanted.layer and entry.name = wanted.name
    where entry.to_commit is null ${andTableSeen(sql, visible)}`
  return new Map(rows.map((row) => [tableKey(row), row]))
}

const isSeen = (sql: Sql, { namespace, visible: { pipelines } }: Scope) => sql`
  p.deleted_at is null
  ${namespace === undefined ? sql`` : sql`and p.namespace = ${namespace}`}
  ${andSeenId(sql, sql`p.id`, pipelines)}`
