// What is stored of runs, drafts and triggers, as the inspector asks for it. It only reads.

import type { Sql } from '../../drizzle/client.ts'
import { latestSuccess } from '../../drizzle/latest-success.ts'
import type { Part } from '../../drizzle/sql.ts'
import { andSeenId } from '../../drizzle/visibility.ts'
import type { Stored } from '../../machines/advance.ts'
import type { Visible } from '../core/access.ts'
import type { Page } from '../core/pagination.ts'
import type { MachineName } from './definitions.ts'
import { STEPS_MAX } from './schema.ts'

/** Inspector: instances of one state that are counted, beyond which it says that there are more. */
export const COUNT_MAX = 10_000
/** Rows that are looked at where no index counts: live runs, drafts, triggers. */
export const COUNT_SCAN = 100_000
/** Pipelines whose names match what is searched for. */
const PIPELINES_MAX = 2_000
/** Dependencies that a trigger is said to wait for. */
const REASONS_MAX = 20

export interface InstanceFilter {
  namespace?: string
  layer?: string
  pipeline?: string
  q?: string
  /** Whose instances the caller sees; left out, everybody's. */
  seen?: readonly string[]
}

/** The filter's part of what a caller sees. */
export const seenOf = ({ pipelines }: Visible): { seen?: readonly string[] } =>
  pipelines === 'all' ? {} : { seen: pipelines }

/** One of the columns of a listed instance that all machines have. */
export interface ListedRow {
  id: string
  state: string
  live: boolean
  namespace: string
  layer: string
  pipeline: string
  note: string
  attempt: number | null
  created_at: Date
  moved_at: Date | null
  duration_ms: string | null
}

export interface CountedState {
  state: string
  count: number
  /** There may be more: counting stopped at its limit. */
  cut: boolean
}

/** Part of a statement. It must not be awaited: that would perform it. */

/** Leaf states only: a list filtered by a compound state names those in it. */
export const listInstances = (
  sql: Sql,
  machine: MachineName,
  filter: InstanceFilter,
  states: readonly string[] | null,
  page: Page,
): Promise<ListedRow[]> => {
  if (machine === 'run') return listRuns(sql, filter, states, page)
  return machine === 'draft' ? listDrafts(sql, filter, states, page) : listTriggers(sql, filter, states, page)
}

export const countStates = (
  sql: Sql,
  machine: MachineName,
  filter: InstanceFilter,
): Promise<CountedState[]> => {
  if (machine === 'run') return countRuns(sql, filter)
  return machine === 'draft' ? countDrafts(sql, filter) : countTriggers(sql, filter)
}

// Runs: up to millions, nearly all of them ended. What is live has an index of its own.

const RUN_ENDED = ['success', 'failed', 'cancelled']

const runState = (sql: Sql) => sql`
  case when r.status = 'pending' then case when r.waiting then 'pending.waiting' else 'pending.starting' end
    when r.status = 'running' then 'running.' || r.phase
    else r.status end`

/** Each state as columns say it, so that their indexes serve. */
function inRunStates(sql: Sql, states: readonly string[]): Part {
  const ended = states.filter((state) => RUN_ENDED.includes(state))
  const live = states.filter((state) => !RUN_ENDED.includes(state))
  const [only] = ended
  const isEnded =
    ended.length === 1
      ? sql`r.status = ${only ?? ''}`
      : sql`r.status in ${sql(ended.length > 0 ? ended : [''])}`
  if (live.length === 0) return isEnded
  const isLive = sql`(r.status in ('pending', 'running') and ${runState(sql)} in ${sql(live)})`
  return ended.length === 0 ? isLive : sql`(${isLive} or ${isEnded})`
}

