import { expect, test } from 'bun:test'
import { until } from './until.ts'

test('polls until the condition holds and returns the last result', async () => {
  let polls = 0
  expect(
    await until(
      async () => ++polls,
      (times) => times === 3,
    ),
  ).toBe(3)
  expect(await until(() => 'there')).toBe('there')
})

test('forwards the error of the polled function', async () => {
  await expect(until(() => Promise.reject(new Error('nobody to ask')))).rejects.toThrow('nobody to ask')
})
