import type { RouteTable } from '../core/route-table.ts'

const API = '/api/v1'
/** Beginnings that callers write in place of `/api/v1`. */
const SHORTENED = /^(?:\/api\/v1|\/api|\/v1)?(?=\/)/

/**
 * The address that the caller of an unknown one probably meant: without a slash at its end, or with `/api/v1` before it.
 * Null: no route answers there either.
 */
export function hintFor(path: string, routes: Pick<RouteTable, 'methods'>): string | null {
  let end = path.length
  while (path[end - 1] === '/') end--
  const bare = path.slice(0, end)
  for (const candidate of [bare, bare.replace(SHORTENED, API)])
    if (candidate !== '' && candidate !== path && routes.methods(candidate).length > 0) return candidate
  return null
}