async function listRuns(
  sql: Sql,
  filter: InstanceFilter,
  states: readonly string[] | null,
  page: Page,
): Promise<ListedRow[]> {
  const where = await runFilter(sql, filter)
  const select = (condition: Part, { limit, offset }: Page) => sql<ListedRow[]>`
    select r.id, ${runState(sql)} as state, r.status in ('pending', 'running') as live, r.namespace, r.layer, r.pipeline,
      r.trigger as note, r.attempt, r.created_at, moved.at as moved_at, r.duration_ms
    from (select * from run r where ${condition} ${where()} order by r.created_at desc, r.id desc
      limit ${limit} offset ${offset}) r
    ${latestMove(sql, 'run', sql`r.id`)}
    order by r.created_at desc, r.id desc`
  if (states !== null) return select(inRunStates(sql, states), page)
  // What is live comes first, however old: two ranges, each in the order of an index.
  const isLive = () => sql`r.status in ('pending', 'running')`
  const live = await select(isLive(), page)
  if (live.length === page.limit) return live
  const [counted] = await sql<
    { live: number }[]
  >`select count(*)::int as live from run r where ${isLive()} ${where()}`
  const before = counted?.live ?? 0
  const rest = {
    limit: page.limit - live.length,
    offset: Math.max(0, page.offset - before),
  }
  return [...live, ...(await select(sql`r.status not in ('pending', 'running')`, rest))]
}

/**
 * Live ones are counted exactly. Those that have ended are counted up to a limit: in each state, or, where only some
 * pipelines are asked for, among the newest of all of theirs, since no index leads to a state of some pipelines.
 */
async function countRuns(sql: Sql, filter: InstanceFilter): Promise<CountedState[]> {
  const where = await runFilter(sql, filter)
  const most = COUNT_MAX + 1
  const of = (status: string) => sql`
    select ${status}::text as state, (select count(*) from (
      select 1 from run r where r.status = ${status} limit ${most}) counted)::int as count, false as cut`
  const ended = isUnfiltered(filter)
    ? sql`${of('success')} union all ${of('failed')} union all ${of('cancelled')}`
    : sql`
      select status, count(*)::int, (sum(count(*)) over ()) >= ${most} from (
        select r.status from run r where r.status not in ('pending', 'running') ${where()}
        order by r.created_at desc, r.id desc limit ${most}) newest group by status`
  return sql<CountedState[]>`
    select state, count(*)::int as count, false as cut from (
      select ${runState(sql)} as state from run r where r.status in ('pending', 'running') ${where()}
      limit ${COUNT_SCAN}) live group by state
    union all (${ended})`
}

const isUnfiltered = (filter: InstanceFilter) => Object.values(filter).every((value) => value === undefined)

/** Pipelines are found by name first: runs have an index by pipeline and none by namespace. */
async function runFilter(sql: Sql, { q, ...names }: InstanceFilter): Promise<() => Part> {
  const range = q === undefined ? null : idRange(q)
  if (isUnfiltered({ q, ...names })) return () => sql``
  const isNamed = !isUnfiltered(names)
  const text = q === undefined ? {} : { q }
  const pipelines = await pipelinesLike(sql, { ...names, ...text })
  const ofPipelines = () => sql`r.pipeline_id = any(${pipelines}::uuid[])`
  if (range === null) return () => sql`and ${ofPipelines()}`
  const byId = () => sql`r.id between ${range.first} and ${range.last}`
  if (!isNamed) return () => sql`and (${ofPipelines()} or ${byId()})`
  const named = await pipelinesLike(sql, names)
  return () => sql`and (${ofPipelines()} or (${byId()} and r.pipeline_id = any(${named}::uuid[])))`
}

async function pipelinesLike(sql: Sql, filter: InstanceFilter): Promise<string[]> {
  const { seen, ...asked } = filter
  if (seen !== undefined && isUnfiltered(asked)) return [...seen]
  const rows = await sql<{ id: string }[]>`
    select p.id from pipeline p where true ${namedLike(sql, filter)} limit ${PIPELINES_MAX}`
  return rows.map(({ id }) => id)
}

/** Conditions on a pipeline `p`. */
const namedLike = (sql: Sql, { namespace, layer, pipeline, q, seen }: InstanceFilter): Part => sql`
  ${namespace === undefined ? sql`` : sql`and p.namespace = ${namespace}`}
  ${layer === undefined ? sql`` : sql`and p.layer = ${layer}`}
  ${pipeline === undefined ? sql`` : sql`and p.name = ${pipeline}`}
  ${andSeenId(sql, sql`p.id`, seen ?? 'all')}
  ${q === undefined ? sql`` : sql`and ${like(sql, q)}`}`

const like = (sql: Sql, q: string) =>
  sql`p.namespace || '.' || p.layer || '.' || p.name like ${`%${q.toLowerCase().replace(/[\\%_]/g, '\\$&')}%`}`

