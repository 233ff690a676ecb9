import { Elysia } from 'elysia'
import { ErrorBody, PipelinePath } from '../core/names.ts'
import { refOf } from '../core/pipeline-ref.ts'
import { readerBehind } from '../http/reader.ts'
import { responseOf } from '../query/response.ts'
import type { PreviewService } from './preview.ts'
import { PipelinePreview, PipelinePreviewQuery, PreviewPipeline } from './preview-schema.ts'

export const previewRoutes = (previews: PreviewService) =>
  new Elysia({ prefix: '/pipelines', tags: ['pipelines'] }).post(
    '/:ns/:layer/:name/preview',
    async ({ params, query, body, request }) => {
      const asked = { ...body, queryLimit: query.limit }
      return responseOf(await previews.preview(refOf(params), asked, request.signal, readerBehind(request)))
    },
    {
      params: PipelinePath,
      query: PipelinePreviewQuery,
      body: PreviewPipeline,
      response: { 200: PipelinePreview, 400: ErrorBody, 404: ErrorBody, 503: ErrorBody },
      detail: {
        operationId: 'previewPipeline',
        summary: 'Preview the draft',
        description:
          'Executes the draft once on what the caller sees now, and writes nothing. A landing zone without files shows its samples.',
      },
    },
  )
