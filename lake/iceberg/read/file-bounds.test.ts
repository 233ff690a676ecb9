// Bounds of other writers: missing, cut, reversed, or of an older type.
import { describe, expect, test } from 'bun:test'
import { type BoundValue, encodeBound } from '../format/bounds.ts'
import type { ColumnMetrics, PartitionTuple } from '../format/data-file.ts'
import { fileBounds } from './file-bounds.ts'
import type { TableFile } from './scan.ts'
import type { Comparison, ScanFilter } from './scan-filter.ts'

const fileOf = (metrics: ColumnMetrics | undefined, partition: PartitionTuple = {}): TableFile => ({
  manifest: 'm',
  specId: 0,
  file: {
    content: 'data',
    location: 'f',
    format: 'PARQUET',
    partition,
    recordCount: 10,
    sizeBytes: 1,
    columns: new Map(metrics ? [[1, metrics]] : []),
  },
})

/** Whether a file is read for a filter on its only column. */
function isRead(type: string, file: TableFile, filter: ScanFilter, transform = 'void'): boolean {
  const schema = {
    type: 'struct' as const,
    'schema-id': 0,
    fields: [{ id: 1, name: 'v', required: false, type }],
  }
  const spec = {
    'spec-id': 0,
    fields: [{ 'source-id': 1, 'field-id': 1000, name: 'part', transform }],
  }
  const selected = fileBounds([file], [spec], schema, 1_000_000).select(filter)
  return selected === null || selected.length === 1
}

const compared = (comparison: Comparison, value: BoundValue): ScanFilter => [
  { op: 'compare', column: 0, comparison, value },
]
const between = (type: string, lower: BoundValue, upper: BoundValue, more: ColumnMetrics = {}) =>
  fileOf({
    nullCount: 0,
    nanCount: 0,
    lower: encodeBound(type, lower),
    upper: encodeBound(type, upper),
    ...more,
  })
const bytes = (text: string) => new Uint8Array(Buffer.from(text, 'hex'))

