import { Elysia } from 'elysia'
import { limits } from '../core/limits.ts'
import { ErrorBody } from '../core/names.ts'
import { pageOf, setLink } from '../core/pagination.ts'
import { sharerOf } from '../core/shares.ts'
import { exchangeOf, visibleTo } from '../http/exchange.ts'
import { responseOf } from './engine-rows.ts'
import { ExecuteQuery, QueryResult, SchemaList, SchemaQuery } from './schema.ts'
import type { QueryService } from './service.ts'

const tags = ['query']

export const queryRoutes = (queries: QueryService) =>
  new Elysia({ prefix: '/query' }).post(
    '',
    async ({ body, request }) => {
      const sharer = sharerOf(exchangeOf(request).access)
      return responseOf(await queries.run(body, request.signal, await visibleTo(request), sharer))
    },
    {
      body: ExecuteQuery,
      response: { 200: QueryResult, 400: ErrorBody, 404: ErrorBody, 500: ErrorBody, 503: ErrorBody },
      detail: {
        operationId: 'executeQuery',
        summary: 'Execute a query',
        tags,
        description:
          'Executes one read-only statement on the current commit of main, on a branch, or on main as of an older point. A table is `layer.table` in the given namespace, or `namespace.layer.table`.',
      },
    },
  )

export const schemaRoutes = (queries: QueryService) =>
  new Elysia({ prefix: '/schema' }).get(
    '',
    async ({ query, request, set }) => {
      const page = pageOf(query, limits.listCap)
      const list = await queries.schema(query, page, await visibleTo(request))
      setLink(set, request.url, page, list.total)
      return list
    },
    {
      query: SchemaQuery,
      response: { 200: SchemaList, 400: ErrorBody, 404: ErrorBody, 500: ErrorBody, 503: ErrorBody },
      detail: {
        operationId: 'getSchema',
        summary: 'List the columns of every table',
        tags,
        description:
          'Returns the tables of all namespaces on the current commit of main, on a branch, or on main as of an older point.',
      },
    },
  )
