import { Elysia } from 'elysia'
import { ErrorBody } from '../core/names.ts'
import { visibleTo } from '../http/exchange.ts'
import { LineageGraph, LineageQuery } from './schema.ts'
import type { LineageService } from './service.ts'

export const lineageRoutes = (lineage: LineageService) =>
  new Elysia({ prefix: '/lineage' }).get(
    '',
    // A Response skips the schema check of each of thousands of nodes, whose types are known.
    async ({ query, request }) =>
      new Response(JSON.stringify(await lineage.graph(query, await visibleTo(request))), {
        headers: { 'content-type': 'application/json' },
      }),
    {
      query: LineageQuery,
      response: { 200: LineageGraph, 400: ErrorBody, 503: ErrorBody },
      detail: {
        operationId: 'getLineage',
        summary: 'Get the lineage graph',
        tags: ['lineage'],
        description:
          'Returns pipelines, tables and landing zones as nodes, and their references as edges. References are the literal ' +
          '`ref()` and `landing_zone()` calls in the sources that runs execute. With `namespace`, the graph contains the nodes ' +
          'of this namespace, and the tables of other namespaces that its pipelines read. With `node`, it contains only this ' +
          'node and the nodes upstream and downstream of it. An unknown namespace or node has an empty graph.',
      },
    },
  )
