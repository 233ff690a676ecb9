import { keepPreviousData, useQueries, useQuery } from '@tanstack/react-query'
import { RUN_PAGE_ROWS, type RunFilter, runListQuery } from '../../api/runs.ts'
import { useSight } from '../../shell/sight.ts'

/** The pages of the list that are in sight. The first one is always read, because it knows the number of runs. */
export function useRunPages(filter: RunFilter) {
  const { pages, onVisible } = useSight(JSON.stringify(filter), RUN_PAGE_ROWS)
  const head = useQuery({ ...runListQuery(filter, 0), placeholderData: keepPreviousData })
  const numbers = pages.filter((page) => page > 0)
  const others = useQueries({ queries: numbers.map((page) => runListQuery(filter, page)) })
  const rowAt = (index: number) => {
    const page = Math.floor(index / RUN_PAGE_ROWS)
    const { data } = page === 0 ? head : (others[numbers.indexOf(page)] ?? {})
    return data?.runs[index % RUN_PAGE_ROWS]
  }
  return { head, rowAt, onVisible }
}
