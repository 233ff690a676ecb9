// The root of the lake's locations: the recorded one, and those of stored states.
import { alias } from 'drizzle-orm/pg-core'
import type { Sql } from '../../../drizzle/client.ts'
import { select } from '../../../drizzle/rows.ts'
import { lakeContents } from '../../../drizzle/schema/catalog.ts'
import { secrets } from '../../../drizzle/schema/system.ts'
import { rootIn } from '../../../lake/iceberg/format/location.ts'

/** Every location starts with this root. Null: before the first start. */
export async function recordedRoot(sql: Sql): Promise<string | null> {
  const [row] = await select(sql, {
    value: alias(secrets, 's').value,
  })`from secret s where name = 'lake_root'`
  return row?.value ?? null
}

export const recordRoot = (sql: Sql, root: string) => sql`
  insert into secret (name, value) values ('lake_root', ${root})
  on conflict (name) do update set value = excluded.value`

/** The root of a state of any table or view below another root than this one; null: no state has one. */
export async function rootOfStates(sql: Sql, root: string): Promise<string | null> {
  const [row] = await select(sql, { location: alias(lakeContents, 'c').metadataLocation })`
    from lake_content c where not starts_with(c.metadata_location, ${root}) limit 1`
  return row === undefined ? null : rootIn(row.location)
}
