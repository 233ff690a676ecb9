import { Type as t } from '@sinclair/typebox'
import { limits } from '../limits.ts'
import { invalid } from './errors.ts'

/** Query parameters of every list. Text on purpose: a number that is none means the default, not an error. */
export const PageQuery = t.Object({
  limit: t.Optional(t.String({ description: 'Page size; default 50, at most 200', examples: ['50'] })),
  offset: t.Optional(t.String({ description: 'Items to pass over; default 0', examples: ['0'] })),
})
export const SortQuery = t.Object({
  sort: t.Optional(t.String({ description: 'Sort key; default created_at' })),
  order: t.Optional(t.String({ description: 'asc or desc; default desc' })),
})

export interface Page {
  limit: number
  offset: number
}

/** A negative offset is 0. `fallback` is the page of a list that has no default of its own in the specification. */
export function pageOf(query: { limit?: string; offset?: string }, fallback: number = limits.pageSize): Page {
  const offset = wholeNumber(query.offset)
  return {
    limit: limitOf(query.limit, { fallback, max: limits.pageSizeMax }),
    offset: offset === null || offset < 0 ? 0 : Math.min(offset, Number.MAX_SAFE_INTEGER),
  }
}

/** Of items or rows: above the maximum is clamped; below 1 or not a number is the default. */
export function limitOf(
  asked: number | string | undefined,
  { fallback, max }: { fallback: number; max: number },
) {
  const limit = typeof asked === 'number' ? asked : wholeNumber(asked)
  return limit === null || limit < 1 ? fallback : Math.min(limit, max)
}

const wholeNumber = (text: string | undefined) =>
  text !== undefined && /^-?\d+$/.test(text.trim()) ? Number(text) : null

/** The chosen key of `keys` and direction, or 400 naming the parameter. */
export function sortOf<Key extends string>(
  query: { sort?: string; order?: string },
  keys: readonly Key[],
  fallback: Key,
) {
  const sort = query.sort ?? fallback
  const order = query.order ?? 'desc'
  const key = keys.find((candidate) => candidate === sort)
  if (key === undefined) throw invalid('sort', `must be one of ${keys.join(', ')}`)
  if (order !== 'asc' && order !== 'desc') throw invalid('order', 'must be asc or desc')
  return { key, descending: order === 'desc' }
}

/**
 * RFC 8288: first, prev, next, last of a list of `total` items, relative to the request's own address. Beyond the end of
 * the list prev is its last page. Filters may be long, and proxies refuse answers with long headers: where the four are too
 * long there is `next` alone, and where that is, none.
 */
export function setLink(set: { headers: { link?: string } }, url: string, page: Page, total: number) {
  const at = (offset: number, rel: string) => {
    const target = new URL(url)
    target.searchParams.set('limit', String(page.limit))
    target.searchParams.set('offset', String(offset))
    return `<${target.pathname}${target.search}>; rel="${rel}"`
  }
  const last = lastOffset(total, page.limit)
  const prev = Math.min(Math.max(0, page.offset - page.limit), last)
  const next = page.offset + page.limit < total ? [at(page.offset + page.limit, 'next')] : []
  const all = [at(0, 'first'), ...(page.offset > 0 ? [at(prev, 'prev')] : []), ...next, at(last, 'last')]
  const link = [all, next]
    .map((links) => links.join(', '))
    .find((text) => text.length <= limits.linkHeaderBytes)
  if (link) set.headers.link = link
}

const lastOffset = (total: number, limit: number) =>
  total === 0 ? 0 : Math.floor((total - 1) / limit) * limit
