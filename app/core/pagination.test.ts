import { describe, expect, test } from 'bun:test'
import type { TSchema } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { LINK_HEADER_BYTES, limitOf, pageOf, rowLimitOf, setLink, sortOf, sortQuery } from './pagination.ts'

describe('pages', () => {
  test('a page has 50 items from the start by default', () => {
    expect(pageOf({})).toEqual({ limit: 50, offset: 0 })
    expect(pageOf({ limit: '7', offset: '14' })).toEqual({ limit: 7, offset: 14 })
  })
  test('a page has at most 200 items', () => {
    for (const limit of ['201', '1000', '9'.repeat(40)]) expect(pageOf({ limit }).limit).toBe(200)
  })
  test('an invalid limit or offset falls back to the default', () => {
    for (const limit of ['0', '-1', 'x', '', '1.5', '1e3', 'NaN', '0x10'])
      expect(pageOf({ limit }).limit).toBe(50)
    for (const offset of ['-1', 'x', '', '1.5']) expect(pageOf({ offset }).offset).toBe(0)
  })
  test('a huge offset is clamped to a value that the database accepts', () => {
    expect(pageOf({ offset: '9'.repeat(40) }).offset).toBe(Number.MAX_SAFE_INTEGER)
  })
  test('a list without a default page returns all items unless limited', () => {
    expect(pageOf({}, 10_000).limit).toBe(10_000)
    expect(pageOf({ limit: '500' }, 10_000).limit).toBe(200)
  })
})

test('a number of rows falls back and is clamped like a page', () => {
  const rows = { fallback: 100, max: 1_000 }
  for (const asked of [undefined, 0, -1, '0', 'x']) expect(limitOf(asked, rows)).toBe(100)
  for (const asked of [7, '7']) expect(limitOf(asked, rows)).toBe(7)
  for (const asked of [1_001, 1e30, '9'.repeat(40)]) expect(limitOf(asked, rows)).toBe(1_000)
})

test('a limit of 0 rows means no rows', () => {
  const rows = { fallback: 100, max: 1_000 }
  for (const asked of [0, '0']) expect(rowLimitOf(asked, rows)).toBe(0)
  for (const asked of [undefined, '', -1, 'x']) expect(rowLimitOf(asked, rows)).toBe(100)
  expect(rowLimitOf('1001', rows)).toBe(1_000)
})

describe('sort orders', () => {
  type Key = 'name' | 'created_at'
  test('sorts newest first by default', () => {
    expect(sortOf<Key>({}, 'created_at')).toEqual({ key: 'created_at', descending: true })
    expect(sortOf<Key>({ sort: 'name', order: 'asc' }, 'created_at')).toEqual({
      key: 'name',
      descending: false,
    })
  })
  test('a sort schema accepts only its keys and directions', () => {
    const { properties } = sortQuery(['name', 'created_at'], { title: 'Key', fallback: 'name' })
    const accepts = (field: TSchema, values: string[]) => values.filter((value) => Value.Check(field, value))
    expect(accepts(properties.sort, ['name', 'created_at', 'owner', ''])).toEqual(['name', 'created_at'])
    expect(accepts(properties.order, ['asc', 'desc', 'up', ''])).toEqual(['asc', 'desc'])
  })
})

describe('Link header', () => {
  const linksOf = (query: string, offset: number, total: number) => {
    const set: { headers: { link?: string } } = { headers: {} }
    setLink(set, `http://x.test/api/v1/runs?${query}&offset=${offset}`, { limit: 10, offset }, total)
    return set.headers.link
  }
  const linksAt = (offset: number, total: number) => linksOf('status=failed', offset, total)
  const link = (rel: string, offset: number) =>
    `</api/v1/runs?status=failed&offset=${offset}&limit=10>; rel="${rel}"`

  test('a middle page links both ways and keeps the filters', () => {
    expect(linksAt(10, 25)).toBe(
      [link('first', 0), link('prev', 0), link('next', 20), link('last', 20)].join(', '),
    )
  })
  test('the first and the last page link one way', () => {
    expect(linksAt(0, 25)).not.toContain('prev')
    expect(linksAt(20, 25)).not.toContain('next')
  })
  test('a page beyond the end links back to the last page', () => {
    expect(linksAt(5_000, 25)).toBe([link('first', 0), link('prev', 20), link('last', 20)].join(', '))
  })
  test('the last link of exactly full pages names the last full page', () => {
    expect(linksAt(0, 20)).toContain(link('last', 10))
    expect(linksAt(0, 0)).toBe([link('first', 0), link('last', 0)].join(', '))
  })
  test('a long filter leaves only the next link, a longer filter none', () => {
    const filtered = (letters: number, offset = 10) => linksOf(`prefix=${'a'.repeat(letters)}`, offset, 25)
    expect(filtered(500)?.match(/rel="(\w+)"/g)).toHaveLength(4)
    for (let letters = 0; letters < LINK_HEADER_BYTES; letters += 101)
      expect(filtered(letters)?.length ?? 0).toBeLessThanOrEqual(LINK_HEADER_BYTES)
    expect(filtered(2_000)).toMatch(/^<[^>]*offset=20[^>]*>; rel="next"$/)
    expect(filtered(2_000, 20)).toBeUndefined()
    expect(filtered(LINK_HEADER_BYTES)).toBeUndefined()
    expect(linksOf(`prefix=${encodeURIComponent('ü'.repeat(400))}`, 10, 25)).toMatch(/rel="next"$/)
  })
})
