import { jsonb, pgTable, primaryKey, text } from 'drizzle-orm/pg-core'
import { tableName, updatedAt } from './columns.ts'

/** What people say about a table. Kept apart from the lake table, so that it survives the table's recreation. */
export const tableMetadata = pgTable(
  'table_metadata',
  {
    ...tableName(),
    description: text('description').notNull().default(''),
    owner: text('owner'),
    columnDescriptions: jsonb('column_descriptions').$type<Record<string, string>>().notNull().default({}),
    updatedAt: updatedAt(),
  },
  (t) => [primaryKey({ columns: [t.namespace, t.layer, t.name] })],
)
