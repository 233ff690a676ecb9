import { useNavigate, useSearch } from '@tanstack/react-router'
import { useCallback } from 'react'

/** Filters of a page, as texts in its address. An empty text is no filter. */
export type Filters = Record<string, string>

/** Keeps the parameters of an address that are texts or numbers. */
export const filtersIn = (search: Record<string, unknown>): Filters =>
  Object.fromEntries(
    Object.entries(search)
      .filter(([, value]) => ['string', 'number', 'boolean'].includes(typeof value) && value !== '')
      .map(([name, value]) => [name, String(value)]),
  )

/**
 * The filters in the address of the present page, and a function that changes some of them. A change replaces the entry in the
 * history, so that "back" leaves the page.
 */
export function useFilters(): [Filters, (changes: Filters) => void] {
  const filters = useSearch({ strict: false }) as Filters
  const navigate = useNavigate()
  const change = useCallback(
    (changes: Filters) =>
      void navigate({
        to: '.',
        search: (before: Filters) => filtersIn({ ...before, ...changes }),
        replace: true,
        // Otherwise the router moves the new list to the scroll position of the old one.
        resetScroll: false,
      } as never),
    [navigate],
  )
  return [filters, change]
}
