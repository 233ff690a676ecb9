import { Pager } from '../design/table.tsx'
import { useFilters } from './filters.ts'

/** The part of a list that a request asks for. */
export interface Bounds {
  limit: string
  offset: string
}

/** The page of a list, in the address: the bounds of its request, and the buttons to other pages. */
export function usePage(rows: number) {
  const [filters, change] = useFilters()
  const asked = Number(filters.offset ?? 0)
  const offset = Number.isSafeInteger(asked) ? Math.max(0, asked) : 0
  return {
    bounds: { limit: String(rows), offset: String(offset) } satisfies Bounds,
    pager: (total: number) => (
      <Pager
        offset={offset}
        limit={rows}
        total={total}
        onOffset={(next) => change({ offset: next === 0 ? '' : String(next) })}
      />
    ),
  }
}
