import { expect, test } from 'bun:test'
import { paramsIn } from './filters.ts'

test('a former link with a quoted number keeps its value', () => {
  expect(paramsIn('?as_of=%225%22&offset=%2250%22&search=orders')).toEqual({
    as_of: '5',
    offset: '50',
    search: 'orders',
  })
})

test('quotes around a text that is no JSON belong to the text', () => {
  expect(paramsIn('?search=%22orders%22&sql=%22a%22.b&q=%22')).toEqual({
    search: '"orders"',
    sql: '"a".b',
    q: '"',
  })
})
