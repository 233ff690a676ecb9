import { randomUUID } from 'node:crypto'
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import type { Permission, ResourceType } from '../../proto/gen/sluice/plugin/v1/plugin_pb.ts'

export interface Grant {
  id: string
  grantorId: string
  granteeId: string
  resourceType: ResourceType
  resourceId: string
  permission: Permission
  /** ISO 8601 */
  createdAt: string
}

export interface Grants {
  /** Stores a grant. It replaces an earlier grant of the same grantor to the same grantee on the same resource. */
  add(grant: Omit<Grant, 'id' | 'createdAt'>): Grant
  /** All grants, the oldest first. */
  all(): Grant[]
  /** Removes the matching grants. Returns how many were removed. */
  remove(isMeant: (grant: Grant) => boolean): number
}

/** Opens the grants in memory, or in `file`. Each change rewrites the file before the call returns. */
export function openGrants(file?: string): Grants {
  let grants: Grant[] = file && existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : []

  function change(to: Grant[]) {
    if (file) {
      writeFileSync(`${file}.new`, JSON.stringify(to), { mode: 0o600 })
      renameSync(`${file}.new`, file)
    }
    grants = to
  }

  return {
    add(newGrant) {
      const isSame = (grant: Grant) =>
        grant.grantorId === newGrant.grantorId &&
        grant.granteeId === newGrant.granteeId &&
        grant.resourceType === newGrant.resourceType &&
        grant.resourceId === newGrant.resourceId
      const before = grants.find(isSame)
      const grant = { ...newGrant, id: before?.id ?? randomUUID(), createdAt: new Date().toISOString() }
      change([...grants.filter((other) => other !== before), grant])
      return grant
    },
    all: () => grants,
    remove(isMeant) {
      const remaining = grants.filter((grant) => !isMeant(grant))
      const removed = grants.length - remaining.length
      if (removed > 0) change(remaining)
      return removed
    },
  }
}
