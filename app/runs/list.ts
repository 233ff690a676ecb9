// Lists of runs, with their exact totals. There may be millions of runs, and a list may be asked for from any place on.
import type { PendingQuery, Row } from 'postgres'
import type { Sql } from '../../drizzle/client.ts'
import type { Page } from '../http/pagination.ts'
import { listed, type RunRow, runColumns } from './queries.ts'
import type { RunListed } from './schema.ts'

export const RUN_SORT_KEYS = [
  'created_at',
  'started_at',
  'finished_at',
  'duration_ms',
  'status',
  'trigger',
] as const
export type RunSortKey = (typeof RUN_SORT_KEYS)[number]

export interface RunFilter {
  namespace?: string
  layer?: string
  pipeline?: string
  status?: string
  from?: Date
  to?: Date
}

/** Offsets beyond it are looked at from whichever end of the list is nearer. */
const FAR = 1_000
/** Names that have so many runs are looked for among their pipelines' runs; those that have more are met soon anyway. */
const FEW_RUNS = 20_000

/**
 * A page and the exact total, both as one snapshot has them. Runs that are passed over, and those that are filtered out by
 * status or names, are passed over in an index; only the page itself is read.
 */
export async function listRuns(
  sql: Sql,
  filter: RunFilter,
  sort: { key: RunSortKey; descending: boolean },
  page: Page,
): Promise<{ runs: RunListed[]; total: number }> {
  const { namespace, layer, pipeline, status, from, to } = filter
  const isCounted = pipeline === undefined && from === undefined && to === undefined
  const names = { namespace, layer }
  const isNamed = namespace !== undefined || layer !== undefined
  const isFar = page.offset > FAR
  const known = isCounted && (isFar || isNamed) ? await countedRuns(sql, names, status) : null
  const ofPipelines = pipeline !== undefined || (isNamed && known !== null && known.all <= FEW_RUNS)
  const where = sql`
    where ${
      ofPipelines
        ? sql`pipeline_id = any(array(select id from pipeline
            where true ${named(sql, names)} ${pipeline === undefined ? sql`` : sql`and name = ${pipeline}`}))`
        : sql`true ${named(sql, names)}`
    }
    ${status === undefined ? sql`` : sql`and status = ${status}`}
    ${from === undefined ? sql`` : sql`and created_at >= ${from}`}
    ${to === undefined ? sql`` : sql`and created_at < ${to}`}`
  const total = isCounted
    ? sql`select coalesce(sum(rows), 0)::bigint as total from row_count where of = 'run' ${named(sql, names)}
        ${status === undefined ? sql`` : sql`and status = ${status}`}`
    : sql`select count(*) as total from run ${where}`
  // Only these are ever null; saying it of the others would keep their indexes from being used.
  const isNullable = sort.key === 'started_at' || sort.key === 'finished_at' || sort.key === 'duration_ms'
  const order = (descending: boolean, nullsLast: boolean, of: Fragment) => sql`
    ${of}${sql(sort.key)} ${descending ? sql`desc` : sql`asc`}
    ${isNullable ? (nullsLast ? sql`nulls last` : sql`nulls first`) : sql``}, ${of}id ${descending ? sql`desc` : sql`asc`}`
  const isFromEnd = isFar && known !== null && page.offset > known.inStatus / 2
  const { limit, offset } = page
  const found = isFromEnd
    ? sql`order by ${order(!sort.descending, false, sql``)}
        limit greatest(0, least(${limit}, (select total from counted) - ${offset}))
        offset greatest(0, (select total from counted) - ${offset} - ${limit})`
    : sql`order by ${order(sort.descending, true, sql``)} limit ${limit} offset ${offset}`
  const rows = await sql<(RunRow & { total: string })[]>`
    with counted as materialized (${total}),
    found as (select id from run ${where} ${found})
    select counted.total, r.* from counted left join (
      select ${runColumns(sql)} from run where id = any(array(select id from found))) r on true
    order by ${order(sort.descending, true, sql`r.`)}`
  return {
    runs: rows.flatMap((row) => (row.id === null ? [] : [listed(row)])),
    total: Number(rows[0]?.total ?? 0),
  }
}

type Fragment = PendingQuery<Row[]>

interface Names {
  namespace: string | undefined
  layer: string | undefined
}

const named = (sql: Sql, { namespace, layer }: Names) => sql`
  ${namespace === undefined ? sql`` : sql`and namespace = ${namespace}`}
  ${layer === undefined ? sql`` : sql`and layer = ${layer}`}`

/** Of runs with these names: all, and those in the status that is asked for. */
async function countedRuns(sql: Sql, names: Names, status: string | undefined) {
  const [row] = await sql<{ all: string; inStatus: string }[]>`
    select coalesce(sum(rows), 0) as all,
      coalesce(sum(rows) ${status === undefined ? sql`` : sql`filter (where status = ${status})`}, 0) as "inStatus"
    from row_count where of = 'run' ${named(sql, names)}`
  return { all: Number(row?.all), inStatus: Number(row?.inStatus) }
}
