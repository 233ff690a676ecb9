import { type IntegerOptions, Type as t } from '@sinclair/typebox'
import { documentedAs } from './documented.ts'
import { limits } from './limits.ts'
import { literals } from './names.ts'

/** Rows of a page: default and maximum (spec: Limits). */
const PAGE_SIZE = 50
const PAGE_SIZE_MAX = 200
/** With all other headers, `Link` fits the 4 KiB that proxies reserve for the headers of a response. */
export const LINK_HEADER_BYTES = 3_072

/** A number in a query, read as text. A text that is not a number means the default, not an error. */
export const numberText = (options: IntegerOptions) => documentedAs(t.String(), t.Integer(options))

const Offset = t.Optional(numberText({ minimum: 0, description: 'Items to skip; default 0', examples: [0] }))
/** Query parameters of lists with a default page. */
export const PageQuery = t.Object({
  limit: t.Optional(
    numberText({
      minimum: 1,
      maximum: PAGE_SIZE_MAX,
      description: `Page size; default ${PAGE_SIZE}, at most ${PAGE_SIZE_MAX}`,
      examples: [PAGE_SIZE],
    }),
  ),
  offset: Offset,
})
/** Query parameters of lists that return everything, up to `limits.listCap`, unless a page size is given. */
export const WholeListQuery = t.Object({
  limit: t.Optional(
    numberText({
      minimum: 1,
      maximum: PAGE_SIZE_MAX,
      description: `Page size, at most ${PAGE_SIZE_MAX}; without it the first ${limits.listCap} items`,
      examples: [PAGE_SIZE],
    }),
  ),
  offset: Offset,
})

/** Query parameters of a list that is sorted by one of `keys`, in descending order by default. */
export const sortQuery = <const Keys extends readonly string[]>(
  keys: Keys,
  { title, fallback }: { title: string; fallback: Keys[number] },
) =>
  t.Object({
    sort: t.Optional(literals(keys, { title, description: `Sort key; default ${fallback}` })),
    order: t.Optional(literals(['asc', 'desc'], { title: 'SortOrder', description: 'Default desc' })),
  })

export interface Page {
  limit: number
  offset: number
}

/** A negative offset becomes 0. `fallback` is the page size of a list without a default in the specification. */
export function pageOf(query: { limit?: string; offset?: string }, fallback: number = PAGE_SIZE): Page {
  const offset = wholeNumber(query.offset)
  return {
    limit: limitOf(query.limit, { fallback, max: PAGE_SIZE_MAX }),
    offset: offset === null || offset < 0 ? 0 : Math.min(offset, Number.MAX_SAFE_INTEGER),
  }
}

/** The items of a page, for a list that is read whole. */
export const itemsOn = <Item>({ limit, offset }: Page, items: readonly Item[]): Item[] =>
  items.slice(offset, offset + limit)

/** A limit of rows: 0 means no rows, only their columns. Otherwise like `limitOf`. */
export const rowLimitOf = (
  requested: number | string | undefined,
  range: { fallback: number; max: number },
): number => (requested === 0 || requested === '0' ? 0 : limitOf(requested, range))

/** A limit of items. A value above the maximum is clamped; below 1 or not a number means the default. */
export function limitOf(
  requested: number | string | undefined,
  { fallback, max }: { fallback: number; max: number },
) {
  const limit = typeof requested === 'number' ? requested : wholeNumber(requested)
  return limit === null || limit < 1 ? fallback : Math.min(limit, max)
}

const wholeNumber = (text: string | undefined) =>
  text !== undefined && /^-?\d+$/.test(text.trim()) ? Number(text) : null

export const sortOf = <Key extends string>(query: { sort?: Key; order?: 'asc' | 'desc' }, fallback: Key) => ({
  key: query.sort ?? fallback,
  descending: query.order !== 'asc',
})

/**
 * Sets the header `Link` (RFC 8288): first, prev, next and last page of a list of `total` items, relative to the address of the
 * request. Beyond the end of the list, prev is the last page. Filters may be long, and proxies refuse responses with long
 * headers. If the four links are too long, only `next` is sent; if `next` is too long, no link is sent.
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
  const link = [all, next].map((links) => links.join(', ')).find((text) => text.length <= LINK_HEADER_BYTES)
  if (link) set.headers.link = link
}

const lastOffset = (total: number, limit: number) =>
  total === 0 ? 0 : Math.floor((total - 1) / limit) * limit
