// Rights of one request's caller, with as few calls to the Enforcement as possible.

import { type Access, type Enforcement, UNLIMITED, type Visible } from '../core/access.ts'
import { type Identity, isAdmin, nameOf } from '../core/identity.ts'

export type AccessOf = (identity: Identity) => Access

/** Access without authentication: every request may do everything, and created resources have no owner. */
export const everythingToAll: AccessOf = () => UNLIMITED

/** Administrators may do everything; `enforcement` decides for other callers. */
export function accessBy(enforcement: Enforcement): AccessOf {
  return (identity) => {
    const owner = identity.userId === '' ? null : identity.userId
    const person = nameOf(identity)
    if (isAdmin(identity)) return { ...UNLIMITED, owner, person }
    let visible: Promise<Visible> | null = null
    return {
      owner,
      person,
      isAdmin: false,
      visible: () => {
        visible ??= enforcement.listVisible(identity)
        return visible
      },
      may: (resource, permission) => enforcement.check(identity, resource, permission),
    }
  }
}
