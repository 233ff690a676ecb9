import { Elysia } from 'elysia'
import { CommitList } from '../branches/schema.ts'
import { ErrorBody, PipelinePath } from '../core/names.ts'
import { setLink } from '../core/pagination.ts'
import { callerNameOf, exchangeOf, visibleTo } from '../http/exchange.ts'
import { CommitsQuery, HistoryQuery, RestoreTable, TableHistory, TableRestored } from './schema.ts'
import type { HistoryService } from './service.ts'

const nameOf = ({ ns, layer, name }: PipelinePath) => ({ namespace: ns, layer, name })

export const commitRoutes = (history: HistoryService) =>
  new Elysia({ prefix: '/commits', tags: ['history'] }).get(
    '',
    async ({ query, request, set }) => {
      const { page, ...list } = await history.commits(query, await visibleTo(request))
      setLink(set, request.url, page, list.total)
      return list
    },
    {
      query: CommitsQuery,
      response: { 200: CommitList, 400: ErrorBody },
      detail: {
        operationId: 'listCommits',
        summary: 'List the commits of main',
        description:
          'Returns the newest commits first. Retention removes commits whose tables were all replaced long ago.',
      },
    },
  )

export const tableHistoryRoutes = (history: HistoryService) =>
  new Elysia({ prefix: '/tables', tags: ['history'] })
    .get(
      '/:ns/:layer/:name/history',
      async ({ params, query, request, set }) => {
        const { page, ...list } = await history.history(nameOf(params), query)
        setLink(set, request.url, page, list.total)
        return list
      },
      {
        params: PipelinePath,
        query: HistoryQuery,
        response: { 200: TableHistory, 400: ErrorBody, 404: ErrorBody },
        detail: {
          operationId: 'getTableHistory',
          summary: 'List the states of a table',
          description:
            'Returns the states that are kept, newest first: those of main, or those of a branch and of main up to its base.',
        },
      },
    )
    .post(
      '/:ns/:layer/:name/restore',
      ({ params, body, request }) =>
        history.restore(nameOf(params), body, callerNameOf(request), exchangeOf(request).access.person),
      {
        params: PipelinePath,
        body: RestoreTable,
        response: { 200: TableRestored, 400: ErrorBody, 404: ErrorBody, 409: ErrorBody },
        detail: {
          operationId: 'restoreTable',
          summary: 'Restore a table',
          description:
            'Makes a commit of main in which the table has the rows and columns of an earlier commit. No data is copied, and the states in between stay.',
        },
      },
    )
