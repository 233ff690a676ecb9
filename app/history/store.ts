// The states of one table: on main, and on a branch over main as of its base.
import { alias } from 'drizzle-orm/pg-core'
import type { Sql } from '../../drizzle/client.ts'
import { COUNT, computed, only, pick, present, type RowOf, select } from '../../drizzle/rows.ts'
import { lakeContents } from '../../drizzle/schema/catalog.ts'
import type { Part } from '../../drizzle/sql.ts'
import { type TableName, tableKey } from '../../ground/names.ts'
import type { Page } from '../core/pagination.ts'
import type { View } from '../versions/views.ts'

const content = alias(lakeContents, 'c')
const STATE = {
  commit: computed<number | null>('s.commit::float8'),
  commitId: computed<string>('s.commit_id'),
  runId: computed<string | null>('s.run_id'),
  createdAt: computed<Date>('s.created_at'),
  hasNewColumns: computed<boolean>('coalesce(s.columns_before <> c.columns, false)'),
  ...pick(content, 'snapshotId', 'operation', 'rowsAdded', 'rowsRemoved'),
  rowCount: present(content.rowCount),
  sizeBytes: present(content.sizeBytes),
}
export type TableState = RowOf<typeof STATE>

/** The kept states of a table in a view, newest first. */
export const statesIn = (sql: Sql, view: View, table: TableName, { limit, offset }: Page) =>
  select(sql, STATE)`
    from (
      select states.*, lag(own.columns) over (order by commit nulls last, states.created_at) as columns_before
      from (${states(sql, view, table)}) states join lake_content own on own.id = states.content_id) s
    join lake_content c on c.id = s.content_id
    order by s.commit desc nulls first, s.created_at desc limit ${limit} offset ${offset}`

export const countStates = async (sql: Sql, view: View, table: TableName): Promise<number> =>
  only(await select(sql, { total: COUNT })`from (${states(sql, view, table)}) states`).total

function states(sql: Sql, { commit, branch }: View, table: TableName): Part {
  const isTable = sql`e.namespace = ${table.namespace} and e.layer = ${table.layer} and e.name = ${table.name}`
  const main = sql`
    select e.content_id, e.from_commit as commit, k.id as commit_id, k.run_id, k.created_at
    from main_entry e join lake_commit k on k.number = e.from_commit
    where ${isTable} and e.from_commit <= ${commit}`
  if (branch === null) return main
  // A merged branch of a run holds one earlier state of its parent. A branch that was opened from another branch has the
  // states of its source, but not its commits.
  return sql`
    ${main}
    union all
    select content_id, null, commit_id, run_id, created_at from (
      select distinct on (e.content_id) e.content_id, coalesce(k.id, f.head) as commit_id, k.run_id,
        coalesce(k.created_at, own.created_at) as created_at
      from lake_ref f join branch_entry e on e.ref = f.name join lake_content own on own.id = e.content_id
      left join lake_commit k on k.id = case when f.name <> ${branch} then f.head else coalesce(
        (select latest.id from lake_commit latest
          where latest.ref = f.name and latest.number is null and latest.tables @> array[${tableKey(table)}]
          order by latest.created_at desc limit 1), f.head) end
      where (f.name = ${branch} or (f.parent = ${branch} and f.state = 'merged')) and ${isTable}
        and e.content_id is distinct from e.base_content
      order by e.content_id, f.name = ${branch}) of_branch`
}
