import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { makeShares, type Share } from './shares.ts'

const GIB = 1_073_741_824
const total = { memoryBytes: 12 * GIB, threads: 8 }
const floor = { memoryBytes: GIB, threads: 2 }
const shares = (availableBytes = 64 * GIB) =>
  makeShares({ total, floor, concurrency: 4, availableBytes: () => availableBytes })

describe('the share of an engine', () => {
  test('is nearly everything for an engine alone', () => {
    expect(shares().join().size()).toEqual({ memoryBytes: 9 * GIB, threads: 8 })
  })

  test('is the floor while another engine has the rest, and an equal part afterwards', () => {
    const { join } = shares()
    const first = join()
    first.size()
    const second = join()
    expect(second.size()).toEqual({ memoryBytes: GIB, threads: 4 })
    first.leave()
    join()
    expect(second.size()).toEqual({ memoryBytes: 6 * GIB, threads: 4 })
  })

  test('shrinks to an equal part when the engine asks again', () => {
    const { join } = shares()
    const [first, second] = [join(), join()]
    expect([first.size().memoryBytes, second.size().memoryBytes]).toEqual([6 * GIB, 4 * GIB])
    expect([first.size().memoryBytes, second.size().memoryBytes]).toEqual([6 * GIB, 4 * GIB])
  })

  test('follows the memory that the machine has left, but never below the floor', () => {
    expect(
      shares(5 * GIB)
        .join()
        .size().memoryBytes,
    ).toBe(4 * GIB)
    expect(shares(0).join().size().memoryBytes).toBe(GIB)
  })

  test('never exceeds the total in sum, whatever the order of engines', () => {
    fc.assert(
      fc.property(fc.array(fc.nat({ max: 11 }), { maxLength: 60 }), (steps) => {
        const { join } = shares()
        const open = new Map<Share, number>()
        for (const step of steps) {
          const [share] = [...open.keys()].slice(step % 4)
          if (step < 4 && open.size < 4) open.set(join(), GIB)
          else if (share !== undefined && step < 8) open.set(share, share.size().memoryBytes)
          else if (share !== undefined) {
            share.leave()
            open.delete(share)
          }
          const sum = [...open.values()].reduce((bytes, one) => bytes + one, 0)
          expect(sum + (4 - open.size) * GIB).toBeLessThanOrEqual(total.memoryBytes)
        }
      }),
    )
  })
})
