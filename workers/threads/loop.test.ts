import { expect, test } from 'bun:test'
import { type Loop, startLoop } from './loop.ts'

const HOUR = 3_600_000

/** A loop whose ticks the test ends one by one. */
function steered(options: { everyMs?: number } = {}) {
  const started: ((more: boolean) => void)[] = []
  let announce: () => void = () => {}
  const loop: Loop = startLoop({
    everyMs: options.everyMs ?? HOUR,
    onError: () => {},
    tick: () =>
      new Promise<boolean>((resolve) => {
        started.push(resolve)
        announce()
      }),
  })
  const tick = async (n: number) => {
    while (started.length < n) await new Promise<void>((resolve) => (announce = resolve))
    return started[n - 1] ?? (() => {})
  }
  return { loop, tick, count: () => started.length }
}

test('ticks at once, and again after the interval', async () => {
  const { loop, tick } = steered({ everyMs: 1 })
  for (let n = 1; n <= 3; n++) (await tick(n))(false)
  ;(await tick(4))(false)
  await loop.stop()
})

test('many nudges during a tick cause one more tick', async () => {
  const { loop, tick, count } = steered()
  const end = await tick(1)
  for (let n = 0; n < 10; n++) loop.nudge()
  end(false)
  ;(await tick(2))(false)
  await loop.stop()
  expect(count()).toBe(2)
})

test('nudges within a time share one tick, which a nudge brings forward', async () => {
  const { loop, tick, count } = steered()
  ;(await tick(1))(false)
  loop.nudgeWithin(HOUR)
  loop.nudgeWithin(1)
  loop.nudge()
  ;(await tick(2))(false)
  loop.nudgeWithin(1)
  ;(await tick(3))(false)
  await loop.stop()
  expect(count()).toBe(3)
})

test('a tick with more work is followed by another at once', async () => {
  const { loop, tick, count } = steered()
  ;(await tick(1))(true)
  ;(await tick(2))(false)
  await loop.stop()
  expect(count()).toBe(2)
})

test('stop waits for the tick under way, and no other follows', async () => {
  const { loop, tick, count } = steered()
  const end = await tick(1)
  let hasStopped = false
  const stopped = loop.stop().then(() => {
    hasStopped = true
  })
  loop.nudge()
  await Promise.resolve()
  expect(hasStopped).toBe(false)
  end(true)
  await stopped
  expect(count()).toBe(1)
})

test('a failed tick is reported and repeated after the interval', async () => {
  const errors: unknown[] = []
  const { promise, resolve } = Promise.withResolvers<void>()
  let ticks = 0
  const loop = startLoop({
    everyMs: 1,
    onError: (error) => errors.push(error),
    async tick() {
      ticks += 1
      if (ticks === 1) throw new Error('once')
      resolve()
      return false
    },
  })
  await promise
  await loop.stop()
  expect(errors).toEqual([new Error('once')])
})
