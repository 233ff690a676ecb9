import { Type as t } from '@sinclair/typebox'
import { Instant, literals, Uuid } from '../core/names.ts'
import { WholeListQuery } from '../core/pagination.ts'

const ResourceType = literals(['pipeline', 'namespace', 'landing_zone'], {
  title: 'ResourceType',
  examples: ['pipeline'],
  description: 'Kind of resource',
})
const UserId = t.String({
  minLength: 1,
  maxLength: 255,
  examples: ['ann'],
  description: "Id of a user: the subject of the user's access tokens",
})
const Permission = literals(['read', 'write', 'admin'], {
  title: 'Permission',
  examples: ['read'],
  description: 'Permission; admin includes write, and write includes read',
})

export const CreateGrant = t.Object(
  {
    grantee_id: UserId,
    resource_type: ResourceType,
    resource_id: Uuid,
    permission: Permission,
  },
  { title: 'CreateGrant' },
)
export type CreateGrant = typeof CreateGrant.static

export const AccessGrant = t.Object(
  {
    id: Uuid,
    grantor_id: t.String({
      examples: ['bob'],
      description: 'Id of the user who gave the grant; empty for an API key',
    }),
    ...CreateGrant.properties,
    created_at: Instant,
  },
  { title: 'AccessGrant' },
)
export type AccessGrant = typeof AccessGrant.static

export const GrantQuery = t.Composite([
  t.Object({ resource_type: ResourceType, resource_id: Uuid }),
  WholeListQuery,
])
export type GrantQuery = typeof GrantQuery.static
export const GrantList = t.Object(
  { grants: t.Array(AccessGrant), total: t.Integer() },
  { title: 'GrantList' },
)
export type GrantList = typeof GrantList.static
export const GrantPath = t.Object({ id: Uuid })

export const Transfer = t.Object(
  {
    resource_type: t.Literal('pipeline'),
    resource_id: Uuid,
    to_user_id: UserId,
  },
  { title: 'TransferPipeline' },
)
export type Transfer = typeof Transfer.static
export const Transferred = t.Object(
  {
    transferred: t.Literal(true),
    resource_id: Uuid,
    new_owner: UserId,
  },
  { title: 'PipelineTransferred' },
)
export type Transferred = typeof Transferred.static
