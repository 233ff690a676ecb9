// The tables that a branch changed, with their states before and after.
import { alias } from 'drizzle-orm/pg-core'
import type { Sql } from '../../drizzle/client.ts'
import { COUNT, computed, nullable, only, pick, type RowOf, select } from '../../drizzle/rows.ts'
import { branchEntries, lakeContents } from '../../drizzle/schema/catalog.ts'
import { runs } from '../../drizzle/schema/run.ts'
import type { Part } from '../../drizzle/sql.ts'
import { andVisibleTable } from '../../drizzle/visibility.ts'
import type { TableName } from '../../ground/names.ts'
import type { Visible } from '../core/access.ts'
import type { Page } from '../core/pagination.ts'
import { entriesOf, type View } from '../versions/views.ts'
import type { Diff } from './schema.ts'

const [before, after] = [alias(lakeContents, 'before'), alias(lakeContents, 'after')]
const CHANGE = {
  ...pick(alias(branchEntries, 'entry'), 'namespace', 'layer', 'name'),
  beforeId: nullable(before.id),
  beforeKind: nullable(before.kind),
  beforeLocation: nullable(before.metadataLocation),
  beforeRows: nullable(before.rowCount),
  beforeColumns: nullable(before.columns),
  afterId: nullable(after.id),
  afterKind: nullable(after.kind),
  afterLocation: nullable(after.metadataLocation),
  afterRows: nullable(after.rowCount),
  afterColumns: nullable(after.columns),
  afterAdded: after.rowsAdded,
  afterRemoved: after.rowsRemoved,
  isConflict: computed<boolean>('live.content_id is distinct from entry.base_content'),
}
export type ChangedTable = RowOf<typeof CHANGE>

export interface ChangeFilter {
  branch: string
  /** The tables are compared with this view; null: with main at the base of the branch. */
  against: View | null
  visible: Visible
  table?: TableName
}

/** Ordered by name. */
export const changedTables = (sql: Sql, filter: ChangeFilter, { limit, offset }: Page) => select(sql, CHANGE)`
  ${changes(sql, filter)}
  order by entry.namespace, entry.layer, entry.name limit ${limit} offset ${offset}`

export const countChangedTables = async (sql: Sql, filter: ChangeFilter): Promise<number> =>
  only(await select(sql, { total: COUNT })`${changes(sql, filter)}`).total

function changes(sql: Sql, { branch, against, visible, table }: ChangeFilter): Part {
  const other =
    against === null
      ? sql`select namespace, layer, name, base_content as content_id from branch_entry where ref = ${branch}`
      : entriesOf(sql, against)
  return sql`
    from branch_entry entry
    left join (${other}) other on other.namespace = entry.namespace and other.layer = entry.layer
      and other.name = entry.name
    left join lake_content before on before.id = other.content_id
    left join lake_content after on after.id = entry.content_id
    left join main_entry live on live.to_commit is null and live.namespace = entry.namespace
      and live.layer = entry.layer and live.name = entry.name
    where entry.ref = ${branch} and entry.content_id is distinct from entry.base_content
      and entry.content_id is distinct from other.content_id
      ${
        table === undefined
          ? sql``
          : sql`and entry.namespace = ${table.namespace} and entry.layer = ${table.layer} and entry.name = ${table.name}`
      }
      ${andVisibleTable(sql, visible)}`
}

const RUN = {
  branch: computed<string>("'run-' || r.id || '-' || r.attempt"),
  target: alias(runs, 'r').branch,
  isMerged: computed<boolean>("r.status = 'success'"),
  hasEnded: computed<boolean>("r.status in ('success', 'failed', 'cancelled')"),
}

/** The branch of a run's latest attempt, and the branch that the run merges into; null: no such run. */
export async function runBranch(sql: Sql, id: string): Promise<RowOf<typeof RUN> | null> {
  const [row] = await select(sql, RUN)`from run r where r.id = ${id}`
  return row ?? null
}

/** The stored diff of a run; null while none is stored. */
export async function keptRunDiff(sql: Sql, id: string): Promise<Diff | null> {
  const [row] = await select(sql, { diff: computed<Diff>('diff') })`from run_diff where run_id = ${id}`
  return row?.diff ?? null
}

/** Stores the diff of a run. A diff that is stored already stays. */
export async function keepRunDiff(sql: Sql, id: string, diff: Diff): Promise<void> {
  await sql`
    insert into run_diff (run_id, diff) select id, ${sql.json(diff)} from run where id = ${id} on conflict do nothing`
}
