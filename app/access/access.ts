// What the caller of one request may do, asked of the Enforcement no more often than needed.

import { type Access, type Enforcement, UNLIMITED, type Visible } from '../core/access.ts'
import { type Identity, isAdmin } from '../core/identity.ts'

export type AccessOf = (identity: Identity) => Access

/** Nobody has to say who they are, so nobody can own anything. */
export const everythingToAll: AccessOf = () => UNLIMITED

/** Administrators may do everything; of all others `enforcement` is asked. */
export function accessBy(enforcement: Enforcement): AccessOf {
  return (identity) => {
    const owner = identity.userId === '' ? null : identity.userId
    if (isAdmin(identity)) return { ...UNLIMITED, owner }
    let visible: Promise<Visible> | null = null
    return {
      owner,
      isAdmin: false,
      visible: () => {
        visible ??= enforcement.listVisible(identity)
        return visible
      },
      may: (resource, permission) => enforcement.check(identity, resource, permission),
    }
  }
}
