import { Type as t } from '@sinclair/typebox'
import { Instant, literals, Uuid } from '../core/names.ts'

export const AuditEntry = t.Object(
  {
    id: Uuid,
    user_id: t.String({ description: 'Id of the user; empty when the caller is not a user' }),
    action: literals(['post', 'put', 'delete'], { title: 'AuditAction' }),
    resource: t.String({
      description: 'Path of the request, without its query',
      examples: ['/api/v1/runs'],
    }),
    detail: t.String({ description: 'Always empty' }),
    ip: t.String({
      description: 'Address of the client, from the connection or from `X-Forwarded-For` of a trusted proxy',
      examples: ['127.0.0.1'],
    }),
    peer: t.String({
      description: 'Address of the connection, which may belong to a proxy',
      examples: ['127.0.0.1'],
    }),
    status: t.Integer({
      description:
        'HTTP status of the response; 0 in entries from older versions, which did not record the status',
      examples: [201],
    }),
    key: t.String({
      description: 'Name of the API key; empty for a request without an API key',
      examples: ['default'],
    }),
    count: t.Integer({
      description:
        'Number of requests in this entry: 1, or more when the entry counts the refused requests of one minute with this status. The other fields are those of the first',
      examples: [1],
    }),
    created_at: Instant,
  },
  { title: 'AuditEntry' },
)
export type AuditEntry = typeof AuditEntry.static

export const AuditLog = t.Array(AuditEntry)
