// What is asked of plugins in their words, and what they answer in ours. Whatever is no answer throws Unusable.
import {
  Decision,
  Permission as WirePermission,
  ResourceType as WireResourceType,
} from '../../proto/gen/sluice/plugin/v1/plugin_pb.ts'
import type { Permission, ResourceType } from '../core/access.ts'
import type { Identity } from '../core/identity.ts'

/** The plugin has answered, and what it says is none of the answers that there are. `message` has nothing of the plugin's in it. */
export class Unusable extends Error {}

/** Whether it is allowed. Anything but the two answers, the default of an empty message included, is none. */
export function isAllowed(decision: Decision): boolean {
  if (decision === Decision.ALLOWED) return true
  if (decision === Decision.DENIED) return false
  throw new Unusable('the answer has no decision')
}

export const userMessage = ({ userId, name, roles }: Identity) => ({ id: userId, name, roles: [...roles] })

const TYPES = {
  pipeline: WireResourceType.PIPELINE,
  namespace: WireResourceType.NAMESPACE,
  landing_zone: WireResourceType.LANDING_ZONE,
} as const satisfies Record<ResourceType, WireResourceType>

const PERMISSIONS = {
  read: WirePermission.READ,
  write: WirePermission.WRITE,
  admin: WirePermission.ADMIN,
} as const satisfies Record<Permission, WirePermission>

export const typeMessage = (type: ResourceType) => TYPES[type]
export const permissionMessage = (permission: Permission) => PERMISSIONS[permission]

export const typeOf = (message: WireResourceType): ResourceType =>
  known(
    ['pipeline', 'namespace', 'landing_zone'] as const,
    (type) => TYPES[type] === message,
    'type of resource',
  )
export const permissionOf = (message: WirePermission): Permission =>
  known(
    ['read', 'write', 'admin'] as const,
    (permission) => PERMISSIONS[permission] === message,
    'permission',
  )

function known<Value>(values: readonly Value[], matches: (value: Value) => boolean, what: string): Value {
  const found = values.find(matches)
  if (found === undefined) throw new Unusable(`the answer has an unknown ${what}`)
  return found
}
