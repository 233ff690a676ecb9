import { keepPreviousData, useQueries, useQuery } from '@tanstack/react-query'
import { useCallback, useState } from 'react'
import { api, LAYERS, ok } from '../../api/client.ts'
import { LIVE_MS } from '../../api/queries.ts'
import type { Filters } from '../../shell/filters.ts'

const PAGE_ROWS = 100

export const STATUSES = ['pending', 'running', 'success', 'failed', 'cancelled'] as const
const SORTS = ['created_at', 'started_at', 'finished_at', 'duration_ms', 'status', 'trigger'] as const

const oneOf = <Value extends string>(values: readonly Value[], text: string | undefined) =>
  values.find((each) => each === text)

/** The query of the API that the filters of the address mean. Unknown values are no filter. */
export function queryOf(filters: Filters) {
  const { namespace, pipeline, branch, from, to } = filters
  const layer = oneOf(LAYERS, filters.layer)
  const status = oneOf(STATUSES, filters.status)
  const sort = oneOf(SORTS, filters.sort)
  const order = oneOf(['asc', 'desc'] as const, filters.order)
  return {
    ...(namespace && { namespace }),
    ...(layer && { layer }),
    ...(pipeline && { pipeline }),
    ...(branch && { branch }),
    ...(status && { status }),
    ...(from && { from }),
    ...(to && { to }),
    ...(sort && { sort }),
    ...(order && { order }),
  }
}
type RunFilter = ReturnType<typeof queryOf>

const pageOf = (filter: RunFilter, page: number) => ({
  queryKey: ['runs', 'list', filter, page],
  queryFn: () =>
    ok(api.runs.get({ query: { ...filter, limit: String(PAGE_ROWS), offset: String(page * PAGE_ROWS) } })),
  refetchInterval: LIVE_MS,
})

/** The pages of the list that are in sight. The first one is always read, because it knows the number of runs. */
export function useRunPages(filter: RunFilter) {
  const filterKey = JSON.stringify(filter)
  const [sight, setSight] = useState({ filterKey, first: 0, last: 0 })
  // The rows in sight belong to one filter. A new filter begins at its first row.
  const { first, last } = sight.filterKey === filterKey ? sight : { first: 0, last: 0 }
  const head = useQuery({ ...pageOf(filter, 0), placeholderData: keepPreviousData })
  const numbers = Array.from({ length: last - first + 1 }, (_, index) => first + index).filter(
    (page) => page > 0,
  )
  const others = useQueries({ queries: numbers.map((page) => pageOf(filter, page)) })
  const rowAt = (index: number) => {
    const page = Math.floor(index / PAGE_ROWS)
    const { data } = page === 0 ? head : (others[numbers.indexOf(page)] ?? {})
    return data?.runs[index % PAGE_ROWS]
  }
  const onVisible = useCallback(
    (from: number, to: number) => {
      const next = { filterKey, first: Math.floor(from / PAGE_ROWS), last: Math.floor(to / PAGE_ROWS) }
      const isSame = (before: typeof next) =>
        before.filterKey === filterKey && before.first === next.first && before.last === next.last
      setSight((before) => (isSame(before) ? before : next))
    },
    [filterKey],
  )
  return { head, rowAt, onVisible }
}

export type ListedRun = NonNullable<ReturnType<ReturnType<typeof useRunPages>['rowAt']>>
