import { pgTable, primaryKey } from 'drizzle-orm/pg-core'
import { tableName, updatedAt } from './columns.ts'

/** What people say about a table. Kept apart from the lake table, so that it survives the table's recreation. */
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
