// Runs: up to millions, nearly all of them ended. Live runs have an index of their own.
import { alias } from 'drizzle-orm/pg-core'
import { COUNT, computed, only, pick, type RowOf, select } from '../../../drizzle/rows.ts'
import { runs } from '../../../drizzle/schema/run.ts'
import type { Part, Sql } from '../../../drizzle/sql.ts'
import type { Page } from '../../core/pagination.ts'
import {
  COUNT_MAX,
  type CountedState,
  countedStates,
  FOUND,
  type InstanceFilter,
  type InstanceStore,
  idRange,
  latestMove,
  MOVED_AT,
  pipelineLike,
} from './instance.ts'

/** Maximum number of pipelines that match a search. */
const PIPELINES_MAX = 2_000

const ENDED = ['success', 'failed', 'cancelled']

const r = alias(runs, 'r')
const LISTED = { ...pick(r, 'id', 'namespace', 'layer', 'pipeline', 'createdAt'), note: r.trigger }
const INSTANCE = {
  machine: computed<'run'>("'run'"),
  ...FOUND,
  ...LISTED,
  ...pick(r, 'pipelineId', 'snapshot', 'machineVersion', 'trigger', 'versionNumber', 'attempt', 'startedAt'),
  ...pick(r, 'finishedAt', 'durationMs', 'rowsWritten', 'error', 'baseCommit', 'mergedCommit', 'chainDepth'),
  ...pick(r, 'triggerId', 'scheduleId'),
}

export const runInstances: InstanceStore<RowOf<typeof INSTANCE>> = {
  async list(sql, filter, states, page) {
    const where = await runFilter(sql, filter)
    const columns = {
      ...LISTED,
      ...pick(r, 'attempt', 'durationMs'),
      state: computed<string>(runState(sql)),
      live: computed<boolean>(isLive(sql)),
      movedAt: MOVED_AT,
    }
    const listed = (condition: Part, { limit, offset }: Page) => select(sql, columns)`
      from (select * from run r where ${condition} ${where()} order by r.created_at desc, r.id desc
        limit ${limit} offset ${offset}) r
      ${latestMove(sql, 'run', sql`r.id`)}
      order by r.created_at desc, r.id desc`
    if (states !== null) return listed(inStates(sql, states), page)
    // Live runs come first at any age: two ranges, each in the order of an index.
    const live = await listed(isLive(sql), page)
    if (live.length === page.limit) return live
    const before = only(await select(sql, { live: COUNT })`from run r where ${isLive(sql)} ${where()}`)
    const endedPage = { limit: page.limit - live.length, offset: Math.max(0, page.offset - before.live) }
    return [...live, ...(await listed(sql`not ${isLive(sql)}`, endedPage))]
  },

  /**
   * Counts live runs exactly, and ended runs up to a limit. Without a filter, the limit applies to each state. With a filter,
   * only the newest ended runs of the matching pipelines are counted, because no index leads to a state of some pipelines.
   */
  async count(sql, filter) {
    const where = await runFilter(sql, filter)
    const most = COUNT_MAX + 1
    const of = (status: string) => sql`
      select ${status}::text as state, (select count(*) from (
        select 1 from run r where r.status = ${status} limit ${most}) counted)::int as count, false as cut`
    const ended = isUnfiltered(filter)
      ? sql`${of('success')} union all ${of('failed')} union all ${of('cancelled')}`
      : sql`
        select status, count(*)::int, (sum(count(*)) over ()) >= ${most} from (
          select r.status from run r where not ${isLive(sql)} ${where()}
          order by r.created_at desc, r.id desc limit ${most}) newest group by status`
    const live = sql`select ${runState(sql)} as state from run r where ${isLive(sql)} ${where()}`
    return sql<CountedState[]>`${countedStates(sql, live)} union all (${ended})`
  },

  async find(sql, id) {
    const [run] = await select(sql, INSTANCE)`
      from run r join pipeline p on p.id = r.pipeline_id where r.id = ${id}`
    return run
  },
}

const isLive = (sql: Sql) => sql`r.status in ('pending', 'running')`

const runState = (sql: Sql) => sql`
  case when r.status = 'pending' then case when r.waiting then 'pending.waiting' else 'pending.starting' end
    when r.status = 'running' then 'running.' || r.phase
    else r.status end`

