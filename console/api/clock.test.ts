import { expect, test } from 'bun:test'
import { now, setClock } from './clock.ts'

test('the time of the service corrects the clock of the browser', () => {
  const before = Date.now()
  const HOUR_MS = 3_600_000
  setClock(new Date(before - HOUR_MS).toISOString())
  expect(now().getTime()).toBeWithin(before - HOUR_MS, before)
  setClock(new Date().toISOString())
  expect(now().getTime()).toBeGreaterThanOrEqual(before)
})
