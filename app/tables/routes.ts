import { Elysia } from 'elysia'
import { limits } from '../core/limits.ts'
import { ErrorBody, PipelinePath } from '../core/names.ts'
import { rowLimitOf, setLink } from '../core/pagination.ts'
import { sharerOf } from '../core/shares.ts'
import { exchangeOf, visibleTo } from '../http/exchange.ts'
import { responseOf } from '../query/engine-rows.ts'
import { QueryResult } from '../query/schema.ts'
import {
  PREVIEW_ROWS,
  PreviewQuery,
  Table,
  TableFiles,
  TableFilesQuery,
  TableList,
  TableMetadata,
  TableQuery,
  TableStatistics,
  TableVersionQuery,
  UpdateTableMetadata,
} from './schema.ts'
import type { TableService } from './service.ts'

const tags = ['tables']
const ROWS = { fallback: PREVIEW_ROWS, max: limits.previewRowsMax }
const FILE_ERRORS = { 400: ErrorBody, 404: ErrorBody, 409: ErrorBody, 500: ErrorBody, 503: ErrorBody }
const nameOf = ({ ns, layer, name }: PipelinePath) => ({ namespace: ns, layer, name })

export const tableRoutes = (tables: TableService) =>
  new Elysia().use(describedTableRoutes(tables)).use(tableFileRoutes(tables))

const describedTableRoutes = (tables: TableService) =>
  new Elysia({ prefix: '/tables' })
    .get(
      '',
      async ({ query, request, set }) => {
        const { page, ...list } = await tables.list(query, await visibleTo(request))
        setLink(set, request.url, page, list.total)
        return list
      },
      {
        query: TableQuery,
        response: { 200: TableList, 400: ErrorBody, 404: ErrorBody, 500: ErrorBody, 503: ErrorBody },
        detail: {
          operationId: 'listTables',
          summary: 'List tables',
          tags,
          description:
            'Returns the tables of main, of a branch, or of main as of an older point, in order of name.',
        },
      },
    )
    .get(
      '/:ns/:layer/:name',
      async ({ params, query, request }) => tables.get(nameOf(params), query, await visibleTo(request)),
      {
        params: PipelinePath,
        query: TableVersionQuery,
        response: { 200: Table, 400: ErrorBody, 404: ErrorBody, 500: ErrorBody, 503: ErrorBody },
        detail: {
          operationId: 'getTable',
          summary: 'Get a table',
          tags,
          description:
            'Descriptions come from the stored metadata, or else from `.meta.yaml` of the pipeline.',
        },
      },
    )
    .get(
      '/:ns/:layer/:name/preview',
      async ({ params, query, request }) => {
        const limit = rowLimitOf(query.limit, ROWS)
        const visible = await visibleTo(request)
        const sharer = sharerOf(exchangeOf(request).access)
        return responseOf(await tables.preview(nameOf(params), query, limit, request.signal, visible, sharer))
      },
      {
        params: PipelinePath,
        query: PreviewQuery,
        response: { 200: QueryResult, 400: ErrorBody, 404: ErrorBody, 500: ErrorBody, 503: ErrorBody },
        detail: {
          operationId: 'previewTable',
          summary: 'Preview a table',
          tags,
          description: 'Returns some rows of the table, in no fixed order.',
        },
      },
    )
    .put('/:ns/:layer/:name/metadata', ({ params, body }) => tables.describe(nameOf(params), body), {
      params: PipelinePath,
      body: UpdateTableMetadata,
      response: { 200: TableMetadata, 400: ErrorBody, 404: ErrorBody, 503: ErrorBody },
      detail: {
        operationId: 'updateTableMetadata',
        summary: 'Describe a table',
        tags,
        description:
          'Changes the given fields; `column_descriptions` replaces all column descriptions. The metadata outlives the table: a new table of the name has it too.',
      },
    })

const tableFileRoutes = (tables: TableService) =>
  new Elysia({ prefix: '/tables' })
    .get(
      '/:ns/:layer/:name/files',
      async ({ params, query, request, set }) => {
        const { page, ...list } = await tables.files(nameOf(params), query, await visibleTo(request))
        setLink(set, request.url, page, list.total)
        return list
      },
      {
        params: PipelinePath,
        query: TableFilesQuery,
        response: { 200: TableFiles, ...FILE_ERRORS },
        detail: {
          operationId: 'listTableFiles',
          summary: 'List the data files of a table',
          tags,
          description:
            'Returns the live data files with their partitions. 409 for a view, which stores no rows.',
        },
      },
    )
    .get(
      '/:ns/:layer/:name/statistics',
      async ({ params, query, request }) =>
        tables.statistics(nameOf(params), query, await visibleTo(request)),
      {
        params: PipelinePath,
        query: TableVersionQuery,
        response: { 200: TableStatistics, ...FILE_ERRORS },
        detail: {
          operationId: 'getTableStatistics',
          summary: 'Get the statistics of a table',
          tags,
          description:
            'Returns statistics of each column, summed over the data files, and how new files are partitioned and sorted. Deleted rows of live files count. 409 for a view, which stores no rows.',
        },
      },
    )
