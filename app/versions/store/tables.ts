import { alias } from 'drizzle-orm/pg-core'
import type { Sql, SqlTx } from '../../../drizzle/client.ts'
import { computed, pick, type RowOf, select } from '../../../drizzle/rows.ts'
import { lakeContents, mainEntries } from '../../../drizzle/schema/catalog.ts'
import { namespaces } from '../../../drizzle/schema/namespace.ts'
import { andVisibleTable } from '../../../drizzle/visibility.ts'
import type { TableName } from '../../../ground/names.ts'
import { EVERYTHING } from '../../core/access.ts'

const content = alias(lakeContents, 'content')
const CONTENT = {
  contentId: content.id,
  ...pick(content, 'kind', 'metadataLocation', 'columns', 'rowCount', 'sizeBytes'),
}
const NAME = pick(alias(mainEntries, 'entry'), 'namespace', 'layer', 'name')
const TABLE = { ...NAME, ...CONTENT }

/** One immutable state of a table. */
export type Content = RowOf<typeof CONTENT>
export type CatalogTable = RowOf<typeof TABLE>

/**
 * A version of the catalog. `branch` null: main as of `commit`. Otherwise the branch's changes over main as of `commit`, its
 * base.
 */
export type View = { commit: number; branch: string | null }

/** Existing namespaces, and deleted namespaces that still have tables: their contents keep working. */
export async function namespaceNames(sql: Sql): Promise<string[]> {
  const rows = await select(sql, { name: namespaces.name })`
    from namespace union select namespace from main_entry where to_commit is null order by name`
  return rows.map((row) => row.name)
}

/** Tables of main as of `commit`, ordered by name. */
export const catalogAt = (sql: Sql, commit: number) => tablesIn(sql, { commit, branch: null })

/** A table of main as of `commit`; null when main had no such table. */
export const tableAt = (sql: Sql, commit: number, table: TableName) =>
  tableIn(sql, { commit, branch: null }, table)

/** All visible tables of a view, ordered by name. */
export const tablesIn = (sql: Sql, view: View, visible = EVERYTHING) => select(sql, TABLE)`
  from (${entriesOf(sql, view)}) entry join lake_content content on content.id = entry.content_id
  where true ${andVisibleTable(sql, visible)}
  order by entry.namespace, entry.layer, entry.name`

/** Names of the visible tables, or views, of one layer of a version, in order: at most `limit` names after the name `after`. */
export async function tableNamesIn(
  sql: Sql,
  view: View,
  { kind, namespace, layer, after, limit }: Omit<TableName, 'name'> & NamePage & Pick<Content, 'kind'>,
  visible = EVERYTHING,
): Promise<string[]> {
  const rows = await select(sql, { name: NAME.name })`
    from (${entriesOf(sql, view)}) entry join lake_content content on content.id = entry.content_id
    where content.kind = ${kind}
      and entry.namespace = ${namespace} and entry.layer = ${layer} and entry.name > ${after}
      ${andVisibleTable(sql, visible)}
    order by entry.name ${limit === null ? sql`` : sql`limit ${limit}`}`
  return rows.map(({ name }) => name)
}

/** `after` is the last name of the page before, empty for the first page. A null `limit` means all names. */
export type NamePage = { after: string; limit: number | null }

/** One table or view of a version; null when it does not exist or is not visible. */
export async function tableIn(
  sql: Sql | SqlTx,
  view: View,
  table: TableName,
  visible = EVERYTHING,
): Promise<CatalogTable | null> {
  const [row] = await select(sql, TABLE)`
    from (${entriesOf(sql, view)}) entry join lake_content content on content.id = entry.content_id
    where entry.namespace = ${table.namespace} and entry.layer = ${table.layer} and entry.name = ${table.name}
      ${andVisibleTable(sql, visible)}`
  return row ?? null
}

/** The name of a table of a version by its uuid; null when the version has no such table. */
export async function tableOfUuid(sql: Sql, view: View, uuid: string): Promise<TableName | null> {
  const [row] = await select(sql, NAME)`
    from (${entriesOf(sql, view)}) entry join lake_content content on content.id = entry.content_id
    where content.table_uuid = ${uuid}::uuid limit 1`
  return row ?? null
}

