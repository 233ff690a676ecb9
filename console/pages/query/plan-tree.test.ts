import { expect, test } from 'bun:test'
import { planOf } from './plan-tree.ts'

const JOIN = `┌───────────────────────────┐
│         HASH_JOIN         │
│    ────────────────────   │
│      Join Type: INNER     │
│                           ├──────────────┐
│     Conditions: i = i     │              │
│                           │              │
│          ~10 rows         │              │
└─────────────┬─────────────┘              │
┌─────────────┴─────────────┐┌─────────────┴─────────────┐
│           FILTER          ││           RANGE           │
│    ────────────────────   ││    ────────────────────   │
│          (i > 3)          ││          ~10 rows         │
└─────────────┬─────────────┘└───────────────────────────┘
┌─────────────┴─────────────┐
│           RANGE           │
└───────────────────────────┘
`

test('a join has two inputs', () => {
  const range = { name: 'RANGE', details: [], rows: null, time: null, children: [] }
  expect(planOf(JOIN)).toEqual({
    name: 'HASH_JOIN',
    details: ['Join Type: INNER', 'Conditions: i = i'],
    rows: '~10 rows',
    time: null,
    children: [
      { ...range, name: 'FILTER', details: ['(i > 3)'], children: [range] },
      { ...range, rows: '~10 rows' },
    ],
  })
})

test('a text without boxes is no tree', () => {
  expect(planOf('no plan')).toBeNull()
})
