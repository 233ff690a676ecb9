import { expect, test } from 'bun:test'
import { makeSlots } from './slots.ts'

const never = new AbortController().signal

test('slots are granted in the order of arrival, each once', async () => {
  const slots = makeSlots(1, 2)
  const order: string[] = []
  const first = await slots.acquire(never)
  const second = slots.acquire(never).then((free) => {
    order.push('second')
    return free
  })
  const third = slots.acquire(never).then((free) => {
    order.push('third')
    return free
  })
  first()
  first()
  ;(await second)()
  ;(await third)()
  expect(order).toEqual(['second', 'third'])
  ;(await slots.acquire(never))()
})

test('releasing a slot twice frees only one slot', async () => {
  const slots = makeSlots(1, 1)
  const free = await slots.acquire(never)
  free()
  free()
  await slots.acquire(never)
  const waits = slots.acquire(AbortSignal.timeout(20))
  expect(await waits.catch((error: Error) => error.name)).toBe('TimeoutError')
})

test('an aborted caller leaves its turn to the next waiter', async () => {
  const slots = makeSlots(1, 2)
  const free = await slots.acquire(never)
  const gone = new AbortController()
  const aborted = slots.acquire(gone.signal).catch((error: Error) => error.message)
  const stays = slots.acquire(never)
  expect(await slots.acquire(never).catch((error: Error) => error.message)).toBe(
    'queue full: 2 callers wait for a slot',
  )
  gone.abort(new Error('gone'))
  expect(await aborted).toBe('gone')
  free()
  ;(await stays)()
})
