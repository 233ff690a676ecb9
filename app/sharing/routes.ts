// Sharing belongs to the Pro edition (specification: Sharing). The community edition knows the addresses and says so.
import { type TSchema, Type as t } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { AppError } from '../http/errors.ts'
import { ErrorBody, Instant, Uuid } from '../http/names.ts'

const ResourceType = t.Union([t.Literal('pipeline'), t.Literal('namespace'), t.Literal('landing_zone')], {
  examples: ['pipeline'],
  description: 'What kind of resource is shared',
})
const UserId = t.String({ examples: ['ann'], description: 'Id of a user' })
const Permission = t.Union([t.Literal('read'), t.Literal('write'), t.Literal('admin')], {
  examples: ['read'],
  description: 'admin includes write, write includes read',
})

const Grant = t.Object({
  grantee_id: UserId,
  resource_type: ResourceType,
  resource_id: Uuid,
  permission: Permission,
})
const AccessGrant = t.Object({ id: Uuid, grantor_id: UserId, ...Grant.properties, created_at: Instant })
const GrantList = t.Object({ grants: t.Array(AccessGrant), total: t.Integer() })
const Transfer = t.Object({ resource_type: t.Literal('pipeline'), resource_id: Uuid, to_user_id: UserId })
const Transferred = t.Object({ transferred: t.Literal(true), resource_id: Uuid, new_owner: UserId })

/** For the document only: whatever is sent, the answer is the same. */
const jsonDocument = (schema: TSchema) => ({
  requestBody: { required: true, content: { 'application/json': { schema: t.Unsafe<object>(schema) } } },
})
const parameterDocument = (
  place: 'path' | 'query',
  name: string,
  { description, examples, ...schema }: TSchema,
) => ({
  in: place,
  name,
  required: true,
  description,
  example: Array.isArray(examples) ? examples[0] : undefined,
  schema: t.Unsafe<object>(schema),
})
const REFUSALS = { 400: ErrorBody, 401: ErrorBody, 403: ErrorBody, 404: ErrorBody, 501: ErrorBody }
const PRO = 'Pro edition. The community edition answers 501.'

export const sharingRoutes = () =>
  new Elysia({ prefix: '/sharing', tags: ['sharing'] })
    .post('', refuse, {
      response: { 201: AccessGrant, ...REFUSALS },
      detail: { ...jsonDocument(Grant), summary: 'Grant access to a resource', description: PRO },
    })
    .get('', refuse, {
      response: { 200: GrantList, 400: ErrorBody, 401: ErrorBody, 501: ErrorBody },
      detail: {
        summary: 'List the grants of a resource',
        description: PRO,
        parameters: [
          parameterDocument('query', 'resource_type', ResourceType),
          parameterDocument('query', 'resource_id', Uuid),
        ],
      },
    })
    .delete('/:id', refuse, {
      response: { 204: t.Void(), 401: ErrorBody, 403: ErrorBody, 404: ErrorBody, 501: ErrorBody },
      detail: {
        summary: 'Revoke a grant',
        description: PRO,
        parameters: [parameterDocument('path', 'id', Uuid)],
      },
    })
    .post('/transfer', refuse, {
      response: { 200: Transferred, ...REFUSALS },
      detail: {
        ...jsonDocument(Transfer),
        summary: 'Hand a pipeline over to another owner',
        description: PRO,
      },
    })

function refuse(): never {
  throw new AppError(501, 'UNAVAILABLE', 'sharing is not available in the community edition')
}
