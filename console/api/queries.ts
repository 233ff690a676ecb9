import {
  type InfiniteQueryExecuteOptions,
  QueryClient,
  type QueryExecuteOptions,
  type QueryKey,
  useIsFetching,
} from '@tanstack/react-query'
import { ApiError } from './errors.ts'

/** Data younger than this is shown without another request. */
const FRESH_MS = 2_000
const TRIES_MAX = 3
const RETRY_MS_MAX = 10_000

/** Refetch intervals of pages that show what changes by itself. */
export const LIVE_MS = 3_000
export const SLOW_MS = 15_000
/** Time between tries while the service does not answer. */
const LOST_MS = 5_000

/** Whether another try may help: the connection was lost, or the service is busy or failing for the moment. */
const isPassing = (error: unknown) =>
  error instanceof ApiError && (error.isLost || error.status === 429 || error.status >= 500)

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: FRESH_MS,
      // `onlineManager` would pause requests to a service on this very machine.
      networkMode: 'always',
      // Pages that do not refetch by themselves do so until the service answers again.
      refetchInterval: ({ state }) =>
        state.error instanceof ApiError && state.error.isLost ? LOST_MS : false,
      retry: (tries, error) => tries < TRIES_MAX && isPassing(error),
      retryDelay: (tries, error) => {
        const asked = error instanceof ApiError ? (error.retryAfter ?? 0) * 1_000 : 0
        return Math.min(RETRY_MS_MAX, Math.max(asked, 500 * 2 ** tries))
      },
    },
    mutations: { networkMode: 'always' },
  },
})

/** The data of a function that makes query options. */
export type DataOf<Make extends (...args: never[]) => { queryFn?: unknown }> =
  NonNullable<ReturnType<Make>['queryFn']> extends (...args: never[]) => infer Data ? Awaited<Data> : never

/** Options of any query. */
export type AnyQuery = { queryKey: QueryKey; enabled?: unknown }

/** Loads queries before the page that shows them. The page shows their errors. */
export function prefetch(queries: readonly AnyQuery[]): void {
  for (const query of queries) if (query.enabled !== false) execute(query).catch(() => {})
}

/** A query that loads page after page names its first page. */
const execute = (query: AnyQuery): Promise<unknown> =>
  'initialPageParam' in query
    ? queryClient.infiniteQuery(query as InfiniteQueryExecuteOptions)
    : queryClient.query(query as QueryExecuteOptions)

/** Marks the queries below these keys as old. Shown ones are read again at once. */
export const refresh = (...keys: readonly QueryKey[]): Promise<unknown> =>
  Promise.all(keys.map((queryKey) => queryClient.invalidateQueries({ queryKey })))

/** Whether no query waits for an answer. */
export const isQuiet = (): boolean => queryClient.isFetching() === 0

/** Whether the service does not answer a request of the shown page. */
export function useLost(): 'retrying' | 'lost' | null {
  const isFetching = useIsFetching()
  const isLost = queryClient
    .getQueryCache()
    .getAll()
    // A page that was left does not ask again, so its old failure says nothing.
    .some((query) => {
      const { state } = query
      if (query.getObserversCount() === 0) return false
      const reason = state.error ?? state.fetchFailureReason
      return reason instanceof ApiError && reason.isLost && state.dataUpdatedAt <= state.errorUpdatedAt
    })
  if (!isLost) return null
  return isFetching > 0 ? 'retrying' : 'lost'
}
