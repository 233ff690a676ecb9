// Grants are stored by a plugin. Owners are stored here, in a column of each owned resource.

import { timestampDate } from '@bufbuild/protobuf/wkt'
import { Code, ConnectError } from '@connectrpc/connect'
import {
  type Grant as GrantMessage,
  RevokeOutcome,
  SharingService,
} from '../../proto/gen/sluice/sharing/v1/sharing_pb.ts'
import { isPlainText } from '../auth/access-tokens.ts'
import type { Grant, Sharing } from '../core/access.ts'
import { AppError, invalid } from '../core/errors.ts'
import { isUuid } from '../core/ids.ts'
import { limits } from '../core/limits.ts'
import type { Channel } from './channel.ts'
import { isAllowed, permissionMessage, permissionOf, typeMessage, typeOf, Unusable } from './messages.ts'

interface SharingPluginDeps {
  channel: Channel
  /** Stores the owners. */
  owners: Pick<Sharing, 'transferOwnership'>
}

export function makeSharingPlugin({ channel, owners }: SharingPluginDeps): Sharing {
  const plugin = channel.client(SharingService)

  return {
    createGrant: ({ grantorId, granteeId, resourceType, resourceId, permission }) =>
      callPlugin(async (options) => {
        const question = {
          grantorId,
          granteeId,
          resourceType: typeMessage(resourceType),
          resourceId,
          permission: permissionMessage(permission),
        }
        const { decision, grant } = await plugin.createGrant(question, options)
        if (!isAllowed(decision))
          throw invalid('grantee_id', 'the sharing plugin rejects grants to this user')
        const created = grantOf(grant)
        const isAsRequested =
          created.grantorId === grantorId &&
          created.granteeId === granteeId &&
          created.resourceType === resourceType &&
          created.resourceId === resourceId &&
          created.permission === permission
        if (!isAsRequested) throw new Unusable('the response has a grant other than the requested one')
        return created
      }),
    listGrants: ({ type, id }) =>
      callPlugin(async (options) => {
        const filter = { case: 'resource' as const, value: { type: typeMessage(type), id } }
        const grants = (await plugin.listGrants({ filter }, options)).grants.map(grantOf)
        if (grants.some((grant) => grant.resourceType !== type || grant.resourceId !== id))
          throw new Unusable('the response has grants on another resource')
        return grants
      }),
    grant: (id) =>
      callPlugin(async (options) => {
        const filter = { case: 'grantId' as const, value: id }
        const [found, more] = (await plugin.listGrants({ filter }, options)).grants.map(grantOf)
        if (more !== undefined || (found !== undefined && found.id !== id))
          throw new Unusable('the response has a grant with another id')
        return found ?? null
      }),
    revokeGrant: (grantId) =>
      callPlugin(async (options) => {
        const { outcome } = await plugin.revokeGrant({ grantId }, options)
        if (outcome === RevokeOutcome.REVOKED) return true
        if (outcome === RevokeOutcome.NOT_FOUND) return false
        throw new Unusable('the response has no outcome')
      }),
    async transferOwnership(pipelineId, from, to, isVouchedFor) {
      await callPlugin(async (options) => {
        const question = { pipelineId, fromUserId: from ?? undefined, toUserId: to }
        const { decision } = await plugin.transferOwnership(question, options)
        if (!isAllowed(decision))
          throw invalid('to_user_id', 'the sharing plugin rejects a transfer to this user')
      })
      return owners.transferOwnership(pipelineId, from, to, isVouchedFor)
    },
  }

  /** A plugin may omit sharing. */
  function callPlugin<Answer>(call: Parameters<typeof channel.call<Answer>>[0]): Promise<Answer> {
    return channel.call((options) =>
      call(options).catch((error: unknown) => {
        throw error instanceof ConnectError && error.code === Code.Unimplemented
          ? sharingUnavailable()
          : error
      }),
    )
  }
}

/** Replaces Sharing when a plugin decides on rights without knowing the grants, so that grants would have no effect. */
export const noSharing: Sharing = {
  createGrant: async () => rejectCall(),
  listGrants: async () => rejectCall(),
  grant: async () => rejectCall(),
  revokeGrant: async () => rejectCall(),
  transferOwnership: async () => rejectCall(),
}

function rejectCall(): never {
  throw sharingUnavailable()
}

const sharingUnavailable = () =>
  new AppError(501, 'UNAVAILABLE', 'sharing is not available in this installation')

function grantOf(message: GrantMessage | undefined): Grant {
  if (message === undefined) throw new Unusable('the response has no grant')
  const { id, grantorId, granteeId, resourceId, createdAt } = message
  const at = createdAt === undefined ? null : timestampDate(createdAt)
  if (!isUuid(id) || !isUuid(resourceId) || at === null || Number.isNaN(at.getTime()))
    throw new Unusable('the response has a grant without a valid id, resource or time')
  // A grantor that is an API key has no id.
  const areUsers =
    (grantorId === '' || isPlainText(grantorId, limits.subjectLength)) &&
    isPlainText(granteeId, limits.subjectLength)
  if (!areUsers) throw new Unusable('the response has a grant without valid users')
  return {
    id,
    grantorId,
    granteeId,
    resourceType: typeOf(message.resourceType),
    resourceId,
    permission: permissionOf(message.permission),
    createdAt: at,
  }
}
