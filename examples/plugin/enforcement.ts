import type { ConnectRouter } from '@connectrpc/connect'
import { EnforcementService } from '../../proto/gen/sluice/enforcement/v1/enforcement_pb.ts'
import { Decision, Permission, ResourceType } from '../../proto/gen/sluice/plugin/v1/plugin_pb.ts'
import type { Grants } from './grants.ts'

/** The rules of the service itself: an owner may do everything, others what is shared with them, and a namespace includes what is in it. */
export const enforcementService = (router: ConnectRouter, grants: Grants) =>
  router.service(EnforcementService, {
    check({ user, resource, permission }) {
      if (user === undefined || resource === undefined || permission === Permission.UNSPECIFIED)
        return { decision: Decision.DENIED }
      const isOwner = resource.ownerId === user.id || resource.namespaceOwnerId === user.id
      // Permissions are numbered so that a greater one includes the lesser ones.
      const isShared = grants
        .all()
        .some(
          (grant) =>
            grant.granteeId === user.id &&
            grant.permission >= permission &&
            ((grant.resourceType === resource.type && grant.resourceId === resource.id) ||
              (grant.resourceType === ResourceType.NAMESPACE && grant.resourceId === resource.namespaceId)),
        )
      return { decision: isOwner || isShared ? Decision.ALLOWED : Decision.DENIED }
    },
    listVisible({ user }) {
      const given = grants.all().filter(({ granteeId }) => granteeId === user?.id)
      const idsOf = (type: ResourceType) =>
        given.filter(({ resourceType }) => resourceType === type).map(({ resourceId }) => resourceId)
      const namespaceIds = idsOf(ResourceType.NAMESPACE)
      // Who owns what, and what is in a namespace, is for the service to look up.
      return {
        pipelines: { owned: true, ids: idsOf(ResourceType.PIPELINE), namespaceIds },
        landingZones: { owned: true, ids: idsOf(ResourceType.LANDING_ZONE), namespaceIds },
        namespaces: { owned: true, namespaceIds },
      }
    },
  })