/** Ids that begin with a text; null: none do. */
function idRange(text: string): { first: string; last: string } | null {
  const digits = text.toLowerCase().replaceAll('-', '')
  if (!/^[0-9a-f]{4,32}$/.test(digits)) return null
  const uuid = (filled: string) => filled.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
  return { first: uuid(digits.padEnd(32, '0')), last: uuid(digits.padEnd(32, 'f')) }
}

/** Drafts and triggers: conditions on their pipeline `p`, or the beginning of their own id. */
function ownFilter(sql: Sql, id: Part, filter: InstanceFilter): Part {
  const range = filter.q === undefined ? null : idRange(filter.q)
  if (filter.q === undefined || range === null) return namedLike(sql, filter)
  const { q, ...names } = filter
  return sql`${namedLike(sql, names)} and (${like(sql, q ?? '')} or ${id} between ${range.first} and ${range.last})`
}

const latestMove = (sql: Sql, machine: MachineName, id: Part) => sql`
  left join lateral (select m.at from transition m where m.machine = ${machine} and m.entity_id = ${id}
    order by m.id desc limit 1) moved on true`

// Drafts: one for each pipeline.

const draftState = (sql: Sql) => sql`p.draft_snapshot->>'value'`

const listDrafts = (
  sql: Sql,
  filter: InstanceFilter,
  states: readonly string[] | null,
  { limit, offset }: Page,
) => sql<ListedRow[]>`
  select p.id, ${draftState(sql)} as state, p.deleted_at is null as live, p.namespace, p.layer, p.name as pipeline,
    coalesce('version ' || p.published_version, 'never published') as note, null as attempt, p.created_at,
    moved.at as moved_at, null as duration_ms
  from (select * from pipeline p where true ${ownFilter(sql, sql`p.id`, filter)}
    ${states === null ? sql`` : sql`and ${draftState(sql)} in ${sql([...states])}`}
    order by p.deleted_at is not null, p.created_at desc, p.id desc limit ${limit} offset ${offset}) p
  ${latestMove(sql, 'draft', sql`p.id`)}
  order by p.deleted_at is not null, p.created_at desc, p.id desc`

const countDrafts = (sql: Sql, filter: InstanceFilter) => sql<CountedState[]>`
  select state, count(*)::int as count, false as cut from (
    select ${draftState(sql)} as state from pipeline p where true ${ownFilter(sql, sql`p.id`, filter)}
    limit ${COUNT_SCAN}) counted group by state`

// Triggers.

const listTriggers = (
  sql: Sql,
  filter: InstanceFilter,
  states: readonly string[] | null,
  { limit, offset }: Page,
) => sql<ListedRow[]>`
  select t.*, moved.at as moved_at from (
    select t.id, t.state, true as live, p.namespace, p.layer, p.name as pipeline, t.type as note, null as attempt,
      t.created_at, null as duration_ms
    from trigger t join pipeline p on p.id = t.pipeline_id where true ${ownFilter(sql, sql`t.id`, filter)}
    ${states === null ? sql`` : sql`and t.state in ${sql([...states])}`}
    order by t.created_at desc, t.id desc limit ${limit} offset ${offset}) t
  ${latestMove(sql, 'trigger', sql`t.id`)}
  order by t.created_at desc, t.id desc`

const countTriggers = (sql: Sql, filter: InstanceFilter) => sql<CountedState[]>`
  select state, count(*)::int as count, false as cut from (
    select t.state from trigger t join pipeline p on p.id = t.pipeline_id
    where true ${ownFilter(sql, sql`t.id`, filter)} limit ${COUNT_SCAN}) counted group by state`

// One instance.

/** What all machines store of an instance, with `facts` of its own kind, which are shown as they are. */
export interface InstanceRow {
  id: string
  namespace: string
  layer: string
  pipeline: string
  pipeline_id: string
  pipeline_deleted: boolean
  note: string
  created_at: Date
  snapshot: Stored
  machine_version: number
  facts: Record<string, unknown>
  now: Date
}

export async function findInstance(sql: Sql, machine: MachineName, id: string): Promise<InstanceRow | null> {
  const [row] = await INSTANCE[machine](sql, id)
  return row ?? null
}