describe('a file is left out only if no row can match', () => {
  test.each([
    ['<', 5, false],
    ['<', 6, true],
    ['<=', 5, true],
    ['=', 4, false],
    ['=', 7, true],
    ['=', 10, false],
    ['>=', 9, true],
    ['>=', 10, false],
    ['>', 9, false],
    ['>', 8, true],
  ] as const)('an int from 5 to 9 %s %p: %p', (comparison, value, expected) => {
    expect(isRead('int', between('int', 5, 9), compared(comparison, value))).toBe(expected)
  })

  test.each([
    ['without metrics', fileOf(undefined)],
    ['without bounds', fileOf({ nullCount: 3 })],
    ['with bounds in the wrong order', between('int', 9, 5)],
    ['with a bound of a wrong length', fileOf({ lower: bytes('01'), upper: bytes('02') })],
  ])('a file %s is read', (_, file) => {
    expect(isRead('int', file, compared('=', 1_000))).toBe(true)
    expect(isRead('int', file, [{ op: 'isNull', column: 0 }])).toBe(file.file.columns.get(1)?.nullCount !== 0)
  })

  test('bounds of a narrower type are compared after a column was widened', () => {
    expect(isRead('long', between('int', 5, 9), compared('=', 9n))).toBe(true)
    expect(isRead('long', between('int', 5, 9), compared('=', 10n))).toBe(false)
    expect(isRead('double', between('float', 0.5, 1.5), compared('>', 1.5))).toBe(false)
    expect(isRead('double', between('float', 0.5, 1.5), compared('>=', 1.5))).toBe(true)
  })

  test('NaN counts as the greatest number unless the file is known to have none', () => {
    for (const nanCount of [undefined, 1]) {
      const file = between('double', 1, 2, { nanCount })
      expect(isRead('double', file, compared('>', 1_000))).toBe(true)
      expect(isRead('double', file, compared('<', 1))).toBe(false)
    }
    expect(isRead('double', between('double', 1, 2), compared('>', 1_000))).toBe(false)
    expect(isRead('double', between('double', -0, -0), compared('=', 0))).toBe(true)
  })

  test('cut texts and binaries are compared as prefixes', () => {
    const file = fileOf({ lower: bytes('6161'), upper: bytes('6163') })
    expect(isRead('string', file, compared('=', 'aabbb'))).toBe(true)
    expect(isRead('string', file, compared('=', 'ac'))).toBe(true)
    expect(isRead('string', file, compared('=', 'acc'))).toBe(false)
    expect(isRead('string', file, compared('=', 'a'))).toBe(false)
    expect(isRead('string', file, compared('<', 'aa'))).toBe(true)
    const long = 'x'.repeat(200)
    expect(isRead('string', between('string', `${long}1`, `${long}2`), compared('=', `${long}9`))).toBe(true)
    expect(isRead('binary', file, compared('=', bytes('6262')))).toBe(false)
  })

  test('a text bound that was cut inside a character is unknown', () => {
    const file = fileOf({ lower: bytes('61'), upper: bytes('61f09f98') })
    expect(isRead('string', file, compared('>', 'z'))).toBe(true)
    expect(isRead('string', file, compared('<', 'A'))).toBe(false)
  })

  test('only the first half of a UUID is compared', () => {
    const file = between(
      'uuid',
      '11111111-1111-1111-8111-111111111111',
      '11111111-1111-1111-1111-111111111111',
    )
    expect(isRead('uuid', file, compared('=', bytes(`${'1'.repeat(16)}${'f'.repeat(16)}`)))).toBe(true)
    expect(isRead('uuid', file, compared('=', bytes(`2${'1'.repeat(31)}`)))).toBe(false)
  })

  test('a file with only nulls matches no comparison', () => {
    const file = fileOf({ nullCount: 10 })
    expect(isRead('int', file, compared('=', 1))).toBe(false)
    expect(isRead('int', file, [{ op: 'isNotNull', column: 0 }])).toBe(false)
    expect(isRead('int', file, [{ op: 'isNull', column: 0 }])).toBe(true)
    expect(isRead('int', between('int', 1, 2), [{ op: 'isNull', column: 0 }])).toBe(false)
  })

  test('a value of another type than the column is not compared', () => {
    expect(isRead('int', between('int', 5, 9), compared('=', 'text'))).toBe(true)
    expect(isRead('long', between('long', 5n, 9n), compared('=', 100))).toBe(true)
    expect(isRead('decimal(38, 2)', between('decimal(38, 2)', 5n, 9n), compared('=', 100n))).toBe(true)
    expect(isRead('decimal(18, 2)', between('decimal(18, 2)', 5n, 9n), compared('=', 100n))).toBe(false)
  })

  test.each([
    ['identity', 'int', 7, compared('=', 7), true],
    ['identity', 'int', 7, compared('=', 8), false],
    ['identity', 'string', 'JFK', compared('=', 'LAX'), false],
    ['identity', 'int', null, compared('=', 7), false],
    ['identity', 'int', null, [{ op: 'isNull', column: 0 }], true],
    ['identity', 'int', 7, [{ op: 'isNull', column: 0 }], false],
    ['identity', 'double', Number.NaN, compared('=', 1), true],
    ['day', 'timestamp', 1, compared('=', 86_400_000_000n), true],
    ['day', 'timestamp', 1, compared('<', 86_400_000_000n), false],
    // Old writers rounded units before the epoch towards zero.
    ['day', 'timestamp', 0, compared('=', -1n), true],
    ['day', 'timestamp', -1, compared('<', -2n * 86_400_000_000n), false],
    ['month', 'date', 1, compared('=', 31), true],
    ['month', 'date', 1, compared('=', 58), true],
    ['month', 'date', 1, compared('=', 60), false],
    ['year', 'date', 1, compared('=', 364), false],
    ['year', 'date', -1_900, compared('>', -600_000), false],
    ['year', 'date', 400_000, compared('=', 1), true],
    ['hour', 'timestamptz', 2, compared('<', 7_200_000_000n), false],
    ['bucket[16]', 'int', 3, compared('=', 1), true],
  ] as [string, string, BoundValue | null, ScanFilter, boolean][])(
    'partition %s of %s with value %p',
    (transform, type, value, filter, expected) => {
      expect(isRead(type, fileOf(undefined, { 1000: value }), filter, transform)).toBe(expected)
    },
  )
})

test('a filter that is not well formed selects all files', () => {
  const file = between('int', 5, 9)
  const [none] = compared('=', 1)
  if (none === undefined) throw new Error('there is no step')
  expect(isRead('int', file, [none])).toBe(false)
  for (const filter of [
    [],
    [none, none],
    [none, { op: 'and', count: 2 }],
    [none, { op: 'or', count: 0 }],
    [{ op: 'compare', column: 9, comparison: '=', value: 1 }],
    Array.from({ length: 5_000_001 }, () => none),
  ] as ScanFilter[])
    expect(isRead('int', file, filter)).toBe(true)
})

test('columns beyond the limit of memory are not compared', () => {
  const schema = {
    type: 'struct' as const,
    'schema-id': 0,
    fields: [1, 2].map((id) => ({ id, name: `v${id}`, required: false, type: 'int' })),
  }
  const bounds = fileBounds([between('int', 5, 9)], [], schema, 1)
  expect(bounds.select(compared('=', 1))).toEqual([])
  expect(bounds.select([{ op: 'compare', column: 1, comparison: '=', value: 1 }])).toBeNull()
})
