import { expect, test } from 'bun:test'
import { makeSlots } from './slots.ts'

const never = new AbortController().signal

test('places are given in the order of arrival, each once', async () => {
  const slots = makeSlots(1, 2)
  const order: string[] = []
  const first = await slots.take(never)
  const second = slots.take(never).then((free) => {
    order.push('second')
    return free
  })
  const third = slots.take(never).then((free) => {
    order.push('third')
    return free
  })
  first()
  first()
  ;(await second)()
  ;(await third)()
  expect(order).toEqual(['second', 'third'])
  ;(await slots.take(never))()
})

test('a place given back twice is one place', async () => {
  const slots = makeSlots(1, 1)
  const free = await slots.take(never)
  free()
  free()
  await slots.take(never)
  const waits = slots.take(AbortSignal.timeout(20))
  expect(await waits.catch((error: Error) => error.name)).toBe('TimeoutError')
})

test('an aborted wait leaves its slot to the next waiter', async () => {
  const slots = makeSlots(1, 2)
  const free = await slots.take(never)
  const gone = new AbortController()
  const left = slots.take(gone.signal).catch((error: Error) => error.message)
  const stays = slots.take(never)
  expect(await slots.take(never).catch((error: Error) => error.message)).toBe('2 wait already')
  gone.abort(new Error('gone'))
  expect(await left).toBe('gone')
  free()
  ;(await stays)()
})