const INSTANCE: Record<MachineName, (sql: Sql, id: string) => Promise<InstanceRow[]>> = {
  run: (sql, id) => sql<InstanceRow[]>`
    select r.id, r.namespace, r.layer, r.pipeline, r.pipeline_id, p.deleted_at is not null as pipeline_deleted,
      r.trigger as note, r.created_at, r.snapshot, r.machine_version, clock_timestamp() as now,
      jsonb_build_object('trigger', r.trigger, 'version_number', r.version_number, 'attempt', r.attempt,
        'started_at', ${iso(sql, sql`r.started_at`)}, 'finished_at', ${iso(sql, sql`r.finished_at`)},
        'duration_ms', r.duration_ms, 'rows_written', r.rows_written, 'error', r.error, 'base_commit', r.base_commit,
        'merged_commit', r.merged_commit, 'chain_depth', r.chain_depth, 'trigger_id', r.trigger_id,
        'schedule_id', r.schedule_id) as facts
    from run r join pipeline p on p.id = r.pipeline_id where r.id = ${id}`,
  draft: (sql, id) => sql<InstanceRow[]>`
    select p.id, p.namespace, p.layer, p.name as pipeline, p.id as pipeline_id,
      p.deleted_at is not null as pipeline_deleted,
      coalesce('version ' || p.published_version, 'never published') as note, p.created_at,
      p.draft_snapshot as snapshot, p.draft_machine_version as machine_version, clock_timestamp() as now,
      jsonb_build_object('type', p.type, 'draft_revision', p.draft_revision,
        'published_version', p.published_version, 'published_at', ${iso(sql, sql`p.published_at`)},
        'deleted_at', ${iso(sql, sql`p.deleted_at`)}) as facts
    from pipeline p where p.id = ${id}`,
  // The hash of a webhook's token is of no use to a reader.
  trigger: (sql, id) => sql<InstanceRow[]>`
    select t.id, p.namespace, p.layer, p.name as pipeline, p.id as pipeline_id,
      p.deleted_at is not null as pipeline_deleted, t.type as note, t.created_at, t.snapshot, t.machine_version,
      clock_timestamp() as now,
      jsonb_build_object('type', t.type, 'config', t.config - 'token_hash', 'cooldown_seconds', t.cooldown_seconds,
        'cooling_until', ${iso(sql, sql`t.cooling_until`)},
        'due_at', case when t.state <> 'disabled' then ${iso(sql, sql`t.due_at`)} end,
        'source', t.source, 'last_triggered_at', ${iso(sql, sql`t.last_triggered_at`)},
        'last_run_id', t.last_run_id, 'published_version', p.published_version) as facts
    from trigger t join pipeline p on p.id = t.pipeline_id where t.id = ${id}`,
}

/** As every time of the API is written; JSON made by Postgres has its own way. */
const iso = (sql: Sql, column: Part) =>
  sql`to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`

/** What may hold up a run that has not ended. */
export interface Holdups {
  notBefore: Date | null
  now: Date
  /** Runs of the same pipeline that come first. */
  ahead: number
  firstAhead: string | null
  running: string | null
  /** Pipelines' runs that have waited longer, up to a limit. */
  aheadElsewhere: number
  isFollowed: boolean
  dispatchers: number
  runnerUrl: string | null
  lastLineAt: Date | null
}

export async function holdupsOf(sql: Sql, runId: string): Promise<Holdups | null> {
  const [row] = await sql<Holdups[]>`
    with own as (select id, pipeline_id, created_at, not_before, follower from run where id = ${runId}),
    ahead as (
      select r.id from own join run r on r.pipeline_id = own.pipeline_id and r.waiting
        and (r.created_at, r.id) < (own.created_at, own.id)
      order by r.created_at, r.id limit ${COUNT_MAX})
    select own.not_before as "notBefore", clock_timestamp() as now, (select count(*)::int from ahead) as ahead,
      (select id from ahead limit 1) as "firstAhead",
      (select r.id from run r where r.pipeline_id = own.pipeline_id and r.status = 'running' and r.id <> own.id) as running,
      (select count(*)::int from (select 1 from run r where r.waiting and r.pipeline_id <> own.pipeline_id
        and r.created_at < own.created_at limit ${COUNT_MAX}) waiting) as "aheadElsewhere",
      exists (select 1 from replica p where p.name = own.follower and p.alive_until > clock_timestamp()) as "isFollowed",
      (select count(*)::int from replica p where p.alive_until > clock_timestamp()) as dispatchers,
      (select a.runner_url from run_attempt a where a.run_id = own.id and a.state = 'open') as "runnerUrl",
      (select l.at from run_log l where l.run_id = own.id order by l.seq desc limit 1) as "lastLineAt"
    from own`
  return row ?? null
}

