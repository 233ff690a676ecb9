import { sql } from 'drizzle-orm'
import { check, index, pgTable, unique } from 'drizzle-orm/pg-core'
import { createdAt, instant } from './columns.ts'

/** Users who have a place in the licence (Pro). */
export const licensedUsers = pgTable('licensed_user', (pg) => ({
  /** Subject of a token. */
  userId: pg.text('user_id').primaryKey(),
  /** Within an hour. */
  seenAt: instant('seen_at').notNull(),
}))

/**
 * Who may use what is another's. Without a foreign key, since what is shared is of three kinds: whoever deletes one of
 * them deletes its grants in the same transaction, and whoever grants holds it meanwhile.
 */
export const accessGrants = pgTable(
  'access_grant',
  (pg) => ({
    id: pg.uuid('id').primaryKey(),
    /** Subjects of tokens; empty: an API key. */
    grantorId: pg.text('grantor_id').notNull(),
    granteeId: pg.text('grantee_id').notNull(),
    resourceType: pg.text('resource_type', { enum: ['pipeline', 'namespace', 'landing_zone'] }).notNull(),
    resourceId: pg.uuid('resource_id').notNull(),
    permission: pg.text('permission', { enum: ['read', 'write', 'admin'] }).notNull(),
    createdAt: createdAt(),
  }),
  (t) => [
    unique('access_grant_once').on(t.resourceId, t.granteeId, t.grantorId, t.resourceType),
    /** What a grantee may see. */
    index('access_grant_grantee').on(t.granteeId, t.resourceType, t.resourceId),
    check('access_grant_type', sql`${t.resourceType} in ('pipeline', 'namespace', 'landing_zone')`),
    check('access_grant_permission', sql`${t.permission} in ('read', 'write', 'admin')`),
  ],
)
