import { expect, test } from 'bun:test'
import { until } from './until.ts'

test('a wait asks until the answer holds, and gives that answer', async () => {
  let asked = 0
  expect(
    await until(
      async () => ++asked,
      (times) => times === 3,
    ),
  ).toBe(3)
  expect(await until(() => 'there')).toBe('there')
})

test('a wait passes on what asking throws', async () => {
  await expect(until(() => Promise.reject(new Error('nobody to ask')))).rejects.toThrow('nobody to ask')
})
