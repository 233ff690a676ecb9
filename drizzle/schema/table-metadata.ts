import { pgTable, primaryKey } from 'drizzle-orm/pg-core'
import { tableName, updatedAt } from './columns.ts'

/** Descriptions of a table by users. They are separate from the lake table, so they survive its recreation. */
export const tableMetadata = pgTable(
  'table_metadata',
  (pg) => ({
    ...tableName(),
    description: pg.text('description').notNull().default(''),
    owner: pg.text('owner'),
    columnDescriptions: pg.jsonb('column_descriptions').$type<Record<string, string>>().notNull().default({}),
    updatedAt: updatedAt(),
  }),
  (t) => [primaryKey({ columns: [t.namespace, t.layer, t.name] })],
)
