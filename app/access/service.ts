// The parts of access control that other slices and the composition use. Who may use which route is in rules.ts.
import type { Tx } from '../../drizzle/client.ts'
import type { Access, Resource } from '../core/access.ts'
import { forbidden } from '../core/errors.ts'
import { forgetOwner } from './store/hand-over.ts'

export { makeEnforcement } from './store/enforcement.ts'
export { deleteGrantsOf, leaveToOwner } from './store/hand-over.ts'
export { makeResources, type PipelinePart, type Resources } from './store/resources.ts'
export { tablesSeen, tablesSeenAt, zonesSeen } from './store/seen-tables.ts'
export { makeSharing } from './store/sharing.ts'

/**
 * Call it for a locked row, in its transaction, before the owner changes. Rejects with 403 unless `by` is the owner or an
 * administrator. Admin grants of the old owner are deleted: they would keep the rights that go to the new owner.
 */
export async function handOver(
  tx: Tx,
  resource: Pick<Resource, 'type' | 'id' | 'owner'>,
  to: string | null,
  by: Access,
): Promise<void> {
  const { type, id, owner } = resource
  if (to === owner) return
  if (!by.isAdmin && (owner === null || owner !== by.owner)) throw forbidden('only the owner hands it over')
  if (owner !== null) await forgetOwner(tx, { type, id, owner }, by.isAdmin)
}
