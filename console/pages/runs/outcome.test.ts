import { expect, test } from 'bun:test'
import { outcomeOf } from './outcome.ts'

const linesOf = (...messages: string[]) =>
  messages.map((message) => ({ timestamp: '2026-01-01T00:00:00Z', level: 'info' as const, message }))

const FIRST = [
  'attempt 1: version 1 on main at commit 1',
  'reads default.bronze.orders: 2 rows in 1 file',
  'rendered SQL:\nselect 1\nfrom x',
  'cost: 0.01 CPU s',
]

test('the outcome has the inputs, the SQL and the cost', () => {
  expect(outcomeOf(linesOf(...FIRST))).toEqual({
    cost: '0.01 CPU s',
    sql: 'select 1\nfrom x',
    reads: ['default.bronze.orders: 2 rows in 1 file'],
  })
})

test('a new attempt replaces the outcome of the attempt before', () => {
  expect(outcomeOf(linesOf(...FIRST, 'attempt 2: version 1 on main at commit 2'))).toEqual({
    cost: null,
    sql: null,
    reads: [],
  })
})
