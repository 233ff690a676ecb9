import type postgres from 'postgres'
import type { Sql } from '../../drizzle/client.ts'
import type { ContentColumns } from '../../drizzle/schema/catalog.ts'
import { andTableSeen } from '../../drizzle/visibility.ts'
import type { TableName } from '../../lake/pipeline/names.ts'
import { EVERYTHING } from '../core/access.ts'

/** One immutable state of a table. */
export type Content = {
  contentId: string
  metadataLocation: string
  columns: ContentColumns
  rowCount: number
  sizeBytes: number
}
export type CatalogTable = TableName & Content

export type Branch = {
  name: string
  state: 'open' | 'merged' | 'deleted'
  base: number
  head: string | null
  runId: string
  attempt: number
}

/** What a reader of main sees: each table as of a commit. Of a branch: what it changed, over main as of its base. */
export type View = { commit: number; branch: string | null }

/** The branch of that name, whatever its state; null when there is none. `main` is none. */
export async function findBranch(sql: postgres.ISql, name: string): Promise<Branch | null> {
  const [row] = await sql<(Branch & { base: string })[]>`
    select name, state, base, head, run_id as "runId", attempt
    from lake_ref where name = ${name} and name <> 'main'`
  return row ? { ...row, base: Number(row.base) } : null
}

/** A branch, and where it has the metadata of a table: null, where it has none. Null when there is no such branch. */
export async function findBranchOf(
  sql: postgres.ISql,
  name: string,
  { namespace, layer, name: table }: TableName,
): Promise<{ branch: Branch; metadataLocation: string | null } | null> {
  const [row] = await sql<(Branch & { base: string; metadataLocation: string | null })[]>`
    select ref.name, ref.state, ref.base, ref.head, ref.run_id as "runId", ref.attempt,
      (select content.metadata_location from lake_content content where content.id = coalesce(
        (select own.content_id from branch_entry own
         where own.ref = ref.name and own.namespace = ${namespace} and own.layer = ${layer} and own.name = ${table}),
        (select main.content_id from main_entry main
         where main.namespace = ${namespace} and main.layer = ${layer} and main.name = ${table}
           and main.from_commit <= ref.base and (main.to_commit is null or main.to_commit > ref.base)))
      ) as "metadataLocation"
    from lake_ref ref where ref.name = ${name} and ref.name <> 'main'`
  if (row === undefined) return null
  const { metadataLocation, ...branch } = row
  return { branch: { ...branch, base: Number(branch.base) }, metadataLocation }
}

/** Namespaces that exist, and those that were deleted but still have tables: what they contain keeps working. */
export async function namespaceNames(sql: postgres.ISql): Promise<string[]> {
  const rows = await sql<{ name: string }[]>`
    select name from namespace union select namespace from main_entry where to_commit is null order by name`
  return rows.map((row) => row.name)
}

/** Tables of main as of `commit`, in order of name. */
export const catalogAt = (sql: Sql, commit: number) => tablesIn(sql, { commit, branch: null })

/** A table of main as of `commit`; null when main had none of that name then. */
export const tableAt = (sql: Sql, commit: number, table: TableName) =>
  tableIn(sql, { commit, branch: null }, table)

/** Every table of a view that is seen, in order of name. */
export async function tablesIn(sql: Sql, view: View, visible = EVERYTHING): Promise<CatalogTable[]> {
  const rows = await sql<TableRow[]>`
    select entry.namespace, entry.layer, entry.name, ${contentColumns(sql)}
    from (${entriesOf(sql, view)}) entry join lake_content content on content.id = entry.content_id
    where true ${andTableSeen(sql, visible)}
    order by entry.namespace, entry.layer, entry.name`
  return rows.map(toTable)
}

/** One table of a view; null when there is none that is seen. */
export async function tableIn(
  sql: Sql,
  view: View,
  table: TableName,
  visible = EVERYTHING,
): Promise<CatalogTable | null> {
  const [row] = await sql<TableRow[]>`
    select entry.namespace, entry.layer, entry.name, ${contentColumns(sql)}
    from (${entriesOf(sql, view)}) entry join lake_content content on content.id = entry.content_id
    where entry.namespace = ${table.namespace} and entry.layer = ${table.layer} and entry.name = ${table.name}
      ${andTableSeen(sql, visible)}`
  return row ? toTable(row) : null
}

