// The tables and zones that a caller sees, of those in a list or in a commit.
import type { Sql, SqlTx } from '../../../drizzle/client.ts'
import { andSeenId, andTableSeen } from '../../../drizzle/visibility.ts'
import type { TableName } from '../../../lake/pipeline/names.ts'
import { seesEverything, type Visible } from '../../core/access.ts'

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
