import { keepPreviousData, useQueries, useQuery } from '@tanstack/react-query'
import { useCallback, useState } from 'react'
import { RUN_PAGE_ROWS, type RunFilter, runListQuery } from '../../api/runs.ts'

/** The pages of the list that are in sight. The first one is always read, because it knows the number of runs. */
export function useRunPages(filter: RunFilter) {
  const filterKey = JSON.stringify(filter)
  const [sight, setSight] = useState({ filterKey, first: 0, last: 0 })
  // The rows in sight belong to one filter. A new filter begins at its first row.
  const { first, last } = sight.filterKey === filterKey ? sight : { first: 0, last: 0 }
  const head = useQuery({ ...runListQuery(filter, 0), placeholderData: keepPreviousData })
  const numbers = Array.from({ length: last - first + 1 }, (_, index) => first + index).filter(
    (page) => page > 0,
  )
  const others = useQueries({ queries: numbers.map((page) => runListQuery(filter, page)) })
  const rowAt = (index: number) => {
    const page = Math.floor(index / RUN_PAGE_ROWS)
    const { data } = page === 0 ? head : (others[numbers.indexOf(page)] ?? {})
    return data?.runs[index % RUN_PAGE_ROWS]
  }
  const onVisible = useCallback(
    (from: number, to: number) => {
      const next = {
        filterKey,
        first: Math.floor(from / RUN_PAGE_ROWS),
        last: Math.floor(to / RUN_PAGE_ROWS),
      }
      const isSame = (before: typeof next) =>
        before.filterKey === filterKey && before.first === next.first && before.last === next.last
      setSight((before) => (isSame(before) ? before : next))
    },
    [filterKey],
  )
  return { head, rowAt, onVisible }
}
