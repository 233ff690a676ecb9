// Pages of lists in the Iceberg REST catalog. A page token is the last name of the page before.

import type { NamePage } from '../versions/store/tables.ts'
import { badRequest } from './errors.ts'

/** Names of one page. */
const PAGE_SIZE_MAX = 1_000
/** All names of namespaces, tables and views. */
const NAME = /^[a-z0-9][a-z0-9_-]{0,127}$/

/** A client that pages sends a token: empty for the first page, then the token of the page before. */
export function namePageOf(query: Record<string, string | undefined>): NamePage {
  const { pageToken, pageSize } = query
  if (pageSize !== undefined && !/^[1-9]\d{0,8}$/.test(pageSize))
    throw badRequest('pageSize: must be a number above 0')
  if (pageToken === undefined) return { after: '', limit: null }
  const after = Buffer.from(pageToken, 'base64url').toString()
  if (pageToken !== '' && !(tokenAfter(after) === pageToken && NAME.test(after)))
    throw badRequest('pageToken: must be empty or the next-page-token of the page before')
  return { after, limit: Math.min(Number(pageSize ?? PAGE_SIZE_MAX), PAGE_SIZE_MAX) }
}

/** The first page of names, and the token of the next page. `names` has one name more than the page if a next page exists. */
export function pageOfNames(names: readonly string[], limit: number | null) {
  if (limit === null || names.length <= limit) return { names, next: {} }
  const page = names.slice(0, limit)
  return { names: page, next: { 'next-page-token': tokenAfter(page.at(-1) ?? '') } }
}

const tokenAfter = (last: string): string => Buffer.from(last).toString('base64url')
