import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { parseJson, stringifyJson } from './json.ts'

const int64 = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })

test('keeps snapshot ids of any size as bigint both ways', () => {
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

test('writes and reads all digits of an id', () => {
  expect(stringifyJson({ 'snapshot-id': 9007199254740993n })).toBe('{"snapshot-id":9007199254740993}')
  expect(parseJson('{"snapshot-id":9007199254740993}')).toEqual({ 'snapshot-id': 9007199254740993n })
})

test('parses JSON without large integers like JSON.parse', () => {
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

test('parses other integers beyond 2^53 as bigint, smaller numbers as number', () => {
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

test('keeps a null snapshot id and a text', () => {
  expect(parseJson('{"snapshot-id": null, "summary": {"snapshot-id": "12"}}')).toEqual({
    'snapshot-id': null,
    summary: { 'snapshot-id': '12' },
  })
})

test.each(['{"snapshot-id": 1.5}', '{"snapshot-id": 9223372036854775808}', '{"snapshot-ids": ["a"]}', '{'])(
  'refuses %s',
  (text) => expect(() => parseJson(text)).toThrow(SyntaxError),
)

test('refuses deep nesting, but not brackets in strings', () => {
  const nested = (levels: number) => '['.repeat(levels) + ']'.repeat(levels)
  expect(parseJson(nested(500))).toBeArray()
  for (const levels of [501, 1_000_000]) expect(() => parseJson(nested(levels))).toThrow(SyntaxError)
  const text = JSON.stringify({ a: '["{\\"'.repeat(10_000), b: '{' })
  expect(parseJson(text)).toEqual(JSON.parse(text))
})
