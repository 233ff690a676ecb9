import { expect, test } from 'bun:test'
import { until } from '../../tools/test/until.ts'
import { makeRunners, type RunnerRoom } from './runners.ts'

const URL_A = 'http://a'
const SLOTS = 4

function known() {
  const remote = { url: URL_A, check: async () => {} } as never
  const runners = makeRunners([URL_A], () => remote)
  const says = (room: RunnerRoom) => runners.accepted(URL_A, room)
  const take = (max = 100) => runners.takePlaces(max).length
  return { runners, says, take }
}

test('an end that the runner has counted as free already is not a second place', () => {
  const { runners, says, take } = known()
  expect([take(), says({ slots: SLOTS, freeSlots: 0 }), take()]).toEqual([SLOTS, false, 0])
  runners.give(URL_A)
  expect(take()).toBe(1)
  // Another has ended there, and we are yet to hear of it.
  expect(says({ slots: SLOTS, freeSlots: 1 })).toBe(false)
  runners.give(URL_A)
  expect(take()).toBe(1)
})

test('what is on its way to the runner is not free, whatever it says meanwhile', () => {
  const { says, take } = known()
  expect(take(2)).toBe(2)
  expect(says({ slots: SLOTS, freeSlots: 3 })).toBe(true)
  expect(take()).toBe(2)
})

test('places that were taken and not needed are there again, also when the runner answered in between', () => {
  const { runners, says, take } = known()
  expect(take()).toBe(4)
  says({ slots: SLOTS, freeSlots: 3 })
  for (let unneeded = 0; unneeded < 3; unneeded++) runners.give(URL_A)
  expect(take()).toBe(3)
})

test('attempts of others leave as many places as the runner says', () => {
  const { says, take } = known()
  take(1)
  expect(says({ slots: SLOTS, freeSlots: 1 })).toBe(true)
  expect(take()).toBe(1)
})

test('a runner that does not say how many it executes is believed', () => {
  const { runners, says, take } = known()
  take(1)
  says({ freeSlots: 7 })
  expect(take()).toBe(7)
  runners.give(URL_A)
  expect(take()).toBe(1)
})

test('a place that was refused is none, and one that is refused without a place changes nothing of ours', () => {
  const { runners, says, take } = known()
  take(3)
  says({ slots: SLOTS, freeSlots: 1 })
  runners.refused(URL_A, true)
  runners.refused(URL_A, false)
  expect(take()).toBe(0)
  says({ slots: SLOTS, freeSlots: 2 })
  expect(take()).toBe(2)
})

test('a runner whose new work waits is sent nothing until it says that it goes on', async () => {
  let reason: string | null = '1 MB of disk space are free'
  const remote = { url: URL_A, check: async () => {}, waitsFor: () => reason } as never
  const runners = makeRunners([URL_A], () => remote)
  expect(runners.takePlaces(100)).toHaveLength(SLOTS)
  expect(await runners.probe()).toBe(false)
  expect(runners.takePlaces(100)).toEqual([])
  reason = null
  await until(() => runners.probe())
  expect(runners.takePlaces(100)).toEqual([URL_A])
})

test('a runner that is full is asked after twice the time each time it refuses', async () => {
  let asked = 0
  const check = async () => {
    asked += 1
  }
  const remote = { url: URL_A, check } as never
  const runners = makeRunners([URL_A], () => remote, 20)
  for (let refusals = 0; refusals < 3; refusals++) runners.refused(URL_A, false)
  const since = performance.now()
  await until(() => runners.probe())
  expect(asked).toBe(1)
  expect(performance.now() - since).toBeGreaterThanOrEqual(20 * 2 ** 3)
})
