import { queryOptions } from '@tanstack/react-query'
import { api, ok } from './client.ts'
import { type DataOf, LIVE_MS } from './queries.ts'

/** Items that a page lists. */
const LISTED = '50'

/** Runs and branches that need a person. */
export const attentionQuery = () =>
  queryOptions({
    queryKey: ['attention'],
    queryFn: () => ok(api.attention.get({ query: { limit: LISTED } })),
    refetchInterval: LIVE_MS,
  })
export type AttentionItem = DataOf<typeof attentionQuery>['items'][number]
