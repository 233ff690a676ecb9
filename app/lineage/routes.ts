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
          'Pipelines, tables and landing zones, and what reads and makes what: by the literal `ref()` and `landing_zone()` ' +
          'calls of the sources that runs execute. With `namespace`, its nodes and the tables of others that its pipelines read.',
      },
    },
  )
