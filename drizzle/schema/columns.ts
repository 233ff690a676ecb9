import { sql } from 'drizzle-orm'
import { text, timestamp } from 'drizzle-orm/pg-core'

/** A point in time in milliseconds, like JavaScript dates, so the stored value is the displayed value. */
export const instant = (name: string) => timestamp(name, { withTimezone: true, precision: 3, mode: 'date' })

/** Creation time of the row by the database's own clock, never by the transaction's start. */
export const createdAt = () => instant('created_at').notNull().default(sql`clock_timestamp()`)

export const updatedAt = () => instant('updated_at').notNull().default(sql`clock_timestamp()`)

/** The name of a table of the lake and of its pipeline. */
export const tableName = () => ({
  namespace: text('namespace').notNull(),
  layer: text('layer', { enum: ['bronze', 'silver', 'gold'] }).notNull(),
  name: text('name').notNull(),
})
