import { pgTable, text } from 'drizzle-orm/pg-core'
import { createdAt } from './columns.ts'

/** Not referenced by foreign keys: deleting a namespace leaves what it contains, and that keeps working. */
export const namespaces = pgTable('namespace', {
  name: text('name').primaryKey(),
  description: text('description').notNull().default(''),
  createdAt: createdAt(),
})