/** Whether main has or had this state of a table, and the state is kept. Expiry waits for the lock on main. */
export async function isKept(
  tx: SqlTx,
  { namespace, layer, name }: TableName,
  metadataLocation: string,
): Promise<boolean> {
  const [kept] = await tx`
    select from main_entry entry join lake_content content on content.id = entry.content_id
    where entry.namespace = ${namespace} and entry.layer = ${layer} and entry.name = ${name}
      and content.metadata_location = ${metadataLocation} limit 1`
  return kept !== undefined
}

/** The columns of tables and views of main as it is now, by their keys. Absent keys name none. */
export async function currentColumns(
  sql: Sql,
  keys: readonly string[],
): Promise<{ table: string; columns: Content['columns'] }[]> {
  const TABLE_KEY = computed<string>("entry.namespace || '.' || entry.layer || '.' || entry.name")
  return select(sql, { table: TABLE_KEY, columns: content.columns })`
    from unnest(${keys as string[]}::text[]) as wanted(key)
    join main_entry entry on entry.to_commit is null and entry.namespace = split_part(key, '.', 1)
      and entry.layer = split_part(key, '.', 2) and entry.name = split_part(key, '.', 3)
    join lake_content content on content.id = entry.content_id`
}

/** The differences between main at `commit` and main at the earlier commit `since`. */
export async function changesSince(
  sql: Sql,
  { commit, since }: { commit: number; since: number },
): Promise<{ tables: CatalogTable[]; dropped: TableName[] }> {
  const [tables, dropped] = await Promise.all([
    select(sql, TABLE)`
      from main_entry entry join lake_content content on content.id = entry.content_id
      where entry.from_commit > ${since} and entry.from_commit <= ${commit}
        and (entry.to_commit is null or entry.to_commit > ${commit})
      order by entry.namespace, entry.layer, entry.name`,
    select(sql, NAME)`
      from main_entry entry
      where entry.from_commit <= ${since} and entry.to_commit > ${since} and entry.to_commit <= ${commit}
        and not exists (
          select from main_entry later
          where later.namespace = entry.namespace and later.layer = entry.layer and later.name = entry.name
            and later.from_commit <= ${commit} and (later.to_commit is null or later.to_commit > ${commit}))
      order by entry.namespace, entry.layer, entry.name`,
  ])
  return { tables, dropped }
}

/** The tables that a readable branch changed or dropped, ordered by name; null when no such branch is readable. */
export async function changesOfBranch(
  sql: Sql,
  branch: string,
): Promise<{ tables: CatalogTable[]; dropped: TableName[] } | null> {
  // One statement reads one Postgres snapshot: if the branch closes afterwards, it still had these changes.
  const change = { ...TABLE, isChange: computed<boolean>('entry.ref is not null') }
  const rows = await select(sql, { ...change, isTable: computed<boolean>('content.id is not null') })`
    from lake_ref ref
    left join branch_entry entry on entry.ref = ref.name
    left join lake_content content on content.id = entry.content_id
    where ref.name = ${branch} and (ref.kind = 'user' and ref.state = 'open' or ref.kept_until is not null)
    order by entry.namespace, entry.layer, entry.name`
  if (rows.length === 0) return null
  return {
    tables: rows.flatMap(({ isChange: _, isTable, ...table }) => (isTable ? [table] : [])),
    dropped: rows.flatMap(({ isChange, isTable, namespace, layer, name }) =>
      isChange && !isTable ? [{ namespace, layer, name }] : [],
    ),
  }
}

/** `namespace`, `layer`, `name` and `content_id` of each table of a view; null means main as it is now. */
export function entriesOf(sql: Sql | SqlTx, view: View | null) {
  if (view === null)
    return sql`select namespace, layer, name, content_id from main_entry where to_commit is null`
  const { commit, branch } = view
  const main = sql`
    select namespace, layer, name, content_id from main_entry
    where from_commit <= ${commit} and (to_commit is null or to_commit > ${commit})`
  if (branch === null) return main
  return sql`
    select namespace, layer, name, content_id from branch_entry where ref = ${branch} and content_id is not null
    union all
    select main.namespace, main.layer, main.name, main.content_id from (${main}) main
    where not exists (
      select from branch_entry own
      where own.ref = ${branch} and own.namespace = main.namespace and own.layer = main.layer
        and own.name = main.name)`
}
