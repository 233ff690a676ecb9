import { sql } from 'drizzle-orm'
import { index, pgTable, unique } from 'drizzle-orm/pg-core'
import { createdAt } from './columns.ts'

/** Not referenced by foreign keys: deleting a namespace leaves what it contains, and that keeps working. */
export const namespaces = pgTable(
  'namespace',
  (pg) => ({
    name: pg.text('name').primaryKey(),
    /** What grants name: another namespace that takes the name later is another one. */
    id: pg.uuid('id').notNull().default(sql`gen_random_uuid()`),
    /** Null: nobody's, as all are in the community edition. */
    owner: pg.text('owner'),
    description: pg.text('description').notNull().default(''),
    createdAt: createdAt(),
  }),
  (t) => [
    unique('namespace_id').on(t.id),
    index('namespace_owner').on(t.owner).where(sql`owner is not null`),
  ],
)
