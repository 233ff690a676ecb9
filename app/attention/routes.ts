import { Elysia } from 'elysia'
import { setLink } from '../core/pagination.ts'
import { visibleTo } from '../http/exchange.ts'
import { Attention, AttentionQuery } from './schema.ts'
import type { AttentionService } from './service.ts'

export const attentionRoutes = (attention: AttentionService) =>
  new Elysia({ prefix: '/attention', tags: ['runs'] }).get(
    '',
    async ({ query, request, set }) => {
      const { page, ...body } = await attention.list(query, await visibleTo(request))
      setLink(set, request.url, page, body.total)
      return body
    },
    {
      query: AttentionQuery,
      response: { 200: Attention },
      detail: {
        operationId: 'listAttention',
        summary: 'List what needs attention',
        description:
          'Returns what is not settled, of all pipelines and branches and of any age: runs in review, failed pipelines, runs that wait, failing tests, branches behind main. Runs on other branches neither settle nor raise anything. Each kind has its newest items first.',
      },
    },
  )
