import { expect, test } from 'bun:test'
import { newId } from '../core/ids.ts'
import { makeRefusals, REFRESH_MS, RESOURCE_LENGTH, type Refusal } from './refusals.ts'

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

test('one row a minute and status counts the refusals and shows the first', () => {
  const refusals = makeRefusals(newId)
  refusals.add(refusal(), 0)
  for (let n = 0; n < 99_999; n++) refusals.add(refusal({ ip: `10.0.0.${n % 256}`, resource: `/${n}` }), 1)
  for (let n = 0; n < 3; n++) refusals.add(refusal({ status: 429 }), 2)
  expect(refusals.take(2, false)).toMatchObject([
    { status: 401, count: 100_000, ip: '203.0.113.7', resource: '/api/v1/runs', at: 0 },
    { status: 429, count: 3 },
  ])
  expect(refusals.hasChanges()).toBe(false)
})

test('a row has the well-formed beginning of a long path', () => {
  const refusals = makeRefusals(newId)
  refusals.add(refusal({ resource: `${'x'.repeat(RESOURCE_LENGTH - 1)}\u{1f600}${'y'.repeat(2_000)}` }), 0)
  expect(refusals.take(0, true)).toMatchObject([{ resource: `${'x'.repeat(RESOURCE_LENGTH - 1)}\ufffd` }])
})

test('a count that grew is stored again under its id, after a pause', () => {
  const refusals = makeRefusals(newId)
  refusals.add(refusal(), 0)
  const [first] = refusals.take(0, false)
  refusals.add(refusal(), 10)
  expect(refusals.take(10, false)).toEqual([])
  expect(refusals.take(REFRESH_MS, false)).toMatchObject([{ id: first?.id, count: 2 }])
  refusals.add(refusal(), REFRESH_MS)
  expect(refusals.take(REFRESH_MS, true)).toMatchObject([{ id: first?.id, count: 3 }])
})

test('counting restarts after a minute', () => {
  const refusals = makeRefusals(newId)
  for (let n = 0; n < 50; n++) refusals.add(refusal(), 0)
  refusals.take(0, true)
  refusals.add(refusal(), 60_000)
  expect(refusals.take(60_000, true)).toMatchObject([{ count: 1, at: 60_000 }])
})

test('the number of rows stays limited while nothing is stored', () => {
  const refusals = makeRefusals(newId)
  for (let minute = 0; minute < 500; minute++) refusals.add(refusal(), minute * 60_000)
  const rows = refusals.take(500 * 60_000, true)
  expect(rows.length).toBe(100)
  expect(rows.reduce((sum, { count }) => sum + count, 0)).toBe(500)
})
