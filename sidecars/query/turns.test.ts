import { expect, test } from 'bun:test'
import { limits } from './limits.ts'
import { makeTurns, NoTurn } from './turns.ts'

const patient = new AbortController().signal

test('who waits is let in, in the order of coming', async () => {
  const turns = makeTurns(1)
  await turns.enter(patient)
  const order: number[] = []
  const entered = [1, 2, 3].map(async (n) => {
    await turns.enter(patient)
    order.push(n)
    turns.leave()
  })
  turns.leave()
  await Promise.all(entered)
  expect(order).toEqual([1, 2, 3])
})

test('who gives up waiting takes no place', async () => {
  const turns = makeTurns(1)
  await turns.enter(patient)
  const impatient = new AbortController()
  const refused = turns.enter(impatient.signal)
  const next = turns.enter(patient)
  impatient.abort()
  await expect(refused).rejects.toThrow(NoTurn)
  turns.leave()
  await next
})

test('the line has an end', async () => {
  const turns = makeTurns(1)
  await turns.enter(patient)
  for (let n = 0; n < limits.waiting; n += 1) void turns.enter(patient)
  await expect(turns.enter(patient)).rejects.toThrow('queries are waiting already')
})
