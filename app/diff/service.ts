// Diffs of branches: the tables that a branch changed since its base, and the rows of one table.
import type { Sql } from '../../drizzle/client.ts'
import { type TableName, tableKey } from '../../ground/names.ts'
import type { JsonRows } from '../../lake/engine/arrow-json.ts'
import { EVERYTHING } from '../core/access.ts'
import { failedPrecondition, invalid, notFound } from '../core/errors.ts'
import { MAIN } from '../core/lake-version.ts'
import { pageOf, rowLimitOf } from '../core/pagination.ts'
import { type ComparedRows, Incomparable, type StatePair } from '../query/compare.ts'
import type { QueryService } from '../query/service.ts'
import { MissingLakeFile } from '../versions/metadata-files.ts'
import { tableIn, type View, viewOf } from '../versions/views.ts'
import { makeRunDiffs } from './run-diff.ts'
import { DIFF_ROWS, type Diff, type DiffQuery, type RowDiffQuery } from './schema.ts'
import {
  type ChangedTable,
  type ChangeFilter,
  changedTables,
  countChangedTables,
  runBranch,
} from './store.ts'
import type { TableDiffs } from './table-diff.ts'

/** Time limit of the rows of one diff, that of a query. */
const ROWS_MS = 30_000

const isView = (table: TableName) =>
  failedPrecondition(`rows of view ${tableKey(table)} not compared: a view stores no rows`)

interface DiffDeps {
  sql: Sql
  queries: QueryService
  tableDiffs: TableDiffs
  /** The columns that identify a row of the pipeline's table; empty without a pipeline or a key. */
  uniqueKeyOf(table: TableName): Promise<readonly string[]>
}

type RowLists = NonNullable<ComparedRows['lists']>
const NONE = { columns: [], chunks: [] }
const NO_ROWS: RowLists = { added: NONE, removed: NONE, changed: NONE, truncated: false }
export type DiffService = ReturnType<typeof makeDiffService>

export function makeDiffService({ sql, queries, tableDiffs, uniqueKeyOf }: DiffDeps) {
  /** The open branch, and the view that it is compared with. */
  async function comparedViews(
    branch: string,
    against: string,
  ): Promise<{ own: View; against: View | null }> {
    if (branch === MAIN) throw invalid('branch', 'main has no base to compare it with: name another branch')
    const own = await viewOf(sql, { branch })
    return { own, against: against === MAIN ? null : await viewOf(sql, { branch: against }) }
  }

  /** The tables that the branch changed since its base. */
  async function diff(
    branch: string,
    { against = MAIN, ...query }: DiffQuery,
    signal: AbortSignal,
    visible = EVERYTHING,
  ) {
    const page = pageOf(query)
    const views = await comparedViews(branch, against)
    const filter: ChangeFilter = { branch, against: views.against, visible }
    const [tables, total] = await Promise.all([
      changedTables(sql, filter, page),
      countChangedTables(sql, filter),
    ])
    const body: Diff = { from: against, to: branch, tables: await tableDiffs.of(tables, signal), total }
    return { ...body, page }
  }

  /** The differing rows of one table. The caller may read the table. */
  async function rows(
    branch: string,
    table: TableName,
    { against = MAIN, limit }: RowDiffQuery,
    signal: AbortSignal,
  ): Promise<RowLists> {
    const views = await comparedViews(branch, against)
    const filter: ChangeFilter = { branch, against: views.against, visible: EVERYTHING, table }
    const [changed] = await changedTables(sql, filter, { limit: 1, offset: 0 })
    const pair = changed ? pairOf(changed) : await unchanged(views.own, table)
    return compared(table, pair, limit, signal)
  }

  /** The differing rows of the table that a run changed, or would change while it is not merged. */
  async function rowsOfRun(
    id: string,
    { limit }: Pick<RowDiffQuery, 'limit'>,
    signal: AbortSignal,
  ): Promise<RowLists> {
    const run = await runBranch(sql, id)
    if (run === null) throw notFound(`run ${id}`)
    const filter: ChangeFilter = { branch: run.branch, against: null, visible: EVERYTHING }
    const [changed] = await changedTables(sql, filter, { limit: 1, offset: 0 })
    if (changed === undefined) return NO_ROWS
    return compared(changed, pairOf(changed), limit, signal).catch((error: unknown) => {
      throw error instanceof MissingLakeFile ? notFound(`rows of run ${id}`) : error
    })
  }

  async function compared(
    table: TableName,
    pair: StatePair,
    limit: RowDiffQuery['limit'],
    signal: AbortSignal,
  ): Promise<RowLists> {
    const key = [...(await uniqueKeyOf(table))]
    const rowsLimit = rowLimitOf(limit, DIFF_ROWS)
    try {
      // A comparison without rows has no columns either, so one row is asked for and left out.
      const asked = { ...pair, key, rowsLimit: Math.max(1, rowsLimit), timeoutMs: ROWS_MS }
      const { lists } = await queries.compare(asked, signal)
      if (lists === null) throw new Error('the comparison has no rows')
      return rowsLimit === 0 ? columnsOnly(lists) : lists
    } catch (error) {
      if (!(error instanceof Incomparable)) throw error
      throw failedPrecondition(`rows of table ${tableKey(table)} not compared: ${error.message}`)
    }
  }

  /** A table that the branch did not change. */
  async function unchanged(view: View, table: TableName): Promise<StatePair> {
    const found = await tableIn(sql, view, table)
    if (found === null) throw notFound(`table ${tableKey(table)}`)
    if (found.kind === 'view') throw isView(table)
    return { before: found.metadataLocation, after: found.metadataLocation }
  }

  return { diff, rows, rowsOfRun, ofRun: makeRunDiffs({ sql, tableDiffs }) }
}

/** The lists without their rows. */
function columnsOnly({ added, removed, changed, truncated }: RowLists): RowLists {
  const hasRows = [added, removed, changed].some(({ chunks }) => chunks.length > 0)
  const empty = ({ columns }: JsonRows) => ({ columns, chunks: [] })
  return {
    added: empty(added),
    removed: empty(removed),
    changed: empty(changed),
    truncated: truncated || hasRows,
  }
}

function pairOf(changed: ChangedTable): StatePair {
  if (changed.beforeKind === 'view' || changed.afterKind === 'view') throw isView(changed)
  return { before: changed.beforeLocation, after: changed.afterLocation }
}
