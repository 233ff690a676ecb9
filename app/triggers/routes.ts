import { Type as t } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { MayWritePipeline } from '../access/guard.ts'
import { limits } from '../core/limits.ts'
import { ErrorBody, PipelinePath } from '../core/names.ts'
import { pageOf, setLink, WholeListQuery } from '../core/pagination.ts'
import { type PipelineRef, refOf } from '../core/pipeline-ref.ts'
import { exchangeOf } from '../http/exchange.ts'
import { CreateTrigger, Trigger, TriggerCreated, TriggerList, TriggerPath, UpdateTrigger } from './schema.ts'
import type { TriggerService } from './service.ts'

interface Shown {
  /** The start of webhook addresses; null: the address of the client's own request. */
  shownUrl: string | null
  /** The hash of a webhook's token is for callers who may write the pipeline. */
  mayWrite: MayWritePipeline
}

export const triggerRoutes = (triggers: TriggerService, { shownUrl, mayWrite }: Shown) => {
  const shown = <T extends Trigger>(trigger: T, request: Request): T =>
    trigger.type === 'webhook'
      ? { ...trigger, webhook_url: `${shownUrl ?? new URL(request.url).origin}/api/v1/webhooks` }
      : trigger
  const hashHider = async (request: Request, ref: PipelineRef) => {
    const isWriter = await mayWrite(exchangeOf(request).access, ref)
    return <T extends Trigger>(trigger: T): T =>
      isWriter || trigger.type !== 'webhook' ? trigger : { ...trigger, config: {} }
  }

  return new Elysia({ prefix: '/pipelines/:ns/:layer/:name/triggers', tags: ['triggers'] })
    .get(
      '',
      async ({ params, query, request, set }) => {
        const page = pageOf(query, limits.listCap)
        const list = await triggers.list(refOf(params), page)
        setLink(set, request.url, page, list.total)
        const hidden = await hashHider(request, refOf(params))
        return { ...list, triggers: list.triggers.map((trigger) => shown(hidden(trigger), request)) }
      },
      {
        params: PipelinePath,
        query: WholeListQuery,
        response: { 200: TriggerList, 404: ErrorBody },
        detail: {
          operationId: 'listTriggers',
          summary: 'List triggers',
          description:
            'Returns the triggers of the pipeline, oldest first. Callers who may only read the pipeline do not see `config.token_hash`.',
        },
      },
    )
    .post(
      '',
      async ({ params, body, request, status }) =>
        status(201, shown(await triggers.create(refOf(params), body), request)),
      {
        params: PipelinePath,
        body: CreateTrigger,
        response: { 201: TriggerCreated, 400: ErrorBody, 404: ErrorBody },
        detail: {
          operationId: 'createTrigger',
          summary: 'Create a trigger',
          description: [
            'A trigger requests runs of the published version.',
            '`landing_zone_upload` fires on every upload to a zone. `file_pattern` fires on uploads whose original name matches a glob.',
            '`cron` fires at its due times. `pipeline_success` fires on every success of another pipeline.',
            '`cron_dependency` fires when it is due and every dependency has succeeded since its last firing.',
            '`webhook` fires on `POST /api/v1/webhooks` with its token. Only this response contains the token.',
            'A zone or pipeline that does not exist is 404.',
          ].join(' '),
        },
      },
    )
    .get(
      '/:id',
      async ({ params, request }) => {
        const trigger = await triggers.get(refOf(params), params.id)
        const hidden = await hashHider(request, refOf(params))
        return shown(hidden(trigger), request)
      },
      {
        params: TriggerPath,
        response: { 200: Trigger, 404: ErrorBody },
        detail: {
          operationId: 'getTrigger',
          summary: 'Get a trigger',
          description:
            'Returns the trigger with its configuration and its state. Callers who may only read the pipeline do not see `config.token_hash`.',
        },
      },
    )
    .put(
      '/:id',
      async ({ params, body, request }) =>
        shown(await triggers.update(refOf(params), params.id, body), request),
      {
        params: TriggerPath,
        body: UpdateTrigger,
        response: { 200: Trigger, 400: ErrorBody, 404: ErrorBody },
        detail: {
          operationId: 'updateTrigger',
          summary: 'Update a trigger',
          description:
            'Changes the given fields; a given `config` replaces the whole configuration. The type and the token of a webhook never change. Disabling a trigger does not shorten its cooldown.',
        },
      },
    )
    .delete(
      '/:id',
      async ({ params, status }) => {
        await triggers.remove(refOf(params), params.id)
        return status(204, undefined)
      },
      {
        params: TriggerPath,
        response: { 204: t.Void(), 404: ErrorBody },
        detail: {
          operationId: 'deleteTrigger',
          summary: 'Delete a trigger',
          description:
            'Runs that the trigger has requested continue. The token of a webhook becomes invalid.',
        },
      },
    )
}
