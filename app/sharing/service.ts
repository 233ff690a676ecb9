import type { Resources } from '../access/service.ts'
import type { Access, Grant, Resource, Sharing } from '../core/access.ts'
import { forbidden, notFound } from '../core/errors.ts'
import type { AccessGrant, CreateGrant, GrantList, GrantQuery, Transfer, Transferred } from './schema.ts'

export interface SharingDeps {
  resources: Pick<Resources, 'shared'>
  sharing: Sharing
}

export type SharingService = ReturnType<typeof makeSharingService>

/** Who may share, see and take back what; `by` is the caller. Administrators may do all of it. */
export function makeSharingService({ resources, sharing }: SharingDeps) {
  async function existing({ resource_type: type, resource_id: id }: GrantQuery): Promise<Resource> {
    const resource = await resources.shared(type, id)
    if (resource === null) throw notFound(`${type.replace('_', ' ')} ${id}`)
    return resource
  }

  return {
    async grant(request: CreateGrant, by: Access): Promise<AccessGrant> {
      const resource = await existing(request)
      if (!(await by.may(resource, 'admin'))) throw forbidden('sharing needs admin on the resource')
      const grant = await sharing.createGrant(
        {
          grantorId: subjectOf(by),
          granteeId: request.grantee_id,
          resourceType: resource.type,
          resourceId: resource.id,
          permission: request.permission,
        },
        // Who hands it over while this is decided gives nothing away any more.
        resource.owner,
      )
      return shapeOf(grant)
    },

    /** All of them for who has admin on the resource; others are shown what they have given or got. */
    async list({ resource_type: type, resource_id: id }: GrantQuery, by: Access): Promise<GrantList> {
      const resource = await resources.shared(type, id)
      if (resource === null) return { grants: [], total: 0 }
      const [isShown, all] = await Promise.all([by.may(resource, 'admin'), sharing.listGrants({ type, id })])
      const subject = subjectOf(by)
      const grants = isShown
        ? all
        : all.filter(({ grantorId, granteeId }) => grantorId === subject || granteeId === subject)
      return { grants: grants.map(shapeOf), total: grants.length }
    },

    /** By who created it, or who owns the resource. */
    async revoke(id: string, by: Access): Promise<void> {
      const grant = await sharing.grant(id)
      if (grant === null) throw notFound(`grant ${id}`)
      if (!by.isAdmin && grant.grantorId !== by.owner) {
        const resource = await resources.shared(grant.resourceType, grant.resourceId)
        if (!isOwner(by, resource))
          throw forbidden('a grant is revoked by who created it or by the owner of the resource')
      }
      if (!(await sharing.revokeGrant(id))) throw notFound(`grant ${id}`)
    },

    /** Of several at once one succeeds: the others were not by the owner any more. */
    async transfer({ resource_id: id, to_user_id: to }: Transfer, by: Access): Promise<Transferred> {
      const resource = await existing({ resource_type: 'pipeline', resource_id: id })
      if (!by.isAdmin && !isOwner(by, resource)) throw forbidden('only the owner transfers a pipeline')
      if (!(await sharing.transferOwnership(id, resource.owner, to, by.isAdmin)))
        throw forbidden('the pipeline has another owner by now')
      return { transferred: true, resource_id: id, new_owner: to }
    },
  }
}

/** An API key has no subject, and what it gives shows none. */
const subjectOf = ({ owner }: Access) => owner ?? ''

const isOwner = (by: Access, resource: Resource | null) =>
  resource !== null && resource.owner !== null && resource.owner === by.owner

const shapeOf = (grant: Grant): AccessGrant => ({
  id: grant.id,
  grantor_id: grant.grantorId,
  grantee_id: grant.granteeId,
  resource_type: grant.resourceType,
  resource_id: grant.resourceId,
  permission: grant.permission,
  created_at: grant.createdAt.toISOString(),
})
