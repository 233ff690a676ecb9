// What a caller sees of many things at once, for statements made by drizzle; of others see sight.ts.
import { type SQL, sql } from 'drizzle-orm'
import type { PgColumn } from 'drizzle-orm/pg-core'
import type { Visible } from '../core/access.ts'

type Seen = Visible['pipelines'] | undefined

/** Undefined, which is no condition, where all are seen. */
export const isSeenId = (column: PgColumn | SQL, seen: Seen): SQL | undefined =>
  seen === undefined || seen === 'all'
    ? undefined
    : sql`${column} in (select unnest(${sql.param([...seen])}::uuid[]))`

/** Undefined, which is no condition, where all are seen. */
export const isSeenName = (column: PgColumn, seen: Seen): SQL | undefined =>
  seen === undefined || seen === 'all'
    ? undefined
    : sql`${column} in (select unnest(${sql.param([...seen])}::text[]))`
