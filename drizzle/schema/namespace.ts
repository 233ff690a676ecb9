import { sql } from 'drizzle-orm'
import { index, pgTable, unique } from 'drizzle-orm/pg-core'
import { createdAt } from './columns.ts'

/** The decision that a change of a table on main needs: nobody's, anybody's, or that of a person who did not make it. */
export type Review = 'none' | 'any' | 'four-eyes'

/** The rule for all tables of a namespace. */
export interface Protection {
  review: Review
  /** A lower rule that one administrator wants. It holds when another one wants the same. */
  proposed?: { review: Review; by: string }
}

/** No foreign keys refer to namespaces, because the contents of a deleted namespace remain and keep working. */
export const namespaces = pgTable(
  'namespace',
  (pg) => ({
    name: pg.text('name').primaryKey(),
    /** Grants refer to this id, so a later namespace of the same name does not inherit them. */
    id: pg.uuid('id').notNull().default(sql`gen_random_uuid()`),
    /** Null: no owner, as always in the community edition. */
    owner: pg.text('owner'),
    description: pg.text('description').notNull().default(''),
    /** Properties that engines set. Their `comment` is the description. */
    properties: pg.jsonb('properties').$type<Record<string, string>>().notNull().default({}),
    protection: pg.jsonb('protection').$type<Protection>().notNull().default({ review: 'none' }),
    createdAt: createdAt(),
  }),
  (t) => [
    unique('namespace_id').on(t.id),
    index('namespace_owner').on(t.owner).where(sql`owner is not null`),
  ],
)
