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
      asked(async (options) => {
        const question = {
          grantorId,
          granteeId,
          resourceType: typeMessage(resourceType),
          resourceId,
          permission: permissionMessage(permission),
        }
        const { decision, grant } = await plugin.createGrant(question, options)
        if (!isAllowed(decision)) throw invalid('grantee_id', 'nothing can be shared with this user')
        const made = grantOf(grant)
        const isAsAsked =
          made.grantorId === grantorId &&
          made.granteeId === granteeId &&
          made.resourceType === resourceType &&
          made.resourceId === resourceId &&
          made.permission === permission
        if (!isAsAsked) throw new Unusable('the answer is another grant')
        return made
      }),
    listGrants: ({ type, id }) =>
      asked(async (options) => {
        const filter = { case: 'resource' as const, value: { type: typeMessage(type), id } }
        const grants = (await plugin.listGrants({ filter }, options)).grants.map(grantOf)
        if (grants.some((grant) => grant.resourceType !== type || grant.resourceId !== id))
          throw new Unusable('the answer has grants of something else')
        return grants
      }),
    grant: (id) =>
      asked(async (options) => {
        const filter = { case: 'grantId' as const, value: id }
        const [found, more] = (await plugin.listGrants({ filter }, options)).grants.map(grantOf)
        if (more !== undefined || (found !== undefined && found.id !== id))
          throw new Unusable('the answer is another grant')
        return found ?? null
      }),
    revokeGrant: (grantId) =>
      asked(async (options) => {
        const { outcome } = await plugin.revokeGrant({ grantId }, options)
        if (outcome === RevokeOutcome.REVOKED) return true
        if (outcome === RevokeOutcome.NOT_FOUND) return false
        throw new Unusable('the answer has no outcome')
      }),
    async transferOwnership(pipelineId, from, to, isVouchedFor) {
      await asked(async (options) => {
        const question = { pipelineId, fromUserId: from ?? undefined, toUserId: to }
        const { decision } = await plugin.transferOwnership(question, options)
        if (!isAllowed(decision)) throw invalid('to_user_id', 'nothing can be handed over to this user')
      })
      return owners.transferOwnership(pipelineId, from, to, isVouchedFor)
    },
  }

  /** A plugin may omit sharing. */
  function asked<Answer>(call: Parameters<typeof channel.ask<Answer>>[0]): Promise<Answer> {
    return channel.ask((options) =>
      call(options).catch((error: unknown) => {
        throw error instanceof ConnectError && error.code === Code.Unimplemented ? notOffered() : error
      }),
    )
  }
}

/** Replaces Sharing when a plugin decides on rights without knowing the grants, so that grants would have no effect. */
export const noSharing: Sharing = {
  createGrant: async () => refuse(),
  listGrants: async () => refuse(),
  grant: async () => refuse(),
  revokeGrant: async () => refuse(),
  transferOwnership: async () => refuse(),
}

function refuse(): never {
  throw notOffered()
}

const notOffered = () => new AppError(501, 'UNAVAILABLE', 'sharing is not available in this installation')

function grantOf(message: GrantMessage | undefined): Grant {
  if (message === undefined) throw new Unusable('the answer has no grant')
  const { id, grantorId, granteeId, resourceId, createdAt } = message
  const at = createdAt === undefined ? null : timestampDate(createdAt)
  if (!isUuid(id) || !isUuid(resourceId) || at === null || Number.isNaN(at.getTime()))
    throw new Unusable('the answer has a grant without id, resource or time')
  // A grantor that is an API key has no id.
  const areUsers =
    (grantorId === '' || isPlainText(grantorId, limits.subjectLength)) &&
    isPlainText(granteeId, limits.subjectLength)
  if (!areUsers) throw new Unusable('the answer has a grant without users')
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
