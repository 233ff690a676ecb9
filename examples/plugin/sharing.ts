import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import type { ConnectRouter } from '@connectrpc/connect'
import { Decision, Permission } from '../../proto/gen/sluice/plugin/v1/plugin_pb.ts'
import { RevokeOutcome, SharingService } from '../../proto/gen/sluice/sharing/v1/sharing_pb.ts'
import type { Grant, Grants } from './grants.ts'
import type { Users } from './users.ts'

/** Stores grants. The service has already checked that the caller may share the resource. */
export const sharingService = (router: ConnectRouter, { users, grants }: { users: Users; grants: Grants }) =>
  router.service(SharingService, {
    createGrant({ grantorId, granteeId, resourceType, resourceId, permission }) {
      if (!users.has(granteeId)) return { decision: Decision.DENIED }
      const grant = grants.add({ grantorId, granteeId, resourceType, resourceId, permission })
      return { decision: Decision.ALLOWED, grant: messageOf(grant) }
    },
    listGrants({ filter }) {
      const isAskedFor = ({ id, resourceType, resourceId }: Grant) =>
        filter.case === 'resource'
          ? filter.value.type === resourceType && filter.value.id === resourceId
          : filter.value === id
      return { grants: grants.all().filter(isAskedFor).map(messageOf) }
    },
    revokeGrant({ grantId }) {
      const removed = grants.remove(({ id }) => id === grantId)
      return { outcome: removed > 0 ? RevokeOutcome.REVOKED : RevokeOutcome.NOT_FOUND }
    },
    /** Only approves the transfer. The service stores owners and sends them with each request to `EnforcementService`. */
    transferOwnership({ pipelineId, fromUserId, toUserId }) {
      if (!users.has(toUserId)) return { decision: Decision.DENIED }
      // An ADMIN grant from another user would leave the old owner with full access after the transfer.
      grants.remove(
        ({ resourceId, granteeId, permission }) =>
          resourceId === pipelineId && granteeId === fromUserId && permission === Permission.ADMIN,
      )
      return { decision: Decision.ALLOWED }
    },
  })

const messageOf = ({ createdAt, ...grant }: Grant) => ({
  ...grant,
  createdAt: timestampFromDate(new Date(createdAt)),
})
