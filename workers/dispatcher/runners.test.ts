import { expect, test } from 'bun:test'
import { until } from '../../tools/test/until.ts'
import { makeRunners, type RunnerSlots } from './runners.ts'

const URL_A = 'http://a'
const SLOTS = 4

function known() {
  const remote = { url: URL_A, check: async () => {} } as never
  const runners = makeRunners([URL_A], () => remote)
  const says = (room: RunnerSlots) => runners.accepted(URL_A, room)
  const take = (max = 100) => runners.takePlaces(max).length
  return { runners, says, take }
}

test('an ended attempt frees one slot, although the runner counted it already', () => {
  const { runners, says, take } = known()
  expect([take(), says({ slots: SLOTS, freeSlots: 0 }), take()]).toEqual([SLOTS, false, 0])
  runners.give(URL_A)
  expect(take()).toBe(1)
  // Another attempt has ended at the runner, but its end has not arrived here.
  expect(says({ slots: SLOTS, freeSlots: 1 })).toBe(false)
  runners.give(URL_A)
  expect(take()).toBe(1)
})

test('slots of attempts on their way to the runner are not free', () => {
  const { says, take } = known()
  expect(take(2)).toBe(2)
  expect(says({ slots: SLOTS, freeSlots: 3 })).toBe(true)
  expect(take()).toBe(2)
})

test('released slots are free again, also after an answer of the runner', () => {
  const { runners, says, take } = known()
  expect(take()).toBe(4)
  says({ slots: SLOTS, freeSlots: 3 })
  for (let unneeded = 0; unneeded < 3; unneeded++) runners.give(URL_A)
  expect(take()).toBe(3)
})

test('attempts of other replicas reduce the free slots', () => {
  const { says, take } = known()
  take(1)
  expect(says({ slots: SLOTS, freeSlots: 1 })).toBe(true)
  expect(take()).toBe(1)
})

test('the free slots of a runner without a slot count are trusted', () => {
  const { runners, says, take } = known()
  take(1)
  says({ freeSlots: 7 })
  expect(take()).toBe(7)
  runners.give(URL_A)
  expect(take()).toBe(1)
})

test('a refusal removes all free slots and releases the acquired slot', () => {
  const { runners, says, take } = known()
  take(3)
  says({ slots: SLOTS, freeSlots: 1 })
  runners.refused(URL_A, true)
  runners.refused(URL_A, false)
  expect(take()).toBe(0)
  says({ slots: SLOTS, freeSlots: 2 })
  expect(take()).toBe(2)
})

test('a runner that defers new work gets no attempts until it resumes', async () => {
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

test('the probe interval of a full runner doubles with each refusal', async () => {
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
