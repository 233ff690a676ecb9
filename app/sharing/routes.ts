// Sharing belongs to the Pro edition (specification: Sharing). The community edition has the same routes and answers 501.
import { Type as t } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { described } from '../core/documented.ts'
import { AppError } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import { ErrorBody } from '../core/names.ts'
import { itemsOn, pageOf, setLink } from '../core/pagination.ts'
import { exchangeOf } from '../http/exchange.ts'
import {
  AccessGrant,
  CreateGrant,
  GrantList,
  GrantPath,
  GrantQuery,
  Transfer,
  Transferred,
} from './schema.ts'
import type { SharingService } from './service.ts'

const REFUSALS = { 400: ErrorBody, 401: ErrorBody, 403: ErrorBody, 404: ErrorBody, 501: ErrorBody }
const PRO = 'Only in the Pro edition; the community edition returns 501.'

const GRANT = {
  response: { 201: AccessGrant, ...REFUSALS, 409: ErrorBody },
  detail: {
    operationId: 'createGrant',
    summary: 'Grant access to a resource',
    description: `Requires admin permission on the resource. Replaces an earlier grant by the same user to the same user on the resource. ${PRO}`,
  },
}
const LIST = {
  response: { 200: GrantList, 400: ErrorBody, 401: ErrorBody, 501: ErrorBody },
  detail: {
    operationId: 'listGrants',
    summary: 'List the grants of a resource',
    description: `Returns the oldest grants first. Without admin permission on the resource, callers see only grants that they gave or received. ${PRO}`,
  },
}
const REVOKE = {
  response: { 204: t.Void(), 401: ErrorBody, 403: ErrorBody, 404: ErrorBody, 501: ErrorBody },
  detail: {
    operationId: 'deleteGrant',
    summary: 'Revoke a grant',
    description: `Allowed for the creator of the grant, the owner of the resource and administrators. Takes effect with the next request. ${PRO}`,
  },
}
const TRANSFER = {
  response: { 200: Transferred, ...REFUSALS },
  detail: {
    operationId: 'transferPipeline',
    summary: 'Transfer a pipeline to another owner',
    description: `Allowed for the owner and administrators. The old owner keeps only grants below admin. ${PRO}`,
  },
}

/** Null selects the community edition. */
export const sharingRoutes = (sharing: SharingService | null) =>
  sharing === null ? communityRoutes() : proRoutes(sharing)

const proRoutes = (sharing: SharingService) =>
  new Elysia({ prefix: '/sharing', tags: ['sharing'] })
    .post(
      '',
      async ({ body, request, status }) => status(201, await sharing.grant(body, exchangeOf(request).access)),
      { body: CreateGrant, ...GRANT },
    )
    .get(
      '',
      async ({ query, request, set }) => {
        const page = pageOf(query, limits.listCap)
        const { grants, total } = await sharing.list(query, exchangeOf(request).access)
        setLink(set, request.url, page, total)
        return { grants: itemsOn(page, grants), total }
      },
      { query: GrantQuery, ...LIST },
    )
    .delete(
      '/:id',
      async ({ params, request, status }) => {
        await sharing.revoke(params.id, exchangeOf(request).access)
        return status(204, undefined)
      },
      { params: GrantPath, ...REVOKE },
    )
    .post('/transfer', ({ body, request }) => sharing.transfer(body, exchangeOf(request).access), {
      body: Transfer,
      ...TRANSFER,
    })

/** Every request gets the same error. So the input schemas are only documented, not validated. */
const communityRoutes = () =>
  new Elysia({ prefix: '/sharing', tags: ['sharing'] })
    .post('', refuse, { ...GRANT, detail: { ...GRANT.detail, ...described({ body: CreateGrant }) } })
    .get('', refuse, {
      ...LIST,
      detail: { ...LIST.detail, ...described({ query: GrantQuery }) },
    })
    .delete('/:id', refuse, {
      ...REVOKE,
      detail: { ...REVOKE.detail, ...described({ params: GrantPath }) },
    })
    .post('/transfer', refuse, {
      ...TRANSFER,
      detail: { ...TRANSFER.detail, ...described({ body: Transfer }) },
    })

function refuse(): never {
  throw new AppError(501, 'UNAVAILABLE', 'sharing is not available in the community edition')
}
