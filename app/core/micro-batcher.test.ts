import { expect, test } from 'bun:test'
import { makeMicroBatcher } from './micro-batcher.ts'

const BATCH_MAX = 10

const failure = (code: string) => Object.assign(new Error(code), { code })

test('batches items of one turn; later items wait for the next batch', async () => {
  const gate = Promise.withResolvers<void>()
  const batches: number[][] = []
  const batcher = makeMicroBatcher(BATCH_MAX, async (items: readonly number[]) => {
    batches.push([...items])
    await gate.promise
    return items.map((item) => item * 2)
  })
  const answers = [1, 2].map(batcher.add)
  expect(batcher.waiting()).toBe(2)
  await new Promise(setImmediate)
  const later = Array.from({ length: 15 }, (_, n) => n + 3)
  answers.push(...later.map(batcher.add))
  gate.resolve()
  expect(await Promise.all(answers)).toEqual([1, 2, ...later].map((item) => item * 2))
  expect(batches).toEqual([[1, 2], later.slice(0, BATCH_MAX), later.slice(BATCH_MAX)])
  expect(batcher.waiting()).toBe(0)
})

test('one invalid item does not fail the other items of its batch', async () => {
  const batcher = makeMicroBatcher(BATCH_MAX, async (items: readonly string[]) => {
    if (items.includes('bad')) throw new Error('bad item')
    return items
  })
  const settled = await Promise.allSettled(['a', 'bad', 'b'].map(batcher.add))
  expect(settled.map((one) => (one.status === 'fulfilled' ? one.value : 'failed'))).toEqual([
    'a',
    'failed',
    'b',
  ])
})

test.each([
  ['CONNECTION_SILENT', 'also fails the waiting items, without another call', 'CONNECTION_SILENT', 1],
  ['CONNECTION_CLOSED', 'fails only its own batch', 'stored', 3],
])('error %s %s', async (code, _, expected, batchesExpected) => {
  const failing = Promise.withResolvers<never>()
  let batches = 0
  const batcher = makeMicroBatcher(BATCH_MAX, async (items: readonly number[]) =>
    ++batches === 1 ? failing.promise : items.map(() => 'stored'),
  )
  const one = () => batcher.add(0).catch((error) => error.code)
  const first = one()
  await new Promise(setImmediate)
  const waiting = Array.from({ length: 2 * BATCH_MAX }, one)
  failing.reject(failure(code))
  expect(await first).toBe(code)
  expect(new Set(await Promise.all(waiting))).toEqual(new Set([expected]))
  expect(batches).toBe(batchesExpected)
  expect(await one()).toBe('stored')
})
