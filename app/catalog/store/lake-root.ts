// The root of the lake's locations: the recorded one, and the states of tables below another root.
import { alias } from 'drizzle-orm/pg-core'
import type { Sql } from '../../../drizzle/client.ts'
import { COUNT, computed, only, recordset, select } from '../../../drizzle/rows.ts'
import { lakeContents, secrets } from '../../../drizzle/schema/index.ts'

/** One process converts a lake at a time. */
const ROOT_LOCK = 7_340_921_002

/** Every location starts with this root. Null: before the first start, and while the lake is converted. */
export async function recordedRoot(sql: Sql): Promise<string | null> {
  const [row] = await select(sql, {
    value: alias(secrets, 's').value,
  })`from secret s where name = 'lake_root'`
  return row?.value ?? null
}

export const recordRoot = (sql: Sql, root: string) => sql`
  insert into secret (name, value) values ('lake_root', ${root})
  on conflict (name) do update set value = excluded.value`

export const forgetRoot = (sql: Sql) => sql`delete from secret where name = 'lake_root'`

/** Whether this session got the lock. Its end releases the lock. */
export const tryRootLock = async (session: Sql): Promise<boolean> =>
  only(await select(session, { taken: computed<boolean>(`pg_try_advisory_lock(${ROOT_LOCK})`) })``).taken

export const liveReplicas = async (sql: Sql): Promise<number> =>
  only(await select(sql, { live: COUNT })`from replica where alive_until > clock_timestamp()`).live

const c = alias(lakeContents, 'c')
const STATE = {
  id: c.id,
  kind: c.kind,
  metadataLocation: c.metadataLocation,
  /** Whether main, an open branch or a tag reads this state. */
  isRead: computed<boolean>(`
    exists (select from main_entry e where e.content_id = c.id)
    or exists (select from branch_entry e join lake_ref f on f.name = e.ref
      where c.id in (e.content_id, e.base_content) and (f.state = 'open' or f.kept_until is not null))`),
}

/** A state of a table or view whose locations have another root. */
export interface OldState {
  id: string
  kind: 'table' | 'view'
  metadataLocation: string
  isRead: boolean
}

/** The tables with states below another root, by their uuids. */
export const tablesOutside = async (sql: Sql, root: string): Promise<string[]> => {
  const rows = await select(sql, { tableUuid: c.tableUuid })`
    from lake_content c where not starts_with(c.metadata_location, ${root}) group by c.table_uuid order by c.table_uuid`
  return rows.map(({ tableUuid }) => tableUuid)
}

export const statesOutside = (sql: Sql, root: string, tableUuid: string): Promise<OldState[]> => select(
  sql,
  STATE,
)`
  from lake_content c
  where c.table_uuid = ${tableUuid} and not starts_with(c.metadata_location, ${root})
  order by c.created_at, c.id`

/** Metadata files of some current tables. */
export async function currentLocations(sql: Sql, limit: number): Promise<string[]> {
  const rows = await select(sql, { location: c.metadataLocation })`
    from main_entry e join lake_content c on c.id = e.content_id where e.to_commit is null limit ${limit}`
  return rows.map(({ location }) => location)
}

/** Moves all states of a table to their new metadata files in one statement. */
export const moveStates = (sql: Sql, moved: readonly { id: string; metadataLocation: string }[]) => sql`
  update lake_content set metadata_location = moved.metadata_location
  from ${recordset(sql, lakeContents, ['id', 'metadataLocation'], moved, 'moved')}
  where lake_content.id = moved.id`
