import { alias } from 'drizzle-orm/pg-core'
import type { Sql } from '../../drizzle/client.ts'
import { COUNT, computed, only, pick, type RowOf, returning, select } from '../../drizzle/rows.ts'
import { lakeContents, mainEntries } from '../../drizzle/schema/catalog.ts'
import { tableMetadata } from '../../drizzle/schema/table-metadata.ts'
import { andVisibleTable } from '../../drizzle/visibility.ts'
import type { TableName } from '../../ground/names.ts'
import type { Visible } from '../core/access.ts'
import type { Page } from '../core/pagination.ts'
import { entriesOf, type View } from '../versions/views.ts'

const content = alias(lakeContents, 'content')
const LISTED = {
  ...pick(alias(mainEntries, 'entry'), 'namespace', 'layer', 'name'),
  ...pick(content, 'kind', 'rowCount', 'sizeBytes'),
}
export type ListedTable = RowOf<typeof LISTED>
const STORED = pick(alias(tableMetadata, 'stored'), 'description', 'owner', 'columnDescriptions')

/** Metadata of a table that users stored. */
export type StoredMetadata = RowOf<typeof STORED>

/** Filters the tables of a version that the caller sees. A null `view` is main as it is now. */
interface TableFilter {
  namespace?: string
  layer?: string
  /** Part of `namespace.layer.name`. */
  search?: string
  visible: Visible
  view: View | null
}

/** Ordered by name. */
export const listedTables = (sql: Sql, filter: TableFilter, page: Page) => select(sql, LISTED)`
  from (${entriesOf(sql, filter.view)}) entry join lake_content content on content.id = entry.content_id
  where ${isListed(sql, filter)}
  order by entry.namespace, entry.layer, entry.name
  limit ${page.limit} offset ${page.offset}`

export async function countTables(sql: Sql, filter: TableFilter): Promise<number> {
  return only(
    await select(sql, { total: COUNT })`
      from (${entriesOf(sql, filter.view)}) entry where ${isListed(sql, filter)}`,
  ).total
}

/** A table of a version with its columns and its metadata file; null when it does not exist. */
export async function tableAt(sql: Sql, { namespace, layer, name }: TableName, view: View | null) {
  const [row] = await select(sql, { ...LISTED, ...pick(content, 'columns', 'metadataLocation') })`
    from (${entriesOf(sql, view)}) entry join lake_content content on content.id = entry.content_id
    where entry.namespace = ${namespace} and entry.layer = ${layer} and entry.name = ${name}`
  return row ?? null
}

const isListed = (sql: Sql, { namespace, layer, search, visible }: TableFilter) => sql`
  true
  ${namespace === undefined ? sql`` : sql`and entry.namespace = ${namespace}`}
  ${layer === undefined ? sql`` : sql`and entry.layer = ${layer}`}
  ${search === undefined ? sql`` : sql`and position(${search.toLowerCase()} in concat_ws('.', entry.namespace, entry.layer, entry.name)) > 0`}
  ${andVisibleTable(sql, visible)}`

/** Stored metadata of these tables, in their order; null for a table without any. */
export async function metadataOf(sql: Sql, tables: readonly TableName[]): Promise<(StoredMetadata | null)[]> {
  const column = (key: keyof TableName) => tables.map((table) => table[key])
  const rows = await select(sql, { ...STORED, place: computed<number>('wanted.place::int') })`
    from unnest(${column('namespace')}::text[], ${column('layer')}::text[], ${column('name')}::text[])
      with ordinality as wanted (namespace, layer, name, place)
    join table_metadata stored using (namespace, layer, name)`
  const found = new Map(rows.map(({ place, ...stored }) => [place - 1, stored]))
  return tables.map((_, index) => found.get(index) ?? null)
}

/** Stores the given fields and returns the complete stored metadata. */
export async function storeMetadata(
  sql: Sql,
  { namespace, layer, name }: TableName,
  { description, owner, columnDescriptions }: Partial<StoredMetadata>,
): Promise<StoredMetadata> {
  const columns = columnDescriptions === undefined ? null : sql.json(columnDescriptions)
  const stored = await returning(sql, STORED)`
    insert into table_metadata as stored (namespace, layer, name, description, owner, column_descriptions)
    values (${namespace}, ${layer}, ${name}, ${description ?? ''}, ${owner ?? null}, coalesce(${columns}::jsonb, '{}'))
    on conflict (namespace, layer, name) do update set
      description = coalesce(${description ?? null}, stored.description),
      owner = case when ${owner !== undefined} then excluded.owner else stored.owner end,
      column_descriptions = coalesce(${columns}::jsonb, stored.column_descriptions),
      updated_at = clock_timestamp()`
  return only(stored)
}
