import { Elysia } from 'elysia'
import { ErrorBody } from '../core/names.ts'
import { PageQuery, pageOf, setLink } from '../core/pagination.ts'
import { AuditLog } from './schema.ts'
import type { AuditService } from './service.ts'

export const auditRoutes = (audit: AuditService) =>
  new Elysia({ prefix: '/audit', tags: ['audit'] }).get(
    '',
    async ({ query, request, set }) => {
      const page = pageOf(query)
      const { entries, total } = await audit.list(page)
      setLink(set, request.url, page, total)
      return entries
    },
    {
      query: PageQuery,
      response: { 200: AuditLog, 404: ErrorBody },
      detail: {
        operationId: 'listAuditEntries',
        summary: 'List the audit log',
        description:
          'Lists every POST, PUT and DELETE request under `/api/v1`, newest first. Requests refused before their sender is known, and those over a rate limit, are counted in one entry per minute and status. The answer is 404 when the audit log is off (`AUDIT=off`).',
      },
    },
  )
