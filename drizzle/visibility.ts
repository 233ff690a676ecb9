// Conditions on the visibility of a caller, shared by several stores. They are empty for full visibility, so the community
// edition and administrators use the plain statements.
import { type SQL, sql as typed } from 'drizzle-orm'
import type { PgColumn } from 'drizzle-orm/pg-core'
import type { Part, Sql, SqlTx } from './sql.ts'

/** All resources of a kind, or only these ids or names. */
export type VisibleIds = 'all' | readonly string[]

/** Ids of the visible pipelines, and names of the namespaces whose tables without a pipeline are visible. */
export interface VisibleTables {
  readonly pipelines: VisibleIds
  readonly namespaces: VisibleIds
}

/** `and <column> is among these ids`; empty for full visibility. */
export const andVisibleId = (sql: Sql | SqlTx, column: Part, visible: VisibleIds): Part =>
  visible === 'all' ? sql`` : sql`and ${among(sql, column, visible, 'uuid')}`

/**
 * A condition that the table of the row `entry` (namespace, layer, name) is visible. Its live pipeline decides; without a live
 * pipeline, its namespace decides. Empty for full visibility.
 */
export function andVisibleTable(sql: Sql | SqlTx, { pipelines, namespaces }: VisibleTables): Part {
  if (pipelines === 'all' && namespaces === 'all') return sql``
  return sql`and coalesce((
    select ${among(sql, sql`producer.id`, pipelines, 'uuid')} from pipeline producer
    where producer.deleted_at is null and producer.namespace = entry.namespace and producer.layer = entry.layer
      and producer.name = entry.name), ${among(sql, sql`entry.namespace`, namespaces, 'text')})`
}

/** A list can have thousands of values. Postgres hashes a subquery, but scans an array for each row. */
function among(sql: Sql | SqlTx, column: Part, visible: VisibleIds, type: 'uuid' | 'text'): Part {
  if (visible === 'all') return sql`true`
  return type === 'uuid'
    ? sql`${column} in (select unnest(${[...visible]}::uuid[]))`
    : sql`${column} in (select unnest(${[...visible]}::text[]))`
}

/** A condition on ids for drizzle queries. Full visibility returns undefined, which adds no condition. */
export const isVisibleId = (column: PgColumn | SQL, visible: VisibleIds | undefined): SQL | undefined =>
  visible === undefined || visible === 'all'
    ? undefined
    : typed`${column} in (select unnest(${typed.param([...visible])}::uuid[]))`

/** A condition on names for drizzle queries. Full visibility returns undefined, which adds no condition. */
export const isVisibleName = (column: PgColumn, visible: VisibleIds | undefined): SQL | undefined =>
  visible === undefined || visible === 'all'
    ? undefined
    : typed`${column} in (select unnest(${typed.param([...visible])}::text[]))`
