import { Type as t } from '@sinclair/typebox'
import { Instant, Uuid } from '../http/names.ts'

export const AuditEntry = t.Object({
  id: Uuid,
  user_id: t.String({ description: 'Empty without users' }),
  action: t.Union([t.Literal('post'), t.Literal('put'), t.Literal('delete')]),
  resource: t.String({
    description: 'The path that was called, without its query',
    examples: ['/api/v1/runs'],
  }),
  detail: t.String(),
  ip: t.String({ description: 'Of the client, as far as trusted proxies tell', examples: ['127.0.0.1'] }),
  created_at: Instant,
})
export type AuditEntry = typeof AuditEntry.static

export const AuditLog = t.Array(AuditEntry)
