import { sql } from 'drizzle-orm'
import { text, timestamp } from 'drizzle-orm/pg-core'

/** A point in time. Milliseconds, as JavaScript dates have them: what is stored is what is shown. */
export const instant = (name: string) => timestamp(name, { withTimezone: true, precision: 3, mode: 'date' })

/** When the row came to be, by the database's own clock, never the transaction's start. */
export const createdAt = () => instant('created_at').notNull().default(sql`clock_timestamp()`)

export const updatedAt = () => instant('updated_at').notNull().default(sql`clock_timestamp()`)

/** The name of a table of the lake, and of the pipeline that makes it. */
export const tableName = () => ({
  namespace: text('namespace').notNull(),
  layer: text('layer', { enum: ['bronze', 'silver', 'gold'] }).notNull(),
  name: text('name').notNull(),
})
