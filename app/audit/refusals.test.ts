import { expect, test } from 'bun:test'
import { newId } from '../core/ids.ts'
import {
  FULL_ROWS_PER_ADDRESS,
  makeRefusals,
  OTHER_ADDRESSES,
  REFRESH_MS,
  RESOURCE_LENGTH,
  type Refusal,
} from './refusals.ts'

const refusal = (changes: Partial<Refusal> = {}): Refusal => ({
  action: 'post',
  resource: '/api/v1/runs',
  ip: '203.0.113.7',
  peer: '127.0.0.1',
  status: 401,
  userId: '',
  key: '',
  ...changes,
})

function stored(refusals: ReturnType<typeof makeRefusals>, nowMs: number) {
  const rows = refusals.due(nowMs, true)
  refusals.stored(rows, nowMs)
  return rows
}

test('stores the first refusals of an address separately, later refusals per status', () => {
  const refusals = makeRefusals(newId)
  for (let n = 0; n < FULL_ROWS_PER_ADDRESS; n++) refusals.add(refusal({ resource: `/api/v1/${n}` }), 0)
  for (let n = 0; n < 5; n++) refusals.add(refusal(), 0)
  for (let n = 0; n < 3; n++) refusals.add(refusal({ status: 429 }), 0)
  const rows = stored(refusals, 0)
  expect(rows.slice(0, FULL_ROWS_PER_ADDRESS).map(({ count }) => count)).toEqual(
    Array.from({ length: FULL_ROWS_PER_ADDRESS }, () => 1),
  )
  expect(rows.slice(FULL_ROWS_PER_ADDRESS)).toMatchObject([
    { status: 401, count: 5, ip: '203.0.113.7', peer: '127.0.0.1' },
    { status: 429, count: 3 },
  ])
  expect(refusals.hasChanges()).toBe(false)
})

test('a row has the well-formed beginning of a long path', () => {
  const refusals = makeRefusals(newId)
  refusals.add(refusal({ resource: `${'x'.repeat(RESOURCE_LENGTH - 1)}\u{1f600}${'y'.repeat(2_000)}` }), 0)
  expect(stored(refusals, 0)).toMatchObject([{ resource: `${'x'.repeat(RESOURCE_LENGTH - 1)}\ufffd` }])
})

test('a count that grew is stored after a pause, a new row immediately', () => {
  const refusals = makeRefusals(newId)
  for (let n = 0; n <= FULL_ROWS_PER_ADDRESS; n++) refusals.add(refusal(), 0)
  stored(refusals, 0)
  refusals.add(refusal(), 10)
  refusals.add(refusal({ ip: '198.51.100.1' }), 10)
  expect(refusals.due(10, false)).toMatchObject([{ ip: '198.51.100.1' }])
  expect(refusals.due(10, true)).toHaveLength(2)
  expect(refusals.due(REFRESH_MS, false)).toMatchObject([{ count: 2 }, { count: 1 }])
})

test('a count that grows during its insert is stored again', () => {
  const refusals = makeRefusals(newId)
  for (let n = 0; n <= FULL_ROWS_PER_ADDRESS; n++) refusals.add(refusal(), 0)
  const rows = refusals.due(0, true)
  refusals.add(refusal(), 1)
  refusals.stored(rows, 2)
  expect(stored(refusals, 3)).toMatchObject([{ count: 2 }])
})

test('counting restarts after a minute', () => {
  const refusals = makeRefusals(newId)
  for (let n = 0; n < 50; n++) refusals.add(refusal(), 0)
  stored(refusals, 0)
  refusals.add(refusal(), 60_000)
  expect(stored(refusals, 60_000)).toMatchObject([{ count: 1, at: 60_000 }])
})

test('forged addresses share a row beyond the limit, without uncounted requests', () => {
  const refusals = makeRefusals(newId)
  for (let n = 0; n < 100_000; n++)
    refusals.add(refusal({ ip: `10.${n >> 16}.${(n >> 8) & 255}.${n & 255}` }), 0)
  const rows = stored(refusals, 0)
  expect(rows.length).toBeLessThanOrEqual(301)
  expect(rows.reduce((sum, { count }) => sum + count, 0)).toBe(100_000)
  expect(rows.find(({ ip }) => ip === OTHER_ADDRESSES)).toMatchObject({ count: 99_700, peer: '' })
})

test('the number of rows stays limited while nothing is stored', () => {
  const refusals = makeRefusals(newId)
  for (let minute = 0; minute < 100; minute++)
    for (let n = 0; n < 1_000; n++)
      refusals.add(refusal({ ip: `10.0.${n >> 8}.${n & 255}` }), minute * 60_000)
  const rows = refusals.due(100 * 60_000, true)
  expect(rows.length).toBeLessThanOrEqual(1_500)
  expect(rows.reduce((sum, { count }) => sum + count, 0)).toBe(100_000)
})
