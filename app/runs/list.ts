// Lists of runs, with their exact totals. There may be millions of runs, and a list may be asked for from any place on.
import type { PendingQuery, Row } from 'postgres'
import type { Sql } from '../../drizzle/client.ts'
import { andSeenId } from '../../drizzle/visibility.ts'
import type { Visible } from '../core/access.ts'
import type { Page } from '../core/pagination.ts'
import type { RunListed, RunSortKey } from './schema.ts'
import { listed, type RunRow, runColumns } from './store.ts'

export interface RunFilter {
  namespace?: string
  layer?: string
  pipeline?: string
  status?: string
  from?: Date
  to?: Date
  /** Whose runs the caller sees; left out, everybody's. */
  seen?: Visible['pipelines']
}

/** Offsets beyond it are not just passed over one by one from the beginning. */
const FAR = 1_000
/** Names that have so many runs are looked for among their pipelines' runs; those that have more are met soon anyway. */
const FEW_RUNS = 20_000
const HOUR_MS = 3_600_000
/** From here on a time has five digits in its year, which Postgres does not read. */
const UNWRITABLE = new Date(Date.UTC(10_000, 0))

/**
 * A page and the exact total, both as one snapshot has them. Far from the beginning, runs that are passed over are passed
 * over in an index; only the page itself is read. Deep in the list of all runs the hours lead
 * to the page (app/counts); in one that is filtered by what is counted it is found from whichever end is nearer. Of who
 * sees only some pipelines the runs of these are looked at, and counted one by one.
 */
export async function listRuns(
  sql: Sql,
  filter: RunFilter,
  sort: Sort,
  page: Page,
  fewRuns = FEW_RUNS,
): Promise<{ runs: RunListed[]; total: number }> {
  const { namespace, layer, pipeline, status, from, to, seen = 'all' } = filter
  const isTimed = from !== undefined || to !== undefined
  const isNamed = namespace !== undefined || layer !== undefined
  const isCounted = pipeline === undefined && !isTimed && seen === 'all'
  const isFar = page.offset > FAR
  const byHours = isFar && isCounted && !isNamed && status === undefined && sort.key === 'created_at'
  const isLimited = seen !== 'all'
  const known = !isCounted
    ? isLimited && pipeline === undefined && (await countedOf(sql, filter))
    : !byHours && (isFar || isNamed) && (await countedRuns(sql, filter))
  const ofPipelines = pipeline !== undefined || ((isNamed || isLimited) && known && known.all <= fewRuns)

  const where = ofPipelines
    ? ofPipelinesNamed(sql, filter)
    : isLimited
      ? amongPipelinesNamed(sql, filter)
      : sql`true ${named(sql, filter)}`
  const condition = sql`${where} ${inStatus(sql, filter)} ${inTime(sql, filter)}`
  const total = isCounted
    ? sql`select coalesce(sum(rows), 0)::bigint as total from row_count
        where of = 'run' ${named(sql, filter)} ${inStatus(sql, filter)}`
    : isTimed && pipeline === undefined && !isLimited && !isNamed && status === undefined
      ? countOfTime(sql, filter)
      : isLimited
        ? countByPipeline(sql, filter)
        : sql`select count(*) as total from run where ${condition}`
  // Behind the offset the order of what pipelines have would be looked for in the order of all.
  const runs = ofPipelines
    ? sql`(select id, ${sql(sort.key)} from run where ${condition} offset 0) run`
    : sql`run where ${condition}`
  if (!isFar) {
    // Nothing much to pass over: a plain statement is planned in a third of the time.
    const rows = await sql<(RunRow & { total: string })[]>`
      select ${runColumns(sql)}, (${total}) as total
      from ${ofPipelines ? sql`(select * from run where ${condition} offset 0) run` : sql`run where ${condition}`}
      order by ${order(sql, sort)} limit ${page.limit} offset ${page.offset}`
    const [counted] = rows.length > 0 || page.offset === 0 ? rows : await sql<{ total: string }[]>`${total}`
    return { runs: rows.map(listed), total: Number(counted?.total ?? 0) }
  }
  const found = byHours
    ? pageByHours(sql, sort, page)
    : isFar && known && page.offset > known.inStatus / 2
      ? sql`select id from ${runs} ${pageFromEnd(sql, sort, page)}`
      : sql`select id from ${runs} order by ${order(sql, sort)} limit ${page.limit} offset ${page.offset}`
  const rows = await sql<(RunRow & { total: string })[]>`
    with counted as materialized (${total}),
    ${byHours ? sql`beginning as materialized (${beginningOf(sql, sort, page)}),` : sql``} found as (${found})
    select counted.total, run.* from counted left join (
      select ${runColumns(sql)} from run where id = any(array(select id from found))) run on true
    order by ${order(sql, sort)}`
  return {
    runs: rows.flatMap((row) => (row.id === null ? [] : [listed(row)])),
    total: Number(rows[0]?.total ?? 0),
  }
}

interface Sort {
  key: RunSortKey
  descending: boolean
}

/** Only some keys are ever null; saying where nulls go of the others would keep their indexes from being used. */
function order(sql: Sql, { key, descending }: Sort, isTurned = false): Fragment {
  const direction = descending === isTurned ? sql`asc` : sql`desc`
  const isNullable = key === 'started_at' || key === 'finished_at' || key === 'duration_ms'
  const nulls = isNullable ? (isTurned ? sql`nulls first` : sql`nulls last`) : sql``
  return sql`run.${sql(key)} ${direction} ${nulls}, run.id ${direction}`
}