/** Conditions on the columns behind each state, so that the indexes of these columns apply. */
function inStates(sql: Sql, states: readonly string[]): Part {
  const ended = states.filter((state) => ENDED.includes(state))
  const live = states.filter((state) => !ENDED.includes(state))
  const isInEnded = sql`r.status in ${sql(ended)}`
  const isInLive = sql`(${isLive(sql)} and ${runState(sql)} in ${sql(live)})`
  if (live.length === 0) return isInEnded
  return ended.length === 0 ? isInLive : sql`(${isInLive} or ${isInEnded})`
}

const isUnfiltered = (filter: InstanceFilter) => Object.values(filter).every((value) => value === undefined)

/** Finds pipelines by name first, because runs have an index by pipeline and none by namespace. */
async function runFilter(sql: Sql, filter: InstanceFilter): Promise<() => Part> {
  if (isUnfiltered(filter)) return () => sql``
  const { q, ...names } = filter
  const range = q === undefined ? null : idRange(q)
  const pipelines = await pipelinesLike(sql, filter)
  const ofPipelines = () => sql`r.pipeline_id = any(${pipelines}::uuid[])`
  if (range === null) return () => sql`and ${ofPipelines()}`
  const byId = () => sql`r.id between ${range.first} and ${range.last}`
  if (isUnfiltered(names)) return () => sql`and (${ofPipelines()} or ${byId()})`
  const named = await pipelinesLike(sql, names)
  return () => sql`and (${ofPipelines()} or (${byId()} and r.pipeline_id = any(${named}::uuid[])))`
}

async function pipelinesLike(sql: Sql, filter: InstanceFilter): Promise<string[]> {
  const { visiblePipelines, ...nameFilter } = filter
  if (visiblePipelines !== undefined && isUnfiltered(nameFilter)) return [...visiblePipelines]
  const rows = await select(sql, { id: FOUND.pipelineId })`
    from pipeline p where true ${pipelineLike(sql, filter)} limit ${PIPELINES_MAX}`
  return rows.map(({ id }) => id)
}

/** Possible causes that delay a live run `own`. */
const HOLDUPS = {
  ...pick(alias(runs, 'own'), 'notBefore'),
  now: FOUND.now,
  /** Older waiting runs of the same pipeline on the same branch. */
  ahead: computed<number>('(select count(*)::int from ahead)'),
  firstAhead: computed<string | null>('(select id from ahead limit 1)'),
  running: computed<string | null>(`(
    select r.id from run r where r.pipeline_id = own.pipeline_id and r.branch = own.branch and r.status = 'running'
      and r.phase not in ('review', 'waiting') and r.id <> own.id)`),
  reviewExpiresAt: computed<Date | null>('(select v.expires_at from run_review v where v.run_id = own.id)'),
  /** Runs of other pipelines that have waited longer, up to a limit. */
  aheadElsewhere: computed<number>(`(
    select count(*)::int from (select 1 from run r where r.waiting and r.pipeline_id <> own.pipeline_id
      and r.created_at < own.created_at limit ${COUNT_MAX}) waiting)`),
  isFollowed: computed<boolean>(
    'exists (select 1 from replica p where p.name = own.follower and p.alive_until > clock_timestamp())',
  ),
  dispatchers: computed<number>(
    '(select count(*)::int from replica p where p.alive_until > clock_timestamp())',
  ),
  lastLineAt: computed<Date | null>(
    '(select l.at from run_log l where l.run_id = own.id order by l.seq desc limit 1)',
  ),
}
export type Holdups = RowOf<typeof HOLDUPS>

export async function holdupsOf(sql: Sql, runId: string): Promise<Holdups | undefined> {
  const [row] = await select(
    sql,
    HOLDUPS,
    sql`
      with own as (select id, pipeline_id, branch, created_at, not_before, follower from run where id = ${runId}),
      ahead as (
        select r.id from own join run r on r.pipeline_id = own.pipeline_id and r.branch = own.branch and r.waiting
          and (r.created_at, r.id) < (own.created_at, own.id)
        order by r.created_at, r.id limit ${COUNT_MAX})`,
  )`from own`
  return row
}
