import { expect, test } from 'bun:test'
import { rangeOf } from './range.ts'

test.each([
  [null, 10, null],
  ['bytes=0-0', 10, { start: 0, end: 1 }],
  ['bytes=2-', 10, { start: 2, end: 10 }],
  ['bytes=2-99', 10, { start: 2, end: 10 }],
  ['bytes=-3', 10, { start: 7, end: 10 }],
  ['bytes=-99', 10, { start: 0, end: 10 }],
  ['bytes=9-9', 10, { start: 9, end: 10 }],
  ['bytes=10-', 10, 'unsatisfiable'],
  ['bytes=-0', 10, 'unsatisfiable'],
  ['bytes=0-', 0, 'unsatisfiable'],
  ['bytes=-1', 0, 'unsatisfiable'],
  ['bytes=5-2', 10, null],
  ['bytes=-', 10, null],
  ['bytes=0-1,3-4', 10, null],
  ['rows=0-1', 10, null],
  ['bytes=0x1-2', 10, null],
] as const)('the range %p of %i bytes is %j', (header, size, range) => {
  expect(rangeOf(header, size)).toEqual(range)
})
