import { expect, test } from 'bun:test'
import { tmpdir } from 'node:os'
import { LAST_SHARE, makeDiskFloor } from './disk-floor.ts'

const MIB = 1_048_576
const GIB = 1_024 * MIB

/** The reported shortage of a disk with this size and free space; null without a shortage. */
const shortageOf = (size: number, free: number, floorBytes: number | null) =>
  makeDiskFloor('/data', floorBytes, async () => ({
    bsize: 4_096,
    blocks: size / 4_096,
    bavail: Math.floor(free / 4_096),
  })).shortage()

test.each<[name: string, size: number, free: number, floor: number | null, shortage: string | null]>([
  ['above the floor', 100 * GIB, 300 * MIB, 300 * MIB, null],
  [
    'below the floor',
    100 * GIB,
    300 * MIB - 4_096,
    300 * MIB,
    '299 MB of disk space are free, and DISK_FLOOR is 300 MB',
  ],
  [
    'below the default of 1 GB',
    100 * GIB,
    GIB - 4_096,
    null,
    '1023 MB of disk space are free, and DISK_FLOOR is 1024 MB',
  ],
  ['above the default of 1 GB', 100 * GIB, GIB, null, null],
  ['above the default of 2 % of a small disk', 10 * GIB, 205 * MIB, null, null],
  [
    'below the default of 2 % of a small disk',
    10 * GIB,
    204 * MIB,
    null,
    '204 MB of disk space are free, and DISK_FLOOR is 204 MB',
  ],
  ['without a floor', 100 * GIB, 0, 0, null],
])('reports the shortage of a disk: %s', async (_, size, free, floor, shortage) => {
  expect(await shortageOf(size, free, floor)).toBe(shortage)
})

test('running work leaves a part of the floor to Postgres', async () => {
  const floorWith = (free: number) =>
    makeDiskFloor('/data', 400 * MIB, async () => ({ bsize: MIB, blocks: 1_000, bavail: free }))
  expect(await floorWith(100).shortage(LAST_SHARE)).toBeNull()
  expect(await floorWith(99).shortage(LAST_SHARE)).toBe(
    '99 MB of disk space are free, and DISK_FLOOR is 400 MB',
  )
})

test('reads the free space of a real disk and ignores unreadable ones', async () => {
  expect(await makeDiskFloor(tmpdir(), Number.MAX_SAFE_INTEGER).shortage()).toContain(
    'of disk space are free',
  )
  expect(
    await makeDiskFloor(`${tmpdir()}/there-is-no-such-directory`, Number.MAX_SAFE_INTEGER).shortage(),
  ).toBeNull()
})