/** Where the page lies seen from the end, by the total of the same snapshot. */
const pageFromEnd = (sql: Sql, sort: Sort, { limit, offset }: Page) => sql`
  order by ${order(sql, sort, true)}
  limit greatest(0, least(${limit}, (select total from counted) - ${offset}))
  offset greatest(0, (select total from counted) - ${offset} - ${limit})`

/** All runs by the time of their request: the hour that the page begins in is found by how many came before it. */
const pageByHours = (sql: Sql, sort: Sort, { limit, offset }: Page) => sql`
  select id from run
  where ${
    sort.descending
      ? sql`created_at < (select hour + interval '1 hour' from beginning)`
      : sql`created_at >= (select hour from beginning)`
  } and ${offset} < (select total from counted)
  order by ${order(sql, sort)} limit ${limit} offset ${offset} - coalesce((select before from beginning), 0)`

/** For each hour with runs, how many the list has before it; then the last one that begins at the offset or before. */
const beginningOf = (sql: Sql, { descending }: Sort, { offset }: Page) => sql`
  select hour, before from (
    select hour, (sum(sum(rows)) over (order by hour ${descending ? sql`desc` : sql`asc`}) - sum(rows))::bigint as before
    from run_hour group by hour having sum(rows) > 0) hours
  where before <= ${offset} order by before desc limit 1`

/** Runs of a time: whole hours are counted already, at either end some minutes are not. */
function countOfTime(sql: Sql, { from, to }: RunFilter): Fragment {
  const first = from && new Date(Math.ceil(from.getTime() / HOUR_MS) * HOUR_MS)
  const end = to && new Date(Math.floor(to.getTime() / HOUR_MS) * HOUR_MS)
  if (first && first >= (end ?? UNWRITABLE))
    return sql`select count(*) as total from run where true ${inTime(sql, { from, to })}`
  const count = (range: RunFilter) => sql`(select count(*) from run where true ${inTime(sql, range)})`
  return sql`
    select (select coalesce(sum(rows), 0)::bigint from run_hour where true
        ${first === undefined ? sql`` : sql`and hour >= ${first}`} ${end === undefined ? sql`` : sql`and hour < ${end}`})
      ${first === undefined ? sql`` : sql`+ ${count({ from, to: first })}`}
      ${end === undefined ? sql`` : sql`+ ${count({ from: end, to })}`} as total`
}

type Fragment = PendingQuery<Row[]>

const named = (sql: Sql, { namespace, layer }: RunFilter) => sql`
  ${namespace === undefined ? sql`` : sql`and namespace = ${namespace}`}
  ${layer === undefined ? sql`` : sql`and layer = ${layer}`}`

const inStatus = (sql: Sql, { status }: RunFilter) =>
  status === undefined ? sql`` : sql`and status = ${status}`

const inTime = (sql: Sql, { from, to }: RunFilter) => sql`
  ${from === undefined ? sql`` : sql`and created_at >= ${from}`}
  ${to === undefined ? sql`` : sql`and created_at < ${to}`}`

const pipelinesNamed = (sql: Sql, filter: RunFilter) => sql`
  select id from pipeline where true ${named(sql, filter)}
    ${filter.pipeline === undefined ? sql`` : sql`and name = ${filter.pipeline}`}
    ${andSeenId(sql, sql`id`, filter.seen ?? 'all')}`

/** An index leads to the runs of each. */
const ofPipelinesNamed = (sql: Sql, filter: RunFilter) => sql`
  pipeline_id = any(array(${pipelinesNamed(sql, filter)}))`

/** The same of very many runs, which are met in the order of the list. A plain condition would be taken for a join. */
const amongPipelinesNamed = (sql: Sql, filter: RunFilter) => sql`
  coalesce(pipeline_id in (${pipelinesNamed(sql, filter)}), false)`

/** Each pipeline's runs are counted in its part of an index; nobody else's are looked at. */
const countByPipeline = (sql: Sql, filter: RunFilter) => sql`
  select coalesce(sum(own.count), 0)::bigint as total
  from (${pipelinesNamed(sql, filter)}) p cross join lateral (
    select count(*) from run where pipeline_id = p.id ${inStatus(sql, filter)} ${inTime(sql, filter)}) own`

/** Of runs with these names: all, and those in the status that is asked for. */
async function countedRuns(sql: Sql, filter: RunFilter) {
  const [row] = await sql<{ all: string; inStatus: string }[]>`
    select coalesce(sum(rows), 0) as all,
      coalesce(sum(rows) filter (where true ${inStatus(sql, filter)}), 0) as "inStatus"
    from row_count where of = 'run' ${named(sql, filter)}`
  return { all: Number(row?.all), inStatus: Number(row?.inStatus) }
}

/** The same of the pipelines that the caller sees, which nobody has counted. */
async function countedOf(sql: Sql, filter: RunFilter) {
  const [row] = await sql<{ all: number; inStatus: number }[]>`
    select coalesce(sum(own.all), 0)::int as all, coalesce(sum(own."inStatus"), 0)::int as "inStatus"
    from (${pipelinesNamed(sql, filter)}) p cross join lateral (
      select count(*) as all, count(*) filter (where true ${inStatus(sql, filter)}) as "inStatus"
      from run where pipeline_id = p.id) own`
  return row ?? { all: 0, inStatus: 0 }
}
