import {
  type RegisteredRouter,
  type RouteById,
  type RouteIds,
  useNavigate,
  useSearch,
} from '@tanstack/react-router'
import { useCallback } from 'react'

/** Filters of a page, as texts in its address. An empty text is no filter. */
export type Filters<Name extends string = string> = { [Each in Name]?: string }

type Routes = RegisteredRouter['routeTree']
/** The filters of the page with this address. */
export type FiltersOf<Id extends RouteIds<Routes>> = RouteById<Routes, Id>['types']['fullSearchSchema']

/** Keeps the parameters of an address that are texts or numbers; with `names`, only those. */
export const filtersIn = <Name extends string>(
  search: Record<string, unknown>,
  names: readonly Name[] = Object.keys(search) as Name[],
) =>
  Object.fromEntries(
    names
      .map((name) => [name, search[name]] as const)
      .filter(([, value]) => ['string', 'number', 'boolean'].includes(typeof value) && value !== '')
      .map(([name, value]) => [name, String(value)]),
  ) as Filters<Name>

/** The parameters in the part of an address after `?`. */
export const paramsIn = (text: string): Filters =>
  Object.fromEntries([...new URLSearchParams(text)].map(([name, value]) => [name, withoutQuotes(value)]))

/** Removes the quotes that former links have around a text that is valid JSON, such as a number. */
function withoutQuotes(value: string): string {
  if (!value.startsWith('"')) return value
  try {
    const text: string = JSON.parse(value)
    JSON.parse(text)
    return text
  } catch {
    return value
  }
}

/**
 * The filters in the address of a page, and a function that changes some of them. A change replaces the entry in the history, so
 * that "back" leaves the page.
 */
export function useFilters<const Id extends RouteIds<Routes>>(
  from: Id,
): [FiltersOf<Id>, (changes: FiltersOf<Id>) => void] {
  const filters = useSearch({ from }) as FiltersOf<Id>
  return [filters, useChange()]
}

/** Changes filters in the address of the present page. */
export function useChange(): (changes: Filters) => void {
  const navigate = useNavigate()
  return useCallback(
    (changes) =>
      void navigate({
        to: '.',
        search: (before: Filters) => filtersIn({ ...before, ...changes }),
        replace: true,
        // Otherwise the router moves the new list to the scroll position of the old one.
        resetScroll: false,
      } as never),
    [navigate],
  )
}
