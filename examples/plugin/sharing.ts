import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import type { ConnectRouter } from '@connectrpc/connect'
import { Decision, Permission } from '../../proto/gen/sluice/plugin/v1/plugin_pb.ts'
import { RevokeOutcome, SharingService } from '../../proto/gen/sluice/sharing/v1/sharing_pb.ts'
import type { Grant, Grants } from './grants.ts'
import type { Users } from './users.ts'

/** Whether the caller may share was decided before: here it is kept. */
export const sharingService = (router: ConnectRouter, { users, grants }: { users: Users; grants: Grants }) =>
  router.service(SharingService, {
    createGrant({ grantorId, granteeId, resourceType, resourceId, permission }) {
      if (!users.has(granteeId)) return { decision: Decision.DENIED }
      const grant = grants.give({ grantorId, granteeId, resourceType, resourceId, permission })
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
    /** The service keeps owners, and tells them with each question of Enforcement: here it is agreed to only. */
    transferOwnership({ pipelineId, fromUserId, toUserId }) {
      if (!users.has(toUserId)) return { decision: Decision.DENIED }
      // What others gave the old owner would leave them with all that they hand over.
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