/** How main at `commit` differs from main at the earlier commit `since`. */
export async function changesSince(
  sql: postgres.ISql,
  { commit, since }: { commit: number; since: number },
): Promise<{ tables: CatalogTable[]; dropped: TableName[] }> {
  const [changed, dropped] = await Promise.all([
    sql<TableRow[]>`
      select entry.namespace, entry.layer, entry.name, ${contentColumns(sql)}
      from main_entry entry join lake_content content on content.id = entry.content_id
      where entry.from_commit > ${since} and entry.from_commit <= ${commit}
        and (entry.to_commit is null or entry.to_commit > ${commit})
      order by entry.namespace, entry.layer, entry.name`,
    sql<TableName[]>`
      select gone.namespace, gone.layer, gone.name
      from main_entry gone
      where gone.from_commit <= ${since} and gone.to_commit > ${since} and gone.to_commit <= ${commit}
        and not exists (
          select from main_entry entry
          where entry.namespace = gone.namespace and entry.layer = gone.layer and entry.name = gone.name
            and entry.from_commit <= ${commit} and (entry.to_commit is null or entry.to_commit > ${commit}))
      order by gone.namespace, gone.layer, gone.name`,
  ])
  return { tables: changed.map(toTable), dropped: dropped.map((row) => ({ ...row })) }
}

export type BranchCommit = {
  id: string
  branch: string
  /** The head that the new state was computed from. */
  head: string | null
  table: TableName
  tableUuid: string
  content: Content
  snapshotId: string | null
  message: string
}

/**
 * Moves a branch by one commit of one table. False, and nothing is written, when the branch is no longer open or its
 * head is not the one the commit was computed from. One statement: a transaction that never waits for its client, nor for
 * the disk. Whatever needs this commit is written after it: a merge that is durable has made it durable, too, and if it is
 * lost with the database's process, so is what was said of it, or it is found missing when it would be merged.
 */
export async function commitToBranch(sql: Sql, commit: BranchCommit): Promise<boolean> {
  const { table, content } = commit
  const [moved] = await sql`
    with quick as materialized (select set_config('synchronous_commit', 'off', true)),
    branch as (
      select name, base, run_id from lake_ref
      where name = ${commit.branch} and name <> 'main' and state = 'open'
        and head is not distinct from ${commit.head}
      for update),
    content as (
      insert into lake_content
        (id, table_uuid, metadata_location, snapshot_id, columns, row_count, size_bytes)
      select ${content.contentId}::uuid, ${commit.tableUuid}::uuid, ${content.metadataLocation},
        ${commit.snapshotId}::text, ${sql.json(content.columns)}::jsonb, ${content.rowCount}::bigint,
        ${content.sizeBytes}::bigint
      from branch),
    -- Main as of the branch's base, never main now: that would hide what others have merged meanwhile.
    entry as (
      insert into branch_entry (ref, namespace, layer, name, content_id, base_content)
      select branch.name, ${table.namespace}, ${table.layer}, ${table.name}, ${content.contentId}::uuid,
        (select content_id from main_entry
         where namespace = ${table.namespace} and layer = ${table.layer} and name = ${table.name}
           and from_commit <= branch.base and (to_commit is null or to_commit > branch.base))
      from branch
      on conflict (ref, namespace, layer, name) do update set content_id = excluded.content_id),
    commit as (
      insert into lake_commit (id, ref, base, run_id, message)
      select ${commit.id}::uuid, branch.name, branch.base, branch.run_id, ${commit.message} from branch)
    update lake_ref set head = ${commit.id}::uuid from branch, quick where lake_ref.name = branch.name
    returning lake_ref.name`
  return moved !== undefined
}

/** `namespace`, `layer`, `name`, `content_id` of each table of a view. */
function entriesOf(sql: postgres.ISql, { commit, branch }: View) {
  const main = sql`
    select namespace, layer, name, content_id from main_entry
    where from_commit <= ${commit} and (to_commit is null or to_commit > ${commit})`
  if (branch === null) return main
  return sql`
    select namespace, layer, name, content_id from branch_entry where ref = ${branch}
    union all
    select main.namespace, main.layer, main.name, main.content_id from (${main}) main
    where not exists (
      select from branch_entry own
      where own.ref = ${branch} and own.namespace = main.namespace and own.layer = main.layer
        and own.name = main.name)`
}

const contentColumns = (sql: postgres.ISql) => sql`
  content.id as "contentId", content.metadata_location as "metadataLocation", content.columns,
  content.row_count as "rowCount", content.size_bytes as "sizeBytes"`

type TableRow = Omit<CatalogTable, 'rowCount' | 'sizeBytes'> & { rowCount: string; sizeBytes: string }

const toTable = (row: TableRow): CatalogTable => ({
  ...row,
  rowCount: Number(row.rowCount),
  sizeBytes: Number(row.sizeBytes),
})
