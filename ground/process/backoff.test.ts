import { expect, test } from 'bun:test'
import { backoffMs } from './backoff.ts'

test('the delay doubles with each failure, up to its limit', () => {
  const waits = [0, 1, 2, 3, 4, 5, 1_000].map((failures) =>
    backoffMs(failures, { firstMs: 100, limitMs: 1_000 }),
  )
  expect(waits).toEqual([0, 100, 200, 400, 800, 1_000, 1_000])
})
