// Access control for other slices and the composition. rules.ts defines who may use which route.
import type { Tx } from '../../drizzle/client.ts'
import type { Access, Resource } from '../core/access.ts'
import { alreadyExists, forbidden } from '../core/errors.ts'
import { forgetOwner } from './store/hand-over.ts'
import type { Resources } from './store/resources.ts'

export { makeEnforcement } from './store/enforcement.ts'
export { assignUnowned, deleteGrantsOf } from './store/hand-over.ts'
export { makeResources, type PipelinePart, type Resources } from './store/resources.ts'
export { makeSharing } from './store/sharing.ts'
export { visibleTables, visibleZones } from './store/visible-tables.ts'

/**
 * Call this function in the transaction that changes the owner, after locking the row and before the change. Throws 403 unless
 * `by` is the owner or an administrator. Deletes the admin grants of the old owner, because they would keep rights that pass to
 * the new owner.
 */
export async function handOver(
  tx: Tx,
  resource: Pick<Resource, 'type' | 'id' | 'owner'>,
  to: string | null,
  by: Access,
): Promise<void> {
  const { type, id, owner } = resource
  if (to === owner) return
  if (!by.isAdmin && (owner === null || owner !== by.owner))
    throw forbidden('only the owner or an administrator may change the owner')
  if (owner !== null) await forgetOwner(tx, { type, id, owner }, by.isAdmin)
}

/** Throws unless any caller may create a namespace of this name: 409 when it exists, 403 while data of others remains in it. */
export async function checkNewNamespace(
  name: string,
  resources: Pick<Resources, 'namespace' | 'isLeftoverOfNamespace'>,
): Promise<void> {
  if ((await resources.namespace(name)) !== null) throw alreadyExists(`namespace ${name}`)
  if (await resources.isLeftoverOfNamespace(name))
    throw forbidden(`namespace ${name} still has data of other owners: only an administrator may create it`)
}
