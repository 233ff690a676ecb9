import { expect, test } from 'bun:test'
import { placeOf } from './address.ts'

test.each([
  ['', { machine: 'run', id: null, filter: {} }],
  ['#/', { machine: 'run', id: null, filter: {} }],
  ['#/draft', { machine: 'draft', id: null, filter: {} }],
  ['/run?state=failed&q=sales', { machine: 'run', id: null, filter: { state: 'failed', q: 'sales' } }],
  ['#/trigger?layer=gold&x=1&q=', { machine: 'trigger', id: null, filter: { layer: 'gold' } }],
  ['#/run/01a-b', { machine: 'run', id: '01a-b', step: undefined }],
  ['#/run/01a-b@17', { machine: 'run', id: '01a-b', step: '17' }],
  ['#/run/01a-b@last', { machine: 'run', id: '01a-b', step: undefined }],
  ['#/unknown/01a-b', { machine: 'run', id: '01a-b', step: undefined }],
] as const)('the former address %p leads to its place', (fragment, place) =>
  expect(placeOf(fragment)).toEqual(place),
)
