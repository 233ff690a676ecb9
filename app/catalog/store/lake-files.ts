// What the catalog says about files of the lake, for the duty that removes unreferenced files.
import assert from 'node:assert'
import type { Sql } from '../../../drizzle/client.ts'
import type { lakeContents } from '../../../drizzle/schema/index.ts'
import type { TableName } from '../../../lake/pipeline/names.ts'
import { replacedAt } from './history.ts'

/** Tables with branches that are open, or were closed after `closedAfter`; `since` is when the oldest of them was opened. */
export const branchesSince = (sql: Sql, closedAfter: Date) => sql<(TableName & { since: Date })[]>`
  select r.namespace, r.layer, r.pipeline as name, min(f.created_at) as since
  from lake_ref f join run r on r.id = f.run_id
  where f.name <> 'main' and (f.state = 'open' or f.closed_at > ${closedAfter})
  group by r.namespace, r.layer, r.pipeline`

export async function databaseTime(sql: Sql): Promise<Date> {
  const [row] = await sql<{ now: Date }[]>`select clock_timestamp() as now`
  assert(row !== undefined)
  return row.now
}

/** The number of tables that main has. */
export async function countTables(sql: Sql): Promise<number> {
  const [row] = await sql<{ tables: number }[]>`
    select count(*)::int as tables from main_entry where to_commit is null`
  assert(row !== undefined)
  return row.tables
}

type Content = typeof lakeContents.$inferSelect

/** A state of a table. `isWhole`: it is, or was after `graceFrom`, current, or an open branch has it or stands on it. */
export interface TableState {
  location: Content['metadataLocation']
  snapshotId: Content['snapshotId']
  isWhole: boolean
}

/** Newest first: later metadata lists most of the earlier states. */
export const statesOf = (sql: Sql, { namespace, layer, name }: TableName, graceFrom: Date) => sql<
  TableState[]
>`
  select c.metadata_location as location, c.snapshot_id as "snapshotId", state."isWhole" from (
    select e.content_id, e.from_commit, e.to_commit is null or replaced.at > ${graceFrom}
      or exists (select from lake_ref f where f.state = 'open' and f.name <> 'main' and f.base < e.to_commit) as "isWhole"
    from (select * from main_entry
      where namespace = ${namespace} and layer = ${layer} and name = ${name}) e
    left ${replacedAt(sql)}
    union all
    select b.content_id, null, true from branch_entry b join lake_ref f on f.name = b.ref and f.state = 'open'
    where b.namespace = ${namespace} and b.layer = ${layer} and b.name = ${name}) state
  join lake_content c on c.id = state.content_id
  order by state."isWhole" desc, state.from_commit desc nulls first`
