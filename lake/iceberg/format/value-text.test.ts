import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { type BoundValue, encodeBound, valueFromText } from './bounds.ts'
import { partitionText, valueText } from './value-text.ts'

test.each<[type: string, value: BoundValue, text: string]>([
  ['boolean', false, 'false'],
  ['long', -9_223_372_036_854_775_808n, '-9223372036854775808'],
  ['float', Math.fround(0.1), '0.1'],
  ['float', Number.POSITIVE_INFINITY, 'Infinity'],
  ['double', -0, '0'],
  ['decimal(9, 2)', -5n, '-0.05'],
  ['date', 19_813, '2024-03-31'],
  ['date', -719_529, '-000001-12-31'],
  ['time', 86_399_999_999n, '23:59:59.999999'],
  ['timestamp', -1n, '1969-12-31T23:59:59.999999'],
  ['timestamptz', 0n, '1970-01-01T00:00:00Z'],
  ['string', 'ü', 'ü'],
  ['uuid', 'f79c3e09-677c-4bbd-a479-3f349cb785e7', 'f79c3e09-677c-4bbd-a479-3f349cb785e7'],
  ['binary', new Uint8Array([0, 255]), 'AP8='],
])('writes the %s %p as %s', (type, value, text) => {
  expect(valueText(type, value)).toBe(text)
})

test('the text of a value has the value of the text', () => {
  const values: [string, fc.Arbitrary<BoundValue>][] = [
    ['long', fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })],
    ['decimal(38, 7)', fc.bigInt({ min: -(10n ** 38n), max: 10n ** 38n })],
    ['date', fc.integer({ min: -719_000, max: 2_900_000 })],
    ['time', fc.bigInt({ min: 0n, max: 86_399_999_999n })],
    ['double', fc.double({ noNaN: true, noDefaultInfinity: true })],
  ]
  for (const [type, arbitrary] of values)
    fc.assert(
      fc.property(arbitrary, (value) => {
        expect(valueFromText(type, valueText(type, value)) === value).toBe(true)
      }),
    )
})

test.each<[transform: string, source: string | undefined, value: BoundValue, text: string]>([
  ['year', 'date', 54, '2024'],
  ['year', 'timestamp', -1, '1969'],
  ['month', 'date', 650, '2024-03'],
  ['month', 'date', -1, '1969-12'],
  ['day', 'timestamptz', 19_813, '2024-03-31'],
  ['hour', 'timestamp', 475_534, '2024-03-31T22'],
  ['hour', 'timestamp', -1, '1969-12-31T23'],
  ['bucket[16]', 'string', 7, '7'],
  ['truncate[3]', 'string', 'abc', 'abc'],
  ['identity', 'decimal(9, 2)', encodeBound('decimal(9, 2)', 1_420n), '14.20'],
  ['identity', 'timestamp', 0, '1970-01-01T00:00:00'],
  ['identity', 'string', '2024/03', '2024/03'],
  ['identity', undefined, 5, '5'],
  ['identity', 'long', 'no number', 'no number'],
  ['year', 'date', 9_999_999, '9999999'],
])('writes the partition %s of a column of type %s with value %p as %s', (transform, source, value, text) => {
  expect(partitionText(transform, source, value)).toBe(text)
})
