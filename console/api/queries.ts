import { QueryClient } from '@tanstack/react-query'
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
