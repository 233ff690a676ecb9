import { expect, setDefaultTimeout, test } from 'bun:test'
import { crc32 } from 'node:zlib'
import fc from 'fast-check'
import { BadDeletionVector, deletedLines, deletedRuns } from './deletion-vector.ts'
import { deletionVector } from './test-vector.ts'

setDefaultTimeout(60_000)

const rowsIn = (blob: Uint8Array, rows: number) =>
  [...deletedRuns(blob, rows)].flatMap(({ from, to }) =>
    Array.from({ length: to - from }, (_, i) => from + i),
  )

/** Clusters of rows at the places where containers and bitmaps begin and end. */
const cluster = fc
  .record({
    start: fc.oneof(
      fc.nat(200_000),
      fc.constantFrom(0, 65_530, 131_070, 2 ** 31 - 3, 2 ** 32 - 5, 2 ** 32, 2 ** 33 + 65_535, 2 ** 52),
    ),
    step: fc.integer({ min: 1, max: 5 }),
    count: fc.oneof(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 4_090, max: 4_102 })),
  })
  .map(({ start, step, count }) => Array.from({ length: count }, (_, i) => start + i * step))

test('yields the rows of each kind of container, in order', () => {
  fc.assert(
    fc.property(
      fc.array(cluster, { maxLength: 6 }),
      fc.infiniteStream(fc.constantFrom('array', 'bitmap', 'run')),
      (clusters, kinds) => {
        const rows = [...new Set(clusters.flat())].toSorted((a, b) => a - b)
        // The number of values decides between an array and a bitmap.
        const blob = deletionVector(rows, (values) =>
          kinds.next().value === 'run' ? 'run' : values > 4_096 ? 'bitmap' : 'array',
        )
        expect(rowsIn(blob, rows.length)).toEqual(rows)
      },
    ),
    { numRuns: 60 },
  )
})

test('reads a vector that follows the text of the specifications byte by byte', () => {
  // One bitmap with key 0: one array container with the rows 1 and 3, at offset 16.
  const body = [
    ...[0xd1, 0xd3, 0x39, 0x64],
    ...[1, 0, 0, 0, 0, 0, 0, 0],
    ...[0, 0, 0, 0],
    ...[0x3a, 0x30, 0, 0, 1, 0, 0, 0],
    ...[0, 0, 1, 0],
    ...[16, 0, 0, 0],
    ...[1, 0, 3, 0],
  ]
  const crc = new DataView(new ArrayBuffer(4))
  crc.setUint32(0, crc32(Uint8Array.from(body)))
  const blob = Uint8Array.from([0, 0, 0, body.length, ...body, ...new Uint8Array(crc.buffer)])
  expect(rowsIn(blob, 2)).toEqual([1, 3])
  expect(deletionVector([1, 3])).toEqual(blob)
  expect([...deletedLines(blob, 2)].join('')).toBe('1,2\n3,4\n')
})

test('reads a whole bitmap as one run, without a list of its rows', () => {
  const rows = Array.from({ length: 65_536 }, (_, i) => i)
  for (const kind of ['bitmap', 'run'] as const)
    expect([
      ...deletedRuns(
        deletionVector(rows, () => kind),
        65_536,
      ),
    ]).toEqual([{ from: 0, to: 65_536 }])
})

test('refuses a vector with any changed byte', () => {
  const rows = [1, 2, 3, 70_000, 2 ** 32 + 7]
  for (const kind of ['array', 'run'] as const) {
    const blob = deletionVector(rows, () => kind)
    for (let at = 0; at < blob.length; at++) {
      const changed = blob.slice()
      changed[at] = (changed[at] ?? 0) ^ 0x10
      expect(() => rowsIn(changed, rows.length)).toThrow(BadDeletionVector)
    }
    for (let end = 0; end < blob.length; end++)
      expect(() => rowsIn(blob.subarray(0, end), rows.length)).toThrow(BadDeletionVector)
  }
})

test('refuses contradictory bitmaps whose checksum is right, or reads rows in order', () => {
  const rows = Array.from({ length: 30 }, (_, i) => i * i * 97)
  fc.assert(
    fc.property(
      fc.constantFrom('array' as const, 'run' as const),
      fc.array(fc.record({ at: fc.nat(), byte: fc.nat(255) }), { minLength: 1, maxLength: 4 }),
      (kind, changes) => {
        const blob = deletionVector(rows, () => kind)
        for (const { at, byte } of changes) blob[8 + (at % (blob.length - 12))] = byte
        new DataView(blob.buffer).setUint32(blob.length - 4, crc32(blob.subarray(4, -4)))
        try {
          let end = 0
          for (const { from, to } of deletedRuns(blob, rows.length)) {
            expect(from).toBeGreaterThanOrEqual(end)
            expect(to).toBeGreaterThan(from)
            end = to
          }
        } catch (error) {
          expect(error).toBeInstanceOf(BadDeletionVector)
        }
      },
    ),
    { numRuns: 2_000 },
  )
})

test('refuses a vector with another number of rows than its manifest says', () => {
  expect(() => rowsIn(deletionVector([1, 2]), 3)).toThrow('it deletes 2 rows instead of 3')
})
