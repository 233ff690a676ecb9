import { Type as t } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { limits } from '../core/limits.ts'
import { ErrorBody, PipelinePath } from '../core/names.ts'
import { pageOf, setLink, WholeListQuery } from '../core/pagination.ts'
import { refOf } from '../core/pipeline-ref.ts'
import { callerNameOf, exchangeOf, readerBehind, visibleTo } from '../http/exchange.ts'
import { IdempotencyHeaders, idempotencyKeyOf } from '../http/idempotency-key.ts'
import { responseOf } from '../query/engine-rows.ts'
import type { PreviewService } from './preview.ts'
import { PipelinePreview, PipelinePreviewQuery, PreviewPipeline } from './preview-schema.ts'
import {
  CreatePipeline,
  Pipeline,
  PipelineCreated,
  PipelineList,
  PipelineQuery,
  Published,
  PublishPipeline,
  PublishRefused,
  RollbackPipeline,
  RolledBack,
  UpdatePipeline,
  Version,
  VersionList,
  VersionPath,
} from './schema.ts'
import type { PipelineService } from './service.ts'

export const pipelineRoutes = (pipelines: PipelineService) =>
  new Elysia({ prefix: '/pipelines', tags: ['pipelines'] })
    .get(
      '',
      async ({ query, request, set }) => {
        const { page, ...list } = await pipelines.list(query, await visibleTo(request))
        setLink(set, request.url, page, list.total)
        return list
      },
      {
        query: PipelineQuery,
        response: { 200: PipelineList, 400: ErrorBody },
        detail: {
          operationId: 'listPipelines',
          summary: 'List pipelines',
          description: 'Returns one page of pipelines, each with its latest run.',
        },
      },
    )
    .post(
      '',
      async ({ body, request, status }) =>
        status(
          201,
          await pipelines.create(
            body,
            exchangeOf(request).access.owner,
            await visibleTo(request),
            callerNameOf(request),
          ),
        ),
      {
        body: CreatePipeline,
        response: { 201: PipelineCreated, 400: ErrorBody, 403: ErrorBody, 409: ErrorBody, 507: ErrorBody },
        detail: {
          operationId: 'createPipeline',
          summary: 'Create a pipeline',
          description: 'Writes a source file that can be published and run unchanged, and `config.yaml`.',
        },
      },
    )
    .get('/:ns/:layer/:name', ({ params }) => pipelines.get(refOf(params)), {
      params: PipelinePath,
      response: { 200: Pipeline, 404: ErrorBody },
      detail: {
        operationId: 'getPipeline',
        summary: 'Get a pipeline',
        description: 'Returns the pipeline with its owner, its published version and its latest run.',
      },
    })
    .put(
      '/:ns/:layer/:name',
      ({ params, body, request }) => pipelines.update(refOf(params), body, exchangeOf(request).access),
      {
        params: PipelinePath,
        body: UpdatePipeline,
        response: { 200: Pipeline, 400: ErrorBody, 404: ErrorBody },
        detail: {
          operationId: 'updatePipeline',
          summary: 'Update a pipeline',
          description: 'Changes the fields that the body contains.',
        },
      },
    )
    .delete(
      '/:ns/:layer/:name',
      async ({ params, request, status }) => {
        await pipelines.remove(refOf(params), exchangeOf(request).access.person)
        return status(204, undefined)
      },
      {
        params: PipelinePath,
        response: { 204: t.Void(), 403: ErrorBody, 404: ErrorBody },
        detail: {
          operationId: 'deletePipeline',
          summary: 'Delete a pipeline',
          description:
            'Cancels the runs of the pipeline and removes its files. Its table remains. The name can be used again at once. A pipeline whose published version says `reviewers: four-eyes` is 403 in the Pro edition.',
        },
      },
    )

/** Routes for publish, versions and rollback. */
export const versionRoutes = (pipelines: PipelineService) =>
  new Elysia({ prefix: '/pipelines', tags: ['pipelines'] })
    .post(
      '/:ns/:layer/:name/publish',
      async ({ params, body, headers, request, status }) => {
        const key = idempotencyKeyOf(request, headers, body ?? {})
        const { access } = exchangeOf(request)
        const outcome = await pipelines.publish(
          refOf(params),
          body?.message,
          key,
          await access.visible(),
          access,
        )
        return outcome.kind === 'refused' ? status(422, outcome.body) : outcome.body
      },
      {
        params: PipelinePath,
        body: PublishPipeline,
        headers: IdempotencyHeaders,
        response: {
          200: Published,
          400: ErrorBody,
          403: ErrorBody,
          404: ErrorBody,
          409: ErrorBody,
          422: PublishRefused,
        },
        detail: {
          operationId: 'publishPipeline',
          summary: 'Publish the draft',
          description:
            'Pins the current version of every file as the next version of the pipeline. New runs execute this version. ' +
            'A request repeated with the same `Idempotency-Key` within 24 hours returns the version that the first request ' +
            'published. The same key with another request returns 409. When the version before says `reviewers: four-eyes` and the draft says less, only a user who did not change the draft may publish it: others get 403. A pipeline with `archive_landing_zones` is 409 when another published pipeline archives the same files of a landing zone.',
        },
      },
    )
    .get(
      '/:ns/:layer/:name/versions',
      async ({ params, query, request, set }) => {
        const page = pageOf(query, limits.listCap)
        const list = await pipelines.versions(refOf(params), page)
        setLink(set, request.url, page, list.total)
        return list
      },
      {
        params: PipelinePath,
        query: WholeListQuery,
        response: { 200: VersionList, 404: ErrorBody },
        detail: {
          operationId: 'listVersions',
          summary: 'List versions',
          description: 'Returns the versions of the pipeline, newest first.',
        },
      },
    )
    .get(
      '/:ns/:layer/:name/versions/:number',
      ({ params }) => pipelines.version(refOf(params), params.number),
      {
        params: VersionPath,
        response: { 200: Version, 400: ErrorBody, 404: ErrorBody },
        detail: {
          operationId: 'getVersion',
          summary: 'Get a version',
          description: 'Returns one version with the version id of every file that it pins.',
        },
      },
    )
    .post(
      '/:ns/:layer/:name/rollback',
      async ({ params, body, request }) => {
        const { access } = exchangeOf(request)
        const by = { person: access.person, visible: (await access.visible()).pipelines }
        return pipelines.rollback(refOf(params), body, callerNameOf(request), by)
      },
      {
        params: PipelinePath,
        body: RollbackPipeline,
        response: { 200: RolledBack, 400: ErrorBody, 403: ErrorBody, 404: ErrorBody, 409: ErrorBody },
        detail: {
          operationId: 'rollbackPipeline',
          summary: 'Roll back',
          description:
            'Publishes the files of an earlier version as a new version. The history and the draft do not change. With `data`, the table goes back in the same transaction. Four eyes refuse both with 403: `data`, and a version that demands less.',
        },
      },
    )

export const previewRoutes = (previews: PreviewService) =>
  new Elysia({ prefix: '/pipelines', tags: ['pipelines'] }).post(
    '/:ns/:layer/:name/preview',
    async ({ params, query, body, request }) => {
      const previewRequest = { ...body, queryLimit: query.limit }
      return responseOf(
        await previews.preview(refOf(params), previewRequest, request.signal, readerBehind(request)),
      )
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
          'Executes the draft once on the data that the caller may see, and writes nothing. A landing zone without files provides its samples.',
      },
    },
  )
