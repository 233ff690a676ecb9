import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { useTestLake } from '../test-lake.ts'
import {
  type BoundValue,
  boundsFromText,
  decodeBound,
  encodeBound,
  lowerBound,
  upperBound,
  valueFromText,
} from './bounds.ts'

const lake = await useTestLake()

const int64 = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })
const values: Record<string, fc.Arbitrary<BoundValue>> = {
  boolean: fc.boolean(),
  int: fc.integer(),
  long: int64,
  float: fc.float({ noNaN: true }),
  double: fc.double({ noNaN: true }),
  date: fc.integer(),
  time: fc.bigInt({ min: 0n, max: 86_400_000_000n }),
  timestamp: int64,
  timestamptz: int64,
  string: fc.string({ unit: 'binary' }),
  uuid: fc.uuid(),
  binary: fc.uint8Array(),
  'decimal(38, 2)': fc.bigInt({ min: -(10n ** 38n), max: 10n ** 38n }),
}

test.each(Object.keys(values))('decodes an encoded bound of type %s unchanged', (type) => {
  fc.assert(
    fc.property(values[type] ?? fc.constant(0), (value) =>
      expect(decodeBound(type, encodeBound(type, value))).toEqual(value),
    ),
  )
})

/** Examples for the specification's table of single-value serializations, calculated by hand. */
test.each([
  ['boolean', true, '01'],
  ['int', 34, '22000000'],
  ['int', -1, 'ffffffff'],
  ['long', 34n, '2200000000000000'],
  ['float', 1.5, '0000c03f'],
  ['double', 1.5, '000000000000f83f'],
  ['date', 17486, '4e440000'],
  ['string', 'é', 'c3a9'],
  ['uuid', 'f79c3e09-677c-4bbd-a479-3f349cb785e7', 'f79c3e09677c4bbda4793f349cb785e7'],
  ['decimal(9, 2)', 1420n, '058c'],
  ['decimal(9, 2)', -1n, 'ff'],
  ['decimal(9, 2)', 128n, '0080'],
  ['decimal(9, 2)', 0n, '00'],
])('encodes %s %p as %s', (type, value, hex) => {
  expect(Buffer.from(encodeBound(type, value)).toString('hex')).toBe(hex)
})

test('decodes a bound written before a promotion as the wider type', () => {
  expect(decodeBound('long', encodeBound('int', -5))).toBe(-5n)
  expect(decodeBound('double', encodeBound('float', 1.5))).toBe(1.5)
})

const compareBytes = (a: Uint8Array, b: Uint8Array) => Buffer.compare(a, b)
const utf8 = (value: BoundValue | undefined) => encodeBound('string', value ?? '')

test('cuts bounds of a string so that they still bound it', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 40 }), (text) => {
      const lower = lowerBound('string', text)
      const upper = upperBound('string', text)
      expect(compareBytes(utf8(lower), utf8(text))).toBeLessThanOrEqual(0)
      if (upper !== undefined) expect(compareBytes(utf8(upper), utf8(text))).toBeGreaterThanOrEqual(0)
      for (const bound of [lower, upper ?? '']) expect([...String(bound)].length).toBeLessThanOrEqual(16)
    }),
  )
})

test('cuts bounds of bytes so that they still bound them', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 40 }), (bytes) => {
      const lower = lowerBound('binary', bytes) as Uint8Array
      const upper = upperBound('binary', bytes) as Uint8Array | undefined
      expect(compareBytes(lower, bytes)).toBeLessThanOrEqual(0)
      if (upper !== undefined) expect(compareBytes(upper, bytes)).toBeGreaterThanOrEqual(0)
    }),
  )
})

describe('the upper bound of a long string', () => {
  test.each([
    ['a'.repeat(17), `${'a'.repeat(15)}b`],
    [`${'a'.repeat(15)}\u{10ffff}x`, `${'a'.repeat(14)}b`],
    [`${'a'.repeat(15)}\ud7ffx`, `${'a'.repeat(15)}\ue000`],
    [`${'😀'.repeat(16)}x`, `${'😀'.repeat(15)}😁`],
    ['\u{10ffff}'.repeat(17), undefined],
    ['a'.repeat(16), 'a'.repeat(16)],
  ])('increments the cut string %j to %j', (text, upper) => expect(upperBound('string', text)).toBe(upper))
})

