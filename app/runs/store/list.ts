// Lists of runs, with their exact totals. There may be millions of runs.
import assert from 'node:assert/strict'
import type { Sql } from '../../../drizzle/client.ts'
import { computed, nullable, select } from '../../../drizzle/rows.ts'
import { runs } from '../../../drizzle/schema/run.ts'
import type { Part } from '../../../drizzle/sql.ts'
import { andVisibleId, type VisibleIds } from '../../../drizzle/visibility.ts'
import { MAIN } from '../../core/lake-version.ts'
import type { Page } from '../../core/pagination.ts'
import type { RunListed, RunSortKey } from '../schema.ts'
import { LISTED, listed } from './runs.ts'

export interface RunFilter {
  namespace?: string
  layer?: string
  pipeline?: string
  status?: string
  branch?: string
  from?: Date
  to?: Date
  /** Ids of the pipelines visible to the caller; undefined: all pipelines. */
  visible?: VisibleIds
}

interface Sort {
  key: RunSortKey
  descending: boolean
}

interface Listed {
  runs: RunListed[]
  total: number
}

/** The sort keys that are null until a run has begun or ended. */
const NULLABLE: readonly RunSortKey[] = ['started_at', 'finished_at', 'duration_ms']

/**
 * Returns a page and the exact total of one snapshot. An index skips the runs before the page; only rows of the page are read.
 * Runs without a value of the key come last. They are read only if the others do not fill the page: an index of one direction
 * cannot serve both.
 */
export async function listRuns(sql: Sql, filter: RunFilter, sort: Sort, page: Page): Promise<Listed> {
  if (NULLABLE.includes(sort.key)) {
    const known = await readPage(sql, { filter, sort, page, hasValue: true })
    if (known.runs.length === page.limit) return known
  }
  return readPage(sql, { filter, sort, page, hasValue: false })
}

interface PageQuery {
  filter: RunFilter
  sort: Sort
  page: Page
  /** True: only runs with a value of the sort key. The total counts all runs. */
  hasValue: boolean
}

async function readPage(sql: Sql, query: PageQuery): Promise<Listed> {
  const { filter, sort, hasValue } = query
  const { limit, offset } = query.page
  const condition = conditionOf(sql, filter)
  const found = hasValue ? sql`${condition} and run.${sql(sort.key)} is not null` : condition
  // `offset 0` makes Postgres first collect the runs of the named pipelines or of the branch. These runs are few.
  const matching =
    filter.pipeline === undefined && !isOfUser(filter.branch)
      ? sql`run where ${found}`
      : sql`(select id, ${sql(sort.key)} from run where ${found} offset 0) run`
  const rows = await select(
    sql,
    { ...LISTED, id: nullable(runs.id), total: computed<number>('counted.total::float8') },
    sql`
      with counted as materialized (
        ${totalOf(sql, filter)}),
      found as (select id from ${matching} order by ${order(sql, sort, hasValue)} limit ${limit} offset ${offset})`,
  )`
    from counted left join run on run.id = any(array(select id from found))
    order by ${order(sql, sort, hasValue)}`
  const [first] = rows
  assert(first)
  return {
    runs: rows.flatMap(({ id, total: _, ...run }) => (id === null ? [] : [listed({ id, ...run })])),
    total: first.total,
  }
}

/** The runs on main are almost all runs. So the few on other branches are counted and subtracted. */
const totalOf = (sql: Sql, filter: RunFilter): Part =>
  filter.branch === MAIN
    ? sql`
        select counted.total - others.total as total from (${totalOf(sql, { ...filter, branch: undefined })}) counted,
          (select count(*) as total from run
          where ${conditionOf(sql, { ...filter, branch: undefined })} and branch <> 'main') others`
    : Object.values(filter).every((value) => value === undefined || value === 'all')
      ? sql`select coalesce(sum(change), 0) as total from run_total`
      : sql`select count(*) as total from run where ${conditionOf(sql, filter)}`

const isOfUser = (branch: string | undefined) => branch !== undefined && branch !== MAIN

/** Without null keys, `nulls last` would keep Postgres from using an index. */
function order(sql: Sql, { key, descending }: Sort, hasValue: boolean): Part {
  const direction = descending ? sql`desc` : sql`asc`
  const mayBeNull = !hasValue && NULLABLE.includes(key)
  return sql`run.${sql(key)} ${direction} ${mayBeNull ? sql`nulls last` : sql``}, run.id ${direction}`
}

function conditionOf(sql: Sql, filter: RunFilter): Part {
  const { namespace, layer, pipeline, status, branch, from, to, visible = 'all' } = filter
  const named = sql`
    ${namespace === undefined ? sql`` : sql`and namespace = ${namespace}`}
    ${layer === undefined ? sql`` : sql`and layer = ${layer}`}`
  return sql`true ${named}
    ${pipeline === undefined ? sql`` : sql`and pipeline_id = any(array(select id from pipeline where name = ${pipeline} ${named}))`}
    ${andVisibleId(sql, sql`pipeline_id`, visible)}
    ${status === undefined ? sql`` : sql`and status = ${status}`}
    ${branch === undefined ? sql`` : sql`and branch = ${branch}`}
    ${isOfUser(branch) ? sql`and branch <> 'main'` : sql``}
    ${from === undefined ? sql`` : sql`and created_at >= ${from}`}
    ${to === undefined ? sql`` : sql`and created_at < ${to}`}`
}

/** Maximum rows of changes in `run_total` that readers must add up. */
const CHANGES_MAX = 100

/**
 * Replaces the rows of `run_total` by their sum if there are many rows. A snapshot sees either the rows or their sum. A
 * concurrent second fold only folds rows that the first fold left. Only the total of all runs is maintained. `count(*)` of 1 M
 * runs takes 110 ms alone, and four concurrent callers miss the aim of 100 ms (p99).
 */
export async function foldRunTotal(sql: Sql): Promise<void> {
  await sql`
    with folded as (
      delete from run_total where (select count(*) from run_total) > ${CHANGES_MAX} returning change)
    insert into run_total (change) select sum(change) from folded having count(*) > 0`
}
