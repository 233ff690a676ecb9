import { Elysia } from 'elysia'
import { BranchPath } from '../branches/schema.ts'
import { limits } from '../core/limits.ts'
import { ErrorBody } from '../core/names.ts'
import { itemsOn, pageOf, setLink, WholeListQuery } from '../core/pagination.ts'
import { visibleTo } from '../http/exchange.ts'
import { listsResponseOf } from '../query/engine-rows.ts'
import { RunPath } from '../runs/schema.ts'
import { Diff, DiffQuery, RowDiff, RowDiffPath, RowDiffQuery, RunRowsQuery } from './schema.ts'
import type { DiffService } from './service.ts'

export const diffRoutes = (diffs: DiffService) =>
  new Elysia().use(branchDiffRoutes(diffs)).use(runDiffRoutes(diffs))

const branchDiffRoutes = (diffs: DiffService) =>
  new Elysia({ prefix: '/branches', tags: ['branches'] })
    .get(
      '/:branch/diff',
      async ({ params, query, request, set }) => {
        const { page, ...diff } = await diffs.diff(
          params.branch,
          query,
          request.signal,
          await visibleTo(request),
        )
        setLink(set, request.url, page, diff.total)
        return diff
      },
      {
        params: BranchPath,
        query: DiffQuery,
        response: { 200: Diff, 400: ErrorBody, 404: ErrorBody, 503: ErrorBody },
        detail: {
          operationId: 'getBranchDiff',
          summary: 'Compare a branch',
          description:
            'Returns the tables that the branch changed since its base, with the numbers of differing rows and columns.',
        },
      },
    )
    .get(
      '/:branch/diff/:ns/:layer/:name',
      async ({ params, query, request }) => {
        const { branch, ns: namespace, layer, name } = params
        return listsResponseOf(await diffs.rows(branch, { namespace, layer, name }, query, request.signal))
      },
      {
        params: RowDiffPath,
        query: RowDiffQuery,
        response: { 200: RowDiff, 400: ErrorBody, 404: ErrorBody, 409: ErrorBody, 503: ErrorBody },
        detail: {
          operationId: 'getBranchTableDiff',
          summary: 'Compare the rows of a table',
          description:
            'Returns rows that differ from the base of the branch. Rows with the same unique key of the pipeline are pairs of `before` and `after`.',
        },
      },
    )

const runDiffRoutes = (diffs: DiffService) =>
  new Elysia({ prefix: '/runs', tags: ['runs'] })
    .get(
      '/:id/diff',
      async ({ params, query, request, set }) => {
        const page = pageOf(query, limits.listCap)
        const diff = await diffs.ofRun(params.id, request.signal)
        setLink(set, request.url, page, diff.total)
        return { ...diff, tables: itemsOn(page, diff.tables) }
      },
      {
        params: RunPath,
        query: WholeListQuery,
        response: { 200: Diff, 404: ErrorBody, 503: ErrorBody },
        detail: {
          operationId: 'getRunDiff',
          summary: 'Compare the result of a run',
          description: 'Returns what the run changed, or what it would change while it is not merged.',
        },
      },
    )
    .get(
      '/:id/diff/rows',
      async ({ params, query, request }) =>
        listsResponseOf(await diffs.rowsOfRun(params.id, query, request.signal)),
      {
        params: RunPath,
        query: RunRowsQuery,
        response: { 200: RowDiff, 400: ErrorBody, 404: ErrorBody, 409: ErrorBody, 503: ErrorBody },
        detail: {
          operationId: 'getRunRowDiff',
          summary: 'Compare the rows of a run',
          description:
            'Returns rows that the run changed in its table, or would change while it is not merged. Rows with the same unique key of the pipeline are pairs of `before` and `after`. The lists are empty when the run changed no table. 404 when retention has removed the rows.',
        },
      },
    )
