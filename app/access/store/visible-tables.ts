// Selects the tables and zones that a caller sees from a list or from a commit.
import { alias } from 'drizzle-orm/pg-core'
import type { Sql, SqlTx } from '../../../drizzle/client.ts'
import { computed, pick, select } from '../../../drizzle/rows.ts'
import { mainEntries } from '../../../drizzle/schema/catalog.ts'
import { andVisibleId, andVisibleTable } from '../../../drizzle/visibility.ts'
import type { TableName } from '../../../ground/names.ts'
import { seesEverything, type Visible } from '../../core/access.ts'

const NAME = pick(alias(mainEntries, 'entry'), 'namespace', 'layer', 'name')

/** Returns the entries of `tables` that the caller may see. A table need not exist on main. */
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

/** Returns the entries of `zones` (`namespace.name`) that the caller may see. */
export async function visibleZones(
  sql: Sql | SqlTx,
  zones: readonly string[],
  { zones: visibleIds }: Visible,
): Promise<string[]> {
  if (visibleIds === 'all' || zones.length === 0) return [...zones]
  const rows = await select(sql, { path: computed<string>('path') })`
    from unnest(${[...zones]}::text[]) as wanted (path)
    join landing_zone z on z.namespace = split_part(path, '.', 1) and z.name = split_part(path, '.', 2)
    where true ${andVisibleId(sql, sql`z.id`, visibleIds)}`
  return rows.map(({ path }) => path)
}
