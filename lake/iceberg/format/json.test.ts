import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { parseJson, stringifyJson } from './json.ts'

const int64 = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })

test('a snapshot id of any size survives both ways, and is always a bigint', () => {
  fc.assert(
    fc.property(int64, fc.array(int64), (id, ids) => {
      const value = { 'snapshot-id': id, nested: [{ 'parent-snapshot-id': id }], 'snapshot-ids': ids }
      expect(parseJson(stringifyJson(value))).toEqual(value)
    }),
  )
  expect(parseJson('{"current-snapshot-id": 7, "snapshot-ids": [1, 2]}')).toEqual({
    'current-snapshot-id': 7n,
    'snapshot-ids': [1n, 2n],
  })
})

test('the text carries the digits of the id, not those of the nearest double', () => {
  expect(stringifyJson({ 'snapshot-id': 9007199254740993n })).toBe('{"snapshot-id":9007199254740993}')
  expect(parseJson('{"snapshot-id":9007199254740993}')).toEqual({ 'snapshot-id': 9007199254740993n })
})

test('any JSON without large integers reads as JSON.parse reads it', () => {
  const fraction = fc.double({ noInteger: true, noNaN: true, noDefaultInfinity: true })
  const values = [
    fc.string({ unit: 'binary' }),
    fc.boolean(),
    fc.constant(null),
    fc.maxSafeInteger(),
    fraction,
  ]
  fc.assert(
    fc.property(fc.anything({ key: fc.string({ unit: 'binary' }), values }), (value) => {
      const text = JSON.stringify(value)
      expect(parseJson(text)).toEqual(JSON.parse(text))
    }),
  )
})

test('an integer beyond 2^53 under another name is a bigint; small ones and fractions are numbers', () => {
  expect(
    parseJson('{"a": 9007199254740993, "b": -9223372036854775808, "c": 5, "d": 1e300, "e": 0.1}'),
  ).toEqual({
    a: 9007199254740993n,
    b: -(2n ** 63n),
    c: 5,
    d: 1e300,
    e: 0.1,
  })
  expect(parseJson('1945883874356674421')).toBe(1945883874356674421n)
})

test('a null snapshot id stays null, a text stays a text', () => {
  expect(parseJson('{"snapshot-id": null, "summary": {"snapshot-id": "12"}}')).toEqual({
    'snapshot-id': null,
    summary: { 'snapshot-id': '12' },
  })
})

test.each(['{"snapshot-id": 1.5}', '{"snapshot-id": 9223372036854775808}', '{"snapshot-ids": ["a"]}', '{'])(
  'refuses %s',
  (text) => expect(() => parseJson(text)).toThrow(SyntaxError),
)
