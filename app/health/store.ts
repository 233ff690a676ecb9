import type { Sql } from '../../drizzle/client.ts'

/** Resolves when the database answers. */
export const ping = (sql: Sql) => sql`select 1`
