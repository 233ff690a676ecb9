import { expect, test } from 'bun:test'
import type { Placement } from '../../drizzle/schema/pipeline.ts'
import { anySlot, isOffered, type RunnerSlot, refusalOf, takeSlot } from './placement.ts'

const GIB = 1_073_741_824
const wants = (runsOn: string[], gigabytes: number | null = null): Placement => ({
  runsOn,
  memoryBytes: gigabytes === null ? null : gigabytes * GIB,
  priority: 0,
})
const slot = (url: string, labels: string[], gigabytes = 0): RunnerSlot => ({
  url,
  labels,
  memoryBytes: gigabytes * GIB,
})

test.each([
  [null, [], 0, true],
  [wants([]), [], 0, true],
  [wants(['gpu']), ['eu', 'gpu'], 0, true],
  [wants(['gpu', 'us']), ['eu', 'gpu'], 0, false],
  [wants([], 4), [], 4, true],
  [wants([], 4), [], 3, false],
  [wants(['gpu'], 4), [], 8, false],
])('a runner with the labels fits: %j, %j, %d GB, %p', (placement, labels, gigabytes, isFit) => {
  expect(isOffered(placement, slot('a', labels, gigabytes))).toBe(isFit)
})

test('a run takes the fitting slot with the fewest labels', () => {
  const slots = [slot('both', ['eu', 'gpu']), anySlot('plain'), slot('gpu', ['gpu'])]
  expect(takeSlot(slots, null)?.url).toBe('plain')
  expect(takeSlot(slots, null)?.url).toBe('gpu')
  expect(takeSlot(slots, wants(['us']))).toBeUndefined()
  expect(takeSlot(slots, wants(['gpu']))?.url).toBe('both')
  expect(slots).toEqual([])
})

test('a refusal names a setting that all runners are too old for', () => {
  const reviewed = wants(['gpu', 'merge:review'])
  expect(refusalOf(reviewed, [slot('old', ['gpu'])])).toBe(
    'no runner knows merge:review (config.yaml): upgrade the runners',
  )
  expect(refusalOf(reviewed, [slot('old', ['gpu']), slot('new', ['merge:review'])])).toBe(
    'no runner has the labels gpu, merge:review (runs_on)',
  )
  expect(refusalOf(reviewed, [slot('new', ['gpu', 'merge:review'])])).toBeNull()
})

test('a refusal names the missing labels or the missing memory', () => {
  const offers = [slot('a', ['gpu'], 4), slot('b', [], 8)]
  expect(refusalOf(wants(['gpu'], 4), offers)).toBeNull()
  expect(refusalOf(wants(['us', 'gpu']), offers)).toBe('no runner has the labels us, gpu (runs_on)')
  expect(refusalOf(wants([], 16), offers)).toBe(
    'no runner gives 16384 MB of memory for one run (memory); the largest gives 8192 MB',
  )
  expect(refusalOf(wants(['gpu'], 8), offers)).toBe(
    'no runner with the labels gpu (runs_on) gives 8192 MB of memory for one run (memory); the largest gives 4096 MB',
  )
})
