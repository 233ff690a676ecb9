// What a caller sees of many things at once, as SQL. Where everything is seen these are empty, so that the statements of
// the community edition, and of administrators, stay what they are.
import type { PendingQuery, Row } from 'postgres'
import type { Sql, SqlTx } from '../../drizzle/client.ts'
import type { TableName } from '../../lake/pipeline/names.ts'
import type { Visible } from '../core/access.ts'

/** Part of a statement. It must not be awaited: that would perform it. */
export type Fragment = PendingQuery<Row[]>

type Seen = Visible['pipelines']

/** Whether nothing is hidden from the caller. */
export const seesEverything = ({ pipelines, zones, namespaces }: Visible): boolean =>
  pipelines === 'all' && zones === 'all' && namespaces === 'all'

/** `and <column> is among these ids`; nothing where all are seen. They may be thousands: a set is hashed, an array is not. */
export const andSeenId = (sql: Sql | SqlTx, column: Fragment, seen: Seen): Fragment =>
  seen === 'all' ? sql`` : sql`and ${column} in (select unnest(${[...seen]}::uuid[]))`

/** `and <column> is among these names`; nothing where all are seen. */
export const andSeenName = (sql: Sql | SqlTx, column: Fragment, seen: Seen): Fragment =>
  seen === 'all' ? sql`` : sql`and ${column} in (select unnest(${[...seen]}::text[]))`

/**
 * Whether a table, a row called `entry` with namespace, layer and name, is seen: as the live pipeline that makes it, or,
 * where none does, as its namespace.
 */
export function andTableSeen(sql: Sql | SqlTx, visible: Visible): Fragment {
  const { pipelines, namespaces } = visible
  if (pipelines === 'all' && namespaces === 'all') return sql``
  return sql`and coalesce((
    select ${isAmong(sql, sql`maker.id`, pipelines, 'uuid')} from pipeline maker
    where maker.deleted_at is null and maker.namespace = entry.namespace and maker.layer = entry.layer
      and maker.name = entry.name), ${isAmong(sql, sql`entry.namespace`, namespaces, 'text')})`
}

function isAmong(sql: Sql | SqlTx, column: Fragment, seen: Seen, type: 'uuid' | 'text'): Fragment {
  if (seen === 'all') return sql`true`
  return type === 'uuid'
    ? sql`${column} in (select unnest(${[...seen]}::uuid[]))`
    : sql`${column} in (select unnest(${[...seen]}::text[]))`
}

/** Of these tables those that are seen, whether main has them or not. */
export async function tablesSeen(
  sql: Sql | SqlTx,
  tables: readonly TableName[],
  visible: Visible,
): Promise<TableName[]> {
  if (seesEverything(visible) || tables.length === 0) return [...tables]
  const column = (key: keyof TableName) => tables.map((table) => table[key])
  const rows = await sql<TableName[]>`
    select entry.namespace, entry.layer, entry.name
    from unnest(${column('namespace')}::text[], ${column('layer')}::text[], ${column('name')}::text[])
      as entry (namespace, layer, name)
    where true ${andTableSeen(sql, visible)}`
  return rows.map((row) => ({ ...row }))
}

/** Of these zones, `namespace.name`, those that are seen. */
export async function zonesSeen(
  sql: Sql | SqlTx,
  zones: readonly string[],
  { zones: seen }: Visible,
): Promise<string[]> {
  if (seen === 'all' || zones.length === 0) return [...zones]
  const rows = await sql<{ path: string }[]>`
    select path from unnest(${[...zones]}::text[]) as wanted (path)
    join landing_zone z on z.namespace = split_part(path, '.', 1) and z.name = split_part(path, '.', 2)
    where true ${andSeenId(sql, sql`z.id`, seen)}`
  return rows.map(({ path }) => path)
}

/** Every table that main has at a commit and the caller sees. */
export async function tablesSeenAt(sql: Sql, commit: number, visible: Visible): Promise<TableName[]> {
  const rows = await sql<TableName[]>`
    select entry.namespace, entry.layer, entry.name from main_entry entry
    where entry.from_commit <= ${commit} and (entry.to_commit is null or entry.to_commit > ${commit})
      ${andTableSeen(sql, visible)}
    order by entry.namespace, entry.layer, entry.name`
  return rows.map((row) => ({ ...row }))
}
