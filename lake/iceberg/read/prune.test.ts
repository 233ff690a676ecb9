// Pruning may keep unnecessary files, but must never drop a necessary one.

import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { type BoundValue, compareBounds, encodeBound, lowerBound, upperBound } from '../format/bounds.ts'
import type { DataFile } from '../format/data-file.ts'
import { filesWithMaximum } from './prune.ts'

const column = (type: string) => ({ id: 1, name: 'v', required: false, type })

/** A file with these values; null stands for NULL. */
function fileWith(type: string, location: string, values: readonly (BoundValue | null)[]): DataFile {
  const present = values.filter((value) => value !== null).sort((a, b) => (a < b ? -1 : 1))
  const [least, greatest] = [present[0], present.at(-1)]
  const upper = greatest === undefined ? undefined : upperBound(type, greatest)
  return {
    content: 'data',
    location,
    format: 'PARQUET',
    partition: {},
    recordCount: values.length,
    sizeBytes: 1,
    columns: new Map([
      [
        1,
        {
          valueCount: values.length,
          nullCount: values.length - present.length,
          nanCount: 0,
          ...(least !== undefined && { lower: encodeBound(type, lowerBound(type, least)) }),
          ...(upper !== undefined && { upper: encodeBound(type, upper) }),
        },
      ],
    ]),
  }
}

describe('the files that may hold the greatest value', () => {
  const word = fc.constantFrom('a', 'b', 'one long beginning of many 1', 'one long beginning of many 2', 'z')
  test.each([
    ['long', fc.bigInt({ min: -5n, max: 5n })],
    ['double', fc.double({ noNaN: true })],
    ['string', word],
  ] as [string, fc.Arbitrary<BoundValue>][])(
    'always includes the file with the greatest value: %s',
    (type, value) => {
      fc.assert(
        fc.property(
          fc.array(fc.array(fc.option(value), { minLength: 1, maxLength: 4 }), { maxLength: 6 }),
          (contents) => {
            const files = contents.map((values, i) => fileWith(type, String(i), values))
            const all = contents.flat().filter((one) => one !== null)
            const greatest = all.reduce((a, b) => (compareBounds(b, a) > 0 ? b : a), all[0] ?? 0)
            const chosen = new Set(filesWithMaximum(files, column(type)).map(({ location }) => location))
            const holds = contents.flatMap((values, i) => (values.includes(greatest) ? [String(i)] : []))
            if (all.length > 0) expect(holds.every((location) => chosen.has(location))).toBe(true)
            else expect(chosen.size).toBe(0)
          },
        ),
      )
    },
  )

  test('excludes files with smaller ranges, but keeps files without metrics or with deletes', () => {
    const files = [0, 10, 20, 30].map((from) => fileWith('int', `f${from}`, [from, from + 9]))
    expect(filesWithMaximum(files, column('int')).map(({ location }) => location)).toEqual(['f30'])
    const deletes = { sequenceNumber: 1, scope: '', files: [] }
    const deleted = files.map((file, i) => (i < 2 ? file : { ...file, deletes }))
    expect(filesWithMaximum(deleted, column('int')).map(({ location }) => location)).toEqual([
      'f10',
      'f20',
      'f30',
    ])
    const unknown = files.map((file) => ({ ...file, columns: new Map() }))
    expect(filesWithMaximum(unknown, column('int'))).toHaveLength(4)
    expect(filesWithMaximum(files, { ...column('int'), id: 2 })).toHaveLength(4)
  })
})
