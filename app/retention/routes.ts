import { Type as t } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { ErrorBody, PipelinePath } from '../core/names.ts'
import { refOf } from '../core/pipeline-ref.ts'
import {
  PipelineRetention,
  ReaperRun,
  ReaperStatus,
  RetentionConfigBody,
  RetentionConfigUpdated,
  RetentionOverrides,
  RunReaper,
  UpdateRetentionConfig,
} from './schema.ts'
import type { RetentionService } from './service.ts'

export const retentionRoutes = (retention: RetentionService) =>
  new Elysia({ tags: ['retention'] })
    .get('/admin/retention/config', async () => ({ config: await retention.config() }), {
      response: { 200: RetentionConfigBody },
      detail: {
        operationId: 'getRetentionConfig',
        summary: 'Get the retention settings',
        description: 'Returns how long the service keeps runs, logs, quality results and files.',
      },
    })
    .put('/admin/retention/config', ({ body }) => retention.update(body), {
      body: UpdateRetentionConfig,
      response: { 200: RetentionConfigUpdated, 400: ErrorBody },
      detail: {
        operationId: 'updateRetentionConfig',
        summary: 'Update the retention settings',
        description:
          'Changes the given fields and keeps the others. The next tick of the reaper uses the new settings.',
      },
    })
    .get('/admin/retention/status', () => retention.status(), {
      response: { 200: ReaperStatus },
      detail: {
        operationId: 'getRetentionStatus',
        summary: 'Get the status of the reaper',
        description: 'Returns when the reaper last ran, and how many rows and files it removed.',
      },
    })
    .post('/admin/retention/run', async ({ query, status }) => status(202, await retention.run(query)), {
      query: RunReaper,
      response: { 202: ReaperRun, 400: ErrorBody, 503: ErrorBody },
      detail: {
        operationId: 'runRetention',
        summary: 'Run the reaper now',
        description:
          'Starts a tick of the reaper and responds when it has finished. If a tick is already running, the new one follows it. With `dry_run=true`, nothing is removed; the response lists the removals of a tick.',
      },
    })
    .get('/pipelines/:ns/:layer/:name/retention', ({ params }) => retention.ofPipeline(refOf(params)), {
      params: PipelinePath,
      response: { 200: PipelineRetention, 404: ErrorBody },
      detail: {
        operationId: 'getPipelineRetention',
        summary: 'Get the retention settings of a pipeline',
        description:
          'Returns the settings of the service, the overrides of the pipeline, and the effective settings.',
      },
    })
    .put(
      '/pipelines/:ns/:layer/:name/retention',
      async ({ params, body, status }) => {
        await retention.replaceOverrides(refOf(params), body)
        return status(204, undefined)
      },
      {
        params: PipelinePath,
        body: RetentionOverrides,
        response: { 204: t.Void(), 400: ErrorBody, 404: ErrorBody },
        detail: {
          operationId: 'updatePipelineRetention',
          summary: 'Update the retention settings of a pipeline',
          description: 'Replaces all overrides of the pipeline; an empty object clears them.',
        },
      },
    )
