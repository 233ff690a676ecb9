import { sql } from 'drizzle-orm'
import { check, index, pgTable, unique } from 'drizzle-orm/pg-core'
import { createdAt, instant } from './columns.ts'

/** Users with a place in the licence (Pro). */
export const licensedUsers = pgTable('licensed_user', (pg) => ({
  /** Subject of a token. */
  userId: pg.text('user_id').primaryKey(),
  /** Time of the user's last request, accurate to an hour. */
  seenAt: instant('seen_at').notNull(),
}))

/**
 * Rights on resources of other users. There is no foreign key, because resources have three types. A transaction that deletes a
 * resource also deletes its grants, and a transaction that creates a grant locks the resource.
 */
export const accessGrants = pgTable(
  'access_grant',
  (pg) => ({
    id: pg.uuid('id').primaryKey(),
    /** Subjects of tokens; empty for an API key. */
    grantorId: pg.text('grantor_id').notNull(),
    granteeId: pg.text('grantee_id').notNull(),
    resourceType: pg.text('resource_type', { enum: ['pipeline', 'namespace', 'landing_zone'] }).notNull(),
    resourceId: pg.uuid('resource_id').notNull(),
    permission: pg.text('permission', { enum: ['read', 'write', 'admin'] }).notNull(),
    createdAt: createdAt(),
  }),
  (t) => [
    unique('access_grant_once').on(t.resourceId, t.granteeId, t.grantorId, t.resourceType),
    /** For the resources that a grantee may see. */
    index('access_grant_grantee').on(t.granteeId, t.resourceType, t.resourceId),
    check('access_grant_type', sql`${t.resourceType} in ('pipeline', 'namespace', 'landing_zone')`),
    check('access_grant_permission', sql`${t.permission} in ('read', 'write', 'admin')`),
  ],
)
