import { Type as t } from '@sinclair/typebox'
import { Instant, literals, Uuid } from '../core/names.ts'

export const AuditEntry = t.Object(
  {
    id: Uuid,
    user_id: t.String({ description: 'Empty without users' }),
    action: literals(['post', 'put', 'delete'], { title: 'AuditAction' }),
    resource: t.String({
      description: 'The path that was called, without its query',
      examples: ['/api/v1/runs'],
    }),
    detail: t.String(),
    ip: t.String({
      description:
        'Address of the client, as far as trusted proxies tell; `other` in a row that counts refusals of many addresses',
      examples: ['127.0.0.1'],
    }),
    peer: t.String({ description: 'Address of the connection itself', examples: ['127.0.0.1'] }),
    status: t.Integer({
      description: 'HTTP status of the answer; 0 in entries of versions that did not record it',
      examples: [201],
    }),
    key: t.String({ description: 'Name of the API key; empty without one', examples: ['default'] }),
    count: t.Integer({
      description:
        'Requests that the entry stands for: 1, or more in a row that counts refusals of one minute',
      examples: [1],
    }),
    created_at: Instant,
  },
  { title: 'AuditEntry' },
)
export type AuditEntry = typeof AuditEntry.static

export const AuditLog = t.Array(AuditEntry)
