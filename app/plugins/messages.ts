// Converts requests to messages for plugins, and their answers back. An invalid answer throws Unusable.
import {
  Decision,
  Permission as WirePermission,
  ResourceType as WireResourceType,
} from '../../proto/gen/sluice/plugin/v1/plugin_pb.ts'
import type { Permission, ResourceType } from '../core/access.ts'
import type { Identity } from '../core/identity.ts'

/** The plugin gave none of the valid answers. `message` contains no text of the plugin. */
export class Unusable extends Error {}

/** Whether the answer allows the request. Only the two explicit decisions are valid; the default of an empty message is not. */
export function isAllowed(decision: Decision): boolean {
  if (decision === Decision.ALLOWED) return true
  if (decision === Decision.DENIED) return false
  throw new Unusable('the response has no decision')
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
  valueMatching(
    ['pipeline', 'namespace', 'landing_zone'] as const,
    (type) => TYPES[type] === message,
    'resource type',
  )
export const permissionOf = (message: WirePermission): Permission =>
  valueMatching(
    ['read', 'write', 'admin'] as const,
    (permission) => PERMISSIONS[permission] === message,
    'permission',
  )

function valueMatching<Value>(
  values: readonly Value[],
  matches: (value: Value) => boolean,
  kind: string,
): Value {
  const found = values.find(matches)
  if (found === undefined) throw new Unusable(`the response has an unknown ${kind}`)
  return found
}
