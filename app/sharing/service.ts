import type { Resources } from '../access/service.ts'
import type { Access, Grant, Resource, Sharing } from '../core/access.ts'
import { forbidden, notFound } from '../core/errors.ts'
import type { AccessGrant, CreateGrant, GrantList, GrantQuery, Transfer, Transferred } from './schema.ts'

interface SharingDeps {
  resources: Pick<Resources, 'shared'>
  sharing: Sharing
}

export type SharingService = ReturnType<typeof makeSharingService>

/** Decides who may grant, list, revoke and transfer; `by` is the caller. Administrators may do everything. */
export function makeSharingService({ resources, sharing }: SharingDeps) {
  async function existing({ resource_type: type, resource_id: id }: GrantQuery): Promise<Resource> {
    const resource = await resources.shared(type, id)
    if (resource === null) throw notFound(named({ type, id }))
    return resource
  }

  return {
    async grant(request: CreateGrant, by: Access): Promise<AccessGrant> {
      const resource = await existing(request)
      if (!(await by.may(resource, 'admin')))
        throw forbidden(`admin permission on ${named(resource)} required: ask its owner`)
      const grant = await sharing.createGrant(
        {
          grantorId: subjectOf(by),
          granteeId: request.grantee_id,
          resourceType: resource.type,
          resourceId: resource.id,
          permission: request.permission,
        },
        // The grant is refused if the owner changes between this check and the insert.
        resource.owner,
      )
      return accessGrantOf(grant)
    },

    /** A caller with admin on the resource gets all grants. Other callers get only grants that they created or received. */
    async list({ resource_type: type, resource_id: id }: GrantQuery, by: Access): Promise<GrantList> {
      const resource = await resources.shared(type, id)
      if (resource === null) return { grants: [], total: 0 }
      const [isShown, all] = await Promise.all([by.may(resource, 'admin'), sharing.listGrants({ type, id })])
      const subject = subjectOf(by)
      const grants = isShown
        ? all
        : all.filter(({ grantorId, granteeId }) => grantorId === subject || granteeId === subject)
      return { grants: grants.map(accessGrantOf), total: grants.length }
    },

    /** Allowed for the grant's creator, the resource's owner and administrators. */
    async revoke(id: string, by: Access): Promise<void> {
      const grant = await sharing.grant(id)
      if (grant === null) throw notFound(`grant ${id}`)
      if (!by.isAdmin && grant.grantorId !== by.owner) {
        const resource = await resources.shared(grant.resourceType, grant.resourceId)
        if (!isOwner(by, resource))
          throw forbidden('only the creator of a grant or the owner of its resource can revoke it')
      }
      if (!(await sharing.revokeGrant(id))) throw notFound(`grant ${id}`)
    },

    /** Only one of several concurrent transfers succeeds. The others get 403, because the owner has changed. */
    async transfer({ resource_id: id, to_user_id: to }: Transfer, by: Access): Promise<Transferred> {
      const resource = await existing({ resource_type: 'pipeline', resource_id: id })
      if (!by.isAdmin && !isOwner(by, resource))
        throw forbidden('only the owner of a pipeline can transfer it')
      if (!(await sharing.transferOwnership(id, resource.owner, to, by.isAdmin)))
        throw forbidden(`the owner of pipeline ${id} has changed: send the request again`)
      return { transferred: true, resource_id: id, new_owner: to }
    },
  }
}

const named = ({ type, id }: Pick<Resource, 'type' | 'id'>) => `${type.replace('_', ' ')} ${id}`

/** An API key has no subject; its grants have an empty grantor. */
const subjectOf = ({ owner }: Access) => owner ?? ''

const isOwner = (by: Access, resource: Resource | null) =>
  resource !== null && resource.owner !== null && resource.owner === by.owner

const accessGrantOf = (grant: Grant): AccessGrant => ({
  id: grant.id,
  grantor_id: grant.grantorId,
  grantee_id: grant.granteeId,
  resource_type: grant.resourceType,
  resource_id: grant.resourceId,
  permission: grant.permission,
  created_at: grant.createdAt.toISOString(),
})
