// Built-in sharing: grants are rows in the database of the shared resources.
import assert from 'node:assert'
import { and, asc, eq, isNull, sql } from 'drizzle-orm'
import type { Db, Tx } from '../../../drizzle/client.ts'
import { accessGrants } from '../../../drizzle/schema/access.ts'
import { landingZones } from '../../../drizzle/schema/landing.ts'
import { namespaces } from '../../../drizzle/schema/namespace.ts'
import { pipelines } from '../../../drizzle/schema/pipeline.ts'
import { userLock } from '../../../drizzle/user-lock.ts'
import type { Resource, Sharing } from '../../core/access.ts'
import { forbidden, notFound } from '../../core/errors.ts'
import type { NewId } from '../../core/ids.ts'
import { requireRoom, type SharedLimit } from '../../core/shares.ts'
import { forgetOwner } from './hand-over.ts'

/** Grants are listed without pages. The owner of the resource may use all of them. */
const GRANTS: SharedLimit = {
  limit: 1_000,
  things: 'grants on this resource',
  remedy: 'revoke some, or ask its owner to share a namespace',
}

export const makeSharing = ({ db, newId }: { db: Db; newId: NewId }): Sharing => ({
  createGrant: (grant, decidedFor) =>
    db.transaction(async (tx) => {
      const { resourceType, resourceId, permission } = grant
      const { owner } = await lockResource(tx, { type: resourceType, id: resourceId })
      if (decidedFor !== undefined && owner !== decidedFor)
        throw forbidden(
          `the owner of ${NAMES[resourceType]} ${resourceId} has changed: send the request again`,
        )
      const sharer = grant.grantorId === '' || grant.grantorId === owner ? null : grant.grantorId
      if (sharer !== null) await tx.execute(userLock(sharer))
      const ofResource = eq(accessGrants.resourceId, resourceId)
      const total = await tx.$count(accessGrants, ofResource)
      const own = await tx.$count(accessGrants, and(ofResource, eq(accessGrants.grantorId, grant.grantorId)))
      requireRoom(GRANTS, { total, own }, sharer)
      const [stored] = await tx
        .insert(accessGrants)
        .values({ ...grant, id: newId() })
        .onConflictDoUpdate({
          target: [
            accessGrants.resourceId,
            accessGrants.granteeId,
            accessGrants.grantorId,
            accessGrants.resourceType,
          ],
          set: { permission, createdAt: sql`clock_timestamp()` },
        })
        .returning()
      assert(stored !== undefined)
      return stored
    }),

  listGrants: async ({ type, id }) =>
    db
      .select()
      .from(accessGrants)
      .where(and(eq(accessGrants.resourceId, id), eq(accessGrants.resourceType, type)))
      .orderBy(asc(accessGrants.createdAt), asc(accessGrants.id)),

  async grant(id) {
    const [grant] = await db.select().from(accessGrants).where(eq(accessGrants.id, id))
    return grant ?? null
  },

  async revokeGrant(id) {
    const deleted = await db
      .delete(accessGrants)
      .where(eq(accessGrants.id, id))
      .returning({ id: accessGrants.id })
    return deleted.length > 0
  },

  /**
   * Returns false when `from` is no longer the owner. The second of two concurrent transfers waits for the first and then
   * returns false.
   */
  transferOwnership: (id, from, to, isVouchedFor = false) =>
    db.transaction(async (tx) => {
      const moved = await tx
        .update(pipelines)
        .set({ owner: to, updatedAt: sql`clock_timestamp()` })
        .where(
          and(
            eq(pipelines.id, id),
            sql`${pipelines.owner} is not distinct from ${from}::text`,
            isNull(pipelines.deletedAt),
          ),
        )
        .returning({ id: pipelines.id })
      if (moved.length === 0) return false
      if (from !== null && from !== to)
        await forgetOwner(tx, { type: 'pipeline', id, owner: from }, isVouchedFor)
      return true
    }),
})

/**
 * Locks the resource against deletion and transfer until the transaction ends, so that no grant outlives its resource. Throws
 * 404 when the resource does not exist.
 */
async function lockResource(tx: Tx, { type, id }: Pick<Resource, 'type' | 'id'>) {
  const table = TABLES[type]
  const [locked] = await tx
    .select({ owner: table.owner })
    .from(table)
    .where(and(eq(table.id, id), type === 'pipeline' ? isNull(pipelines.deletedAt) : undefined))
    .for('share')
  if (locked === undefined) throw notFound(`${NAMES[type]} ${id}`)
  return locked
}

const TABLES = { pipeline: pipelines, namespace: namespaces, landing_zone: landingZones }
const NAMES = { pipeline: 'pipeline', namespace: 'namespace', landing_zone: 'landing zone' }
