// Changes grants when a resource gets another owner or is deleted. Each function runs in the transaction of that change.
import { and, type Column, eq, isNull, sql } from 'drizzle-orm'
import type { Tx } from '../../../drizzle/client.ts'
import { accessGrants } from '../../../drizzle/schema/access.ts'
import { landingZones } from '../../../drizzle/schema/landing.ts'
import { pipelines } from '../../../drizzle/schema/pipeline.ts'
import type { Resource } from '../../core/access.ts'

/**
 * Deletes the admin grants of the old owner, and stores the old owner of a pipeline. Until the new owner publishes it, the
 * pipeline's code reads only what the old owner also sees. With `isVouchedFor`, this limit applies only to code older than the
 * published version.
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
              // A draft has no version number, so an approval cannot name the approved state of a draft.
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
 * Gives a deleted namespace's resources without an owner to `owner`, the namespace's owner. Their code already saw what this
 * owner sees. Without an owner, their code would see all unowned resources instead.
 */
export async function assignUnowned(tx: Tx, namespace: string, owner: string): Promise<void> {
  const isNobodys = ({ namespace: at, owner: by }: typeof pipelines | typeof landingZones) =>
    and(eq(at, namespace), isNull(by))
  await tx.update(pipelines).set({ owner }).where(isNobodys(pipelines))
  await tx.update(landingZones).set({ owner }).where(isNobodys(landingZones))
}

/** Grants are deleted with their resource. A later resource of the same name does not inherit them. */
export const deleteGrantsOf = async (tx: Tx, resource: Pick<Resource, 'type' | 'id'>): Promise<void> => {
  await tx.delete(accessGrants).where(ofResource(resource))
}

const ofResource = ({ type, id }: Pick<Resource, 'type' | 'id'>) =>
  and(eq(accessGrants.resourceId, id), eq(accessGrants.resourceType, type))
