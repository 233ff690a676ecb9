import { Type as t } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { ErrorBody, Uuid } from '../core/names.ts'
import { exchangeOf } from '../http/exchange.ts'
import type { WebhookService } from './service.ts'

export const webhookRoutes = (webhooks: WebhookService) =>
  new Elysia({ prefix: '/webhooks', tags: ['triggers'] }).post(
    '',
    async ({ request, status }) =>
      status(201, await webhooks.call(tokenOf(request.headers), exchangeOf(request).sender)),
    {
      response: {
        201: t.Object({ run_id: Uuid }, { title: 'WebhookCalled' }),
        400: ErrorBody,
        404: ErrorBody,
        429: ErrorBody,
      },
      detail: {
        operationId: 'callWebhook',
        summary: 'Call a webhook',
        description:
          'Fires the webhook trigger of the token; the body is ignored. Returns 400 without a token or if the pipeline has never been published, 404 if the token is unknown or its trigger is disabled, and 429 with `Retry-After` while the trigger cools down.',
        security: [{ WebhookToken: [] }, { WebhookBearer: [] }],
      },
    },
  )

function tokenOf(headers: Headers): string | null {
  const own = headers.get('x-webhook-token')?.trim()
  if (own) return own
  const bearer = /^bearer +(\S+) *$/i.exec(headers.get('authorization') ?? '')
  return bearer?.[1] ?? null
}
