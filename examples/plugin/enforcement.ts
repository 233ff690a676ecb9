import type { ConnectRouter } from '@connectrpc/connect'
import { EnforcementService } from '../../proto/gen/sluice/enforcement/v1/enforcement_pb.ts'
import { Decision, Permission, ResourceType } from '../../proto/gen/sluice/plugin/v1/plugin_pb.ts'
import type { Grants } from './grants.ts'

/**
 * Implements the rules of the service itself. An owner may do everything, and other users may do what their grants permit.
 * Ownership of a namespace, or a grant on it, covers the resources in the namespace.
 */
export const enforcementService = (router: ConnectRouter, grants: Grants) =>
  router.service(EnforcementService, {
    check({ user, resource, permission }) {
      if (user === undefined || resource === undefined || permission === Permission.UNSPECIFIED)
        return { decision: Decision.DENIED }
      const isOwner = resource.ownerId === user.id || resource.namespaceOwnerId === user.id
      // A permission with a greater number includes all permissions with lesser numbers.
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
      const userGrants = grants.all().filter(({ granteeId }) => granteeId === user?.id)
      const idsOf = (type: ResourceType) =>
        userGrants.filter(({ resourceType }) => resourceType === type).map(({ resourceId }) => resourceId)
      const namespaceIds = idsOf(ResourceType.NAMESPACE)
      // The service resolves ownership and the contents of namespaces itself.
      return {
        pipelines: { owned: true, ids: idsOf(ResourceType.PIPELINE), namespaceIds },
        landingZones: { owned: true, ids: idsOf(ResourceType.LANDING_ZONE), namespaceIds },
        namespaces: { owned: true, namespaceIds },
      }
    },
  })