test('omits the upper bound of bytes that cannot be incremented', () => {
  expect(upperBound('binary', new Uint8Array(17).fill(0xff))).toBeUndefined()
  expect(boundsFromText('binary', '00', 'FF'.repeat(17))).toEqual({ lower: Buffer.of(0) })
})

test('bounds zero by -0 and 0', () => {
  const { lower, upper } = boundsFromText('double', '0.0', '-0.0')
  expect(Object.is(decodeBound('double', lower ?? new Uint8Array()), -0)).toBe(true)
  expect(Object.is(decodeBound('double', upper ?? new Uint8Array()), 0)).toBe(true)
})

describe("texts of DuckDB's statistics", () => {
  const epoch = (sql: string) => `epoch_us(${sql})`
  const cases: [type: string, sql: string, value: (sql: string) => string][] = [
    ['date', "DATE '0044-03-15 (BC)'", (sql) => `datediff('day', DATE '1970-01-01', ${sql})`],
    ['date', "DATE '0001-01-01 (BC)'", (sql) => `datediff('day', DATE '1970-01-01', ${sql})`],
    ['date', "DATE '12020-02-29'", (sql) => `datediff('day', DATE '1970-01-01', ${sql})`],
    ['date', "DATE '1900-03-01'", (sql) => `datediff('day', DATE '1970-01-01', ${sql})`],
    ['timestamp', "TIMESTAMP '0044-03-15 (BC) 01:02:03.4'", epoch],
    ['timestamp', "TIMESTAMP '12020-01-01 00:00:00.000001'", epoch],
    ['timestamp', "TIMESTAMP '1969-12-31 23:59:59.999999'", epoch],
    ['timestamptz', "TIMESTAMPTZ '2020-01-02 03:04:05.123456+05:30'", epoch],
    ['time', "TIME '23:59:59.999999'", epoch],
    ['time', "TIME '24:00:00'", () => '86400000000'],
    ['decimal(5, 5)', "'-0.5'::DECIMAL(5,5)", () => '-50000'],
    ['decimal(38, 0)', "'-99999999999999999999999999999999999999'::DECIMAL(38,0)", (sql) => sql],
    ['double', '1e300::DOUBLE', (sql) => sql],
    ['float', '0.1::FLOAT', (sql) => sql],
    ['long', "'-9223372036854775808'::BIGINT", (sql) => sql],
  ]
  test.each(cases)('parses a value of type %s: %s', async (type, sql, expected) => {
    const [row] = await lake.rows(`SELECT (${sql})::VARCHAR AS text, (${expected(sql)})::VARCHAR AS value`)
    expect(String(valueFromText(type, String(row?.text)))).toBe(
      String(valueFromText(numeric(type), String(row?.value))),
    )
  })
})

const numeric = (type: string) => {
  if (['date', 'time', 'timestamp', 'timestamptz'].includes(type)) return 'long'
  return type === 'decimal(5, 5)' ? 'long' : type
}

test("converts any calendar day to DuckDB's number", async () => {
  const rows = await lake.rows(
    `SELECT (DATE '1970-01-01' + n::INTEGER)::VARCHAR AS text, n FROM range(-2000000, 2000000, 1237) t(n)`,
  )
  for (const { text, n } of rows) expect(valueFromText('date', String(text))).toBe(Number(n))
})

test('parses the text of any float exactly', async () => {
  const rows = await lake.rows(
    'SELECT f::VARCHAR AS text, f::DOUBLE AS value FROM (SELECT (n * 7919 % 1000003 / 7)::FLOAT AS f FROM range(2000) t(n))',
  )
  for (const { text, value } of rows) expect(valueFromText('float', String(text))).toBe(Number(value))
})
