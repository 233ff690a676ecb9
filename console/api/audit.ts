import { keepPreviousData, queryOptions } from '@tanstack/react-query'
import { api, ok } from './client.ts'
import { offsetIn } from './paging.ts'
import { SLOW_MS } from './queries.ts'

export const AUDIT_ROWS = 100

/** Changes with their callers, newest first. */
export const auditQuery = (from: string | undefined) => {
  const query = { limit: String(AUDIT_ROWS), offset: String(offsetIn(from)) }
  return queryOptions({
    queryKey: ['audit', query],
    queryFn: () => ok(api.audit.get({ query })),
    refetchInterval: SLOW_MS,
    placeholderData: keepPreviousData,
  })
}
