import { expect, test } from 'bun:test'
import { Code, ConnectError } from '@connectrpc/connect'
import { anySlot } from '../../app/runs/placement.ts'
import { until } from '../../tools/kit/until.ts'
import { makeRunners, type RunnerSlots } from './runners.ts'

const URL_A = 'http://a'
const SLOTS = 4

function oneRunner() {
  const remote = { url: URL_A, check: async () => {} } as never
  const runners = makeRunners([URL_A], () => remote)
  const accepts = (slots: RunnerSlots) => runners.accepted(URL_A, slots)
  const acquire = (max = 100) => runners.acquireSlots(max).length
  return { runners, accepts, acquire }
}

test('an ended attempt frees one slot, although the runner counted it already', () => {
  const { runners, accepts, acquire } = oneRunner()
  expect([acquire(), accepts({ slots: SLOTS, freeSlots: 0 }), acquire()]).toEqual([SLOTS, false, 0])
  runners.release(URL_A)
  expect(acquire()).toBe(1)
  // Another attempt has ended at the runner, but its end has not arrived here.
  expect(accepts({ slots: SLOTS, freeSlots: 1 })).toBe(false)
  runners.release(URL_A)
  expect(acquire()).toBe(1)
})

test('slots of attempts on their way to the runner are not free', () => {
  const { accepts, acquire } = oneRunner()
  expect(acquire(2)).toBe(2)
  expect(accepts({ slots: SLOTS, freeSlots: 3 })).toBe(true)
  expect(acquire()).toBe(2)
})

test('released slots are free again, also after an answer of the runner', () => {
  const { runners, accepts, acquire } = oneRunner()
  expect(acquire()).toBe(4)
  accepts({ slots: SLOTS, freeSlots: 3 })
  for (let unneeded = 0; unneeded < 3; unneeded++) runners.release(URL_A)
  expect(acquire()).toBe(3)
})

test('attempts of other replicas reduce the free slots', () => {
  const { accepts, acquire } = oneRunner()
  acquire(1)
  expect(accepts({ slots: SLOTS, freeSlots: 1 })).toBe(true)
  expect(acquire()).toBe(1)
})

test('the free slots of a runner without a slot count are trusted', () => {
  const { runners, accepts, acquire } = oneRunner()
  acquire(1)
  accepts({ freeSlots: 7 })
  expect(acquire()).toBe(7)
  runners.release(URL_A)
  expect(acquire()).toBe(1)
})

test('a refusal removes all free slots and releases the acquired slot', () => {
  const { runners, accepts, acquire } = oneRunner()
  acquire(3)
  accepts({ slots: SLOTS, freeSlots: 1 })
  runners.refused(URL_A, true)
  runners.refused(URL_A, false)
  expect(acquire()).toBe(0)
  accepts({ slots: SLOTS, freeSlots: 2 })
  expect(acquire()).toBe(2)
})

test('a runner that defers new work gets no attempts until it resumes', async () => {
  let reason: string | null = '1 MB of disk space are free'
  const remote = { url: URL_A, check: async () => {}, waitsFor: () => reason } as never
  const runners = makeRunners([URL_A], () => remote)
  expect(runners.acquireSlots(100)).toHaveLength(SLOTS)
  expect(await runners.probe()).toBe(false)
  expect(runners.acquireSlots(100)).toEqual([])
  reason = null
  await until(() => runners.probe())
  expect(runners.acquireSlots(100)).toEqual([anySlot(URL_A)])
})

test('the probe interval of a full runner doubles with each refusal', async () => {
  let probes = 0
  const check = async () => {
    probes += 1
  }
  const remote = { url: URL_A, check } as never
  const runners = makeRunners([URL_A], () => remote, 20)
  for (let refusals = 0; refusals < 3; refusals++) runners.refused(URL_A, false)
  const since = performance.now()
  await until(() => runners.probe())
  expect(probes).toBe(1)
  expect(performance.now() - since).toBeGreaterThanOrEqual(20 * 2 ** 3)
})

test('slots carry the labels and the memory of their runner', async () => {
  const service = { describeRunner: async () => ({ labels: ['gpu'], runMemoryBytes: 8n }) }
  const runners = makeRunners([URL_A], () => ({ url: URL_A, check: async () => null, service }) as never)
  expect(runners.acquireSlots(1)).toEqual([anySlot(URL_A)])
  expect([runners.offers(), runners.differ()]).toEqual([[], false])
  expect([await runners.describe(), await runners.describe()]).toEqual([true, false])
  expect(runners.acquireSlots(1)).toEqual([{ url: URL_A, labels: ['gpu'], memoryBytes: 8 }])
  expect([runners.offers(), runners.differ()]).toEqual([[{ labels: ['gpu'], memoryBytes: 8 }], false])
  runners.isDown(URL_A)
  expect(runners.offers()).toEqual([])
})

test('a runner that does not describe itself takes runs without demands', async () => {
  const describeRunner = async () => {
    throw new ConnectError('unknown call', Code.Unimplemented)
  }
  const runners = makeRunners(
    [URL_A],
    () => ({ url: URL_A, check: async () => null, service: { describeRunner } }) as never,
  )
  expect(await runners.describe()).toBe(true)
  expect(runners.offers()).toEqual([{ labels: [], memoryBytes: 0 }])
})

test('runners differ when one of them offers something else', async () => {
  const offers: Record<string, string[]> = { 'http://a': [], 'http://b': ['gpu'] }
  const runners = makeRunners(Object.keys(offers), (url) => {
    const describeRunner = async () => ({ labels: offers[url] ?? [], runMemoryBytes: 8n })
    return { url, check: async () => null, service: { describeRunner } } as never
  })
  expect(runners.differ()).toBe(false)
  await runners.describe()
  expect(runners.differ()).toBe(true)
})
