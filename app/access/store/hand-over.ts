// What happens to grants when a thing changes hands or goes: always in the transaction of that.
import { and, type Column, eq, isNull, sql } from 'drizzle-orm'
import type { Tx } from '../../../drizzle/client.ts'
import { accessGrants, landingZones, pipelines } from '../../../drizzle/schema/index.ts'
import type { Resource } from '../../core/access.ts'

/**
 * Deletes the admin grants of the old owner, and remembers the owner of a pipeline: its code reads no more than the old owner
 * sees, until the new owner publishes it. With `isVouchedFor`, that holds only for code older than the published version.
 */
export async function forgetOwner(
  tx: Tx,
  { type, id, owner }: Pick<Resource, 'type' | 'id'> & { owner: string },
  isVouchedFor: boolean,
): Promise<void> {
  if (type === 'pipeline')
    await tx
      .update(pipelines)
      .set(
        isVouchedFor
          ? {
              handedBefore: withLast(pipelines.handedBefore, owner),
              // A draft has no number: nobody can tell which of its states was vouched for.
              vouchedVersion: sql`coalesce(${pipelines.publishedVersion}, 1)`,
            }
          : { handedBy: withLast(pipelines.handedBy, owner) },
      )
      .where(eq(pipelines.id, id))
  await tx
    .delete(accessGrants)
    .where(
      and(ofResource({ type, id }), eq(accessGrants.granteeId, owner), eq(accessGrants.permission, 'admin')),
    )
}

const withLast = (owners: Column, owner: string) =>
  sql`array_append(array_remove(${owners}, ${owner}), ${owner}::text)`

/**
 * What is nobody's in a namespace works with the eyes of its owner. When the namespace goes it becomes theirs: were it nobody's
 * still, its code would see all that is nobody's.
 */
export async function leaveToOwner(tx: Tx, namespace: string, owner: string): Promise<void> {
  const isNobodys = ({ namespace: at, owner: by }: typeof pipelines | typeof landingZones) =>
    and(eq(at, namespace), isNull(by))
  await tx.update(pipelines).set({ owner }).where(isNobodys(pipelines))
  await tx.update(landingZones).set({ owner }).where(isNobodys(landingZones))
}

/** With what they are about: whatever takes its name later is another thing. */
export const deleteGrantsOf = async (tx: Tx, resource: Pick<Resource, 'type' | 'id'>): Promise<void> => {
  await tx.delete(accessGrants).where(ofResource(resource))
}

const ofResource = ({ type, id }: Pick<Resource, 'type' | 'id'>) =>
  and(eq(accessGrants.resourceId, id), eq(accessGrants.resourceType, type))
