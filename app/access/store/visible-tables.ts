// Selects the tables and zones that a caller sees from a list or from a commit.
import { alias } from 'drizzle-orm/pg-core'
import type { Sql, SqlTx } from '../../../drizzle/client.ts'
import { computed, pick, select } from '../../../drizzle/rows.ts'
import { mainEntries } from '../../../drizzle/schema/index.ts'
import { andVisibleId, andVisibleTable } from '../../../drizzle/visibility.ts'
import type { TableName } from '../../../lake/pipeline/names.ts'
import { seesEverything, type Visible } from '../../core/access.ts'

const NAME = pick(alias(mainEntries, 'entry'), 'namespace', 'layer', 'name')

/** The visible ones among `tables`, whether or not they exist on main. */
export async function visibleTables(
  sql: Sql | SqlTx,
  tables: readonly TableName[],
  visible: Visible,
): Promise<TableName[]> {
  if (seesEverything(visible) || tables.length === 0) return [...tables]
  const column = (key: keyof TableName) => tables.map((table) => table[key])
  return select(sql, NAME)`
    from unnest(${column('namespace')}::text[], ${column('layer')}::text[], ${column('name')}::text[])
      as entry (namespace, layer, name)
    where true ${andVisibleTable(sql, visible)}`
}

/** The visible ones among `zones` (`namespace.name`). */
export async function visibleZones(
  sql: Sql | SqlTx,
  zones: readonly string[],
  { zones: seen }: Visible,
): Promise<string[]> {
  if (seen === 'all' || zones.length === 0) return [...zones]
  const rows = await select(sql, { path: computed<string>('path') })`
    from unnest(${[...zones]}::text[]) as wanted (path)
    join landing_zone z on z.namespace = split_part(path, '.', 1) and z.name = split_part(path, '.', 2)
    where true ${andVisibleId(sql, sql`z.id`, seen)}`
  return rows.map(({ path }) => path)
}

/** All visible tables of main at a commit. */
export const visibleTablesAt = (sql: Sql, commit: number, visible: Visible) => select(sql, NAME)`
  from main_entry entry
  where entry.from_commit <= ${commit} and (entry.to_commit is null or entry.to_commit > ${commit})
    ${andVisibleTable(sql, visible)}
  order by entry.namespace, entry.layer, entry.name`
