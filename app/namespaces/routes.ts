import { Type as t } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { boundId } from '../core/bound.ts'
import { limits } from '../core/limits.ts'
import { ErrorBody } from '../core/names.ts'
import { pageOf, setLink, WholeListQuery } from '../core/pagination.ts'
import { exchangeOf, visibleTo } from '../http/exchange.ts'
import { CreateNamespace, Namespace, NamespaceList, NamespaceParams, UpdateNamespace } from './schema.ts'
import type { NamespaceService } from './service.ts'

export const namespaceRoutes = (namespaces: NamespaceService) =>
  new Elysia({ prefix: '/namespaces', strictPath: true, tags: ['namespaces'] })
    .get(
      '',
      async ({ query, request, set }) => {
        const page = pageOf(query, limits.listCap)
        const list = await namespaces.list(page, await visibleTo(request))
        setLink(set, request.url, page, list.total)
        return list
      },
      {
        query: WholeListQuery,
        response: { 200: NamespaceList },
        detail: {
          operationId: 'listNamespaces',
          summary: 'List namespaces',
          description: 'Returns namespaces ordered by name.',
        },
      },
    )
    .post(
      '',
      async ({ body, request, status }) =>
        status(201, await namespaces.create(body, exchangeOf(request).access)),
      {
        body: CreateNamespace,
        response: { 201: Namespace, 400: ErrorBody, 403: ErrorBody, 409: ErrorBody },
        detail: {
          operationId: 'createNamespace',
          summary: 'Create a namespace',
          description: 'Names of pipelines, tables and landing zones are unique within a namespace only.',
        },
      },
    )
    .get('/:name', async ({ params, request }) => namespaces.get(params.name, await visibleTo(request)), {
      params: NamespaceParams,
      response: { 200: Namespace, 404: ErrorBody },
      detail: {
        operationId: 'getNamespace',
        summary: 'Get a namespace',
        description: 'Returns the owner and the description of the namespace.',
      },
    })
    .put(
      '/:name',
      async ({ params, body, request, status }) => {
        await namespaces.update(refOf(params), body, exchangeOf(request).access)
        return status(204, undefined)
      },
      {
        params: NamespaceParams,
        body: UpdateNamespace,
        response: { 204: t.Void(), 400: ErrorBody, 403: ErrorBody, 404: ErrorBody },
        detail: {
          operationId: 'updateNamespace',
          summary: 'Update a namespace',
          description:
            'Replaces the description of the namespace, its protection, or both. In the Pro edition, the protection needs admin permission. A rule lower than `four-eyes` needs two administrators: the request of the first is stored and answered with 403, and the same request of a second one lowers the rule.',
        },
      },
    )
    .delete(
      '/:name',
      async ({ params, status }) => {
        await namespaces.remove(refOf(params))
        return status(204, undefined)
      },
      {
        params: NamespaceParams,
        response: { 204: t.Void(), 403: ErrorBody, 404: ErrorBody },
        detail: {
          operationId: 'deleteNamespace',
          summary: 'Delete a namespace',
          description:
            'Pipelines, tables and landing zones of the namespace remain and keep working. The namespace `default` and one with `review: four-eyes` cannot be deleted.',
        },
      },
    )

const refOf = (params: { name: string }) => ({ name: params.name, boundTo: boundId(params) })
