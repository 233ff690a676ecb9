import { expect, test } from 'bun:test'
import { outcomeOf } from './outcome.ts'

const linesOf = (...messages: string[]) =>
  messages.map((message) => ({ timestamp: '2026-01-01T00:00:00Z', level: 'info' as const, message }))

test('the outcome has the tests, their samples and the cost', () => {
  const { tests, cost } = outcomeOf(
    linesOf(
      'attempt 1: version 1 on main at commit 1',
      'test positive: failed with value 1 (severity error) in 3 ms',
      'test positive: id=1, amount=-5',
      'test unique: passed in 2 ms',
      'cost: 0.01 CPU s',
    ),
  )
  expect(tests).toEqual([
    {
      name: 'positive',
      isPassed: false,
      detail: 'with value 1 (severity error) in 3 ms',
      samples: ['id=1, amount=-5'],
    },
    { name: 'unique', isPassed: true, detail: 'in 2 ms', samples: [] },
  ])
  expect(cost).toBe('0.01 CPU s')
})

test('a new attempt replaces the outcome of the attempt before', () => {
  const { tests, cost } = outcomeOf(
    linesOf('test a: passed in 1 ms', 'cost: 1 CPU s', 'attempt 2: version 1 on main at commit 2'),
  )
  expect({ tests, cost }).toEqual({ tests: [], cost: null })
})