/** Dependencies of a cron_dependency trigger whose latest success it has used already, or that have none. */
export const staleDependencies = (sql: Sql, triggerId: string) => sql<{ source: string }[]>`
  select d.source from trigger_dependency d ${latestSuccess(sql)}
  where d.trigger_id = ${triggerId} and (latest.id is null or latest.id = d.used_run)
  order by d.source limit ${REASONS_MAX}`

// History.

export interface StepRow {
  id: string
  at: Date
  event: string
  from: string
  to: string
  effects: string[]
  cause: string
}

/** The newest steps before one, oldest first; and how many there are in all, and before these. */
export async function stepsBefore(
  sql: Sql,
  of: { machine: MachineName; id: string },
  { before, limit }: { before: number | null; limit: number },
): Promise<{
  rows: StepRow[]
  nextAt: Date | null
  total: number
  earlier: number
  firstFrom: string | null
}> {
  const own = sql`t.machine = ${of.machine} and t.entity_id = ${of.id}`
  const [rows, [next]] = await Promise.all([
    sql<StepRow[]>`
      select * from (
        select t.id, t.at, t.event, t."from", t."to", t.effects, t.cause from transition t
        where ${own} ${before === null ? sql`` : sql`and t.id < ${before}`} order by t.id desc limit ${limit}) newest
      order by id`,
    before === null
      ? []
      : sql<
          { at: Date }[]
        >`select t.at from transition t where ${own} and t.id >= ${before} order by t.id limit 1`,
  ])
  const [counted] = await sql<{ total: number; earlier: number; firstFrom: string | null }[]>`
    select count(*)::int as total, (count(*) filter (where t.id < ${rows[0]?.id ?? 0}))::int as earlier,
      (select t."from" from transition t where ${own} order by t.id limit 1) as "firstFrom"
    from transition t where ${own}`
  return { rows, nextAt: next?.at ?? null, ...(counted ?? { total: 0, earlier: 0, firstFrom: null }) }
}

/** Steps after one, oldest first, and how many there are before these. */
export async function stepsAfter(
  sql: Sql,
  of: { machine: MachineName; id: string },
  after: number,
): Promise<{ rows: StepRow[]; earlier: number; firstFrom: string | null }> {
  const own = sql`t.machine = ${of.machine} and t.entity_id = ${of.id}`
  const rows = await sql<StepRow[]>`
    select t.id, t.at, t.event, t."from", t."to", t.effects, t.cause from transition t
    where ${own} and t.id > ${after} order by t.id limit ${STEPS_MAX}`
  if (rows.length === 0) return { rows, earlier: 0, firstFrom: null }
  const [counted] = await sql<{ earlier: number; firstFrom: string | null }[]>`
    select count(*)::int as earlier,
      (select t."from" from transition t where ${own} order by t.id limit 1) as "firstFrom"
    from transition t where ${own} and t.id < ${rows[0]?.id ?? 0}`
  return { rows, ...(counted ?? { earlier: 0, firstFrom: null }) }
}

/** The latest step of each of some instances of a machine. */
export async function latestSteps(
  sql: Sql,
  machine: MachineName,
  ids: readonly string[],
): Promise<Map<string, number>> {
  const rows = await sql<{ id: string; latest: string }[]>`
    select wanted.id, latest.id as latest from unnest(${[...ids]}::uuid[]) as wanted(id)
    cross join lateral (select t.id from transition t where t.machine = ${machine} and t.entity_id = wanted.id
      order by t.id desc limit 1) latest`
  return new Map(rows.map(({ id, latest }) => [id, Number(latest)]))
}

/** The newest step of all, and which machines have moved since one. */
export async function movedSince(
  sql: Sql,
  last: number | null,
): Promise<{ last: number; machines: MachineName[] }> {
  const [row] = await sql<{ last: string; machines: MachineName[] | null }[]>`
    select coalesce((select max(id) from transition), 0) as last,
      (select array_agg(distinct machine) from (
        select machine from transition where id > ${last ?? 0} and ${last !== null} order by id desc
        limit ${COUNT_MAX}) moved) as machines`
  return { last: Number(row?.last ?? 0), machines: row?.machines ?? [] }
}
