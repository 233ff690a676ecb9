import { expect, test } from 'bun:test'
import { JsonScan } from './json-scan.ts'

/** The findings of the scan, for every size of chunks. */
function found(text: string) {
  const bytes = Buffer.from(text)
  const each = [1, 2, 3, 7, bytes.length].map((size) => {
    const scan = new JsonScan()
    for (let at = 0; at < bytes.length; at += size) scan.add(bytes.subarray(at, at + size))
    scan.end()
    const { longWholes, ...flags } = scan.found
    const names = Object.entries(flags).flatMap(([name, is]) => (is ? [name] : []))
    return { names, keys: longWholes === null ? null : [...longWholes] }
  })
  for (const other of each) expect(other).toEqual(each[0] ?? other)
  return each[0]
}

const LONG_TEXT = 'x'.repeat(5_000)

test.each<[string, string[], string[] | null]>([
  ['{"v":1.5,"w":123456789012345}', [], []],
  ['{"v":0.30000000000000004,"w":-0.8474337369372327,"x":8.474337369372328e-05}', [], []],
  ['{"v":1000000000000.5000000}', [], []],
  ['{"v":12345678901234567.89}', ['hasLongDecimals'], []],
  ['{"v":-12345678901234567.89}', ['hasLongDecimals'], []],
  ['{"v":12345678901.123456}', ['hasLongDecimals'], []],
  ['{"v":0.1234567890123456789}', ['hasLongDecimals'], []],
  ['{"V":9007199254740993}', [], ['v']],
  ['{"a":"x","v":[1.5, -9007199254740993]}', [], ['v']],
  ['[1.5,9007199254740993]', [], ['']],
  ['9007199254740993', [], ['']],
  ['{"v\\u00e9":9007199254740993}', [], null],
  [`{"${LONG_TEXT}":9007199254740993}`, [], null],
  ['{"v":"9007199254740993","w":"a\\"12345678901234567.89"}', [], []],
  [`{"t":"${LONG_TEXT}\\\\","v":12345678901234567.89}`, ['hasLongDecimals'], []],
  [`{"t":"${LONG_TEXT}\\"12345678901234567.89"}`, [], []],
  ['{"broken":"\n{"v":12345678901234567.89}', ['hasLongDecimals'], []],
  ['{"d":"2026-01-02","e":"1234","f":"12 x"}'.replace('12 x', '12x'), [], []],
  ['{"d":"03/04/2026"}', ['hasOtherDates'], []],
  ['{"d":"3-4-26"}', ['hasOtherDates'], []],
  ['{"d":"03\\/04\\/2026"}', ['hasOtherDates'], []],
  ['{"d":" 03.04.2026"}', ['hasOtherDates'], []],
  ['{"d":"2026-01-02T10:00:00Z","e":"2026-01-02 10:00:00.5+02:00"}', ['hasZones'], []],
  ['{"d":"2026-01-02 10:00:00-08","e":"2026-01-02 10:00"}', ['hasZones', 'hasLocalTimes'], []],
])('the bytes of %s show what matters', (text, names, keys) => {
  expect(found(text)).toEqual({ names, keys })
})

test.each([
  ['{"a":[1,{"b":[]}]}', false, 4],
  ['{"a":"[[[["}\n{"a":1}', false, 1],
  ['{"a":\n{"a":\n{"a":\n', false, 3],
  ['{"a":\n{"a":\n{"a":\n', true, 1],
])('%s has its levels', (text, isByLine, depth) => {
  const scan = new JsonScan(isByLine)
  for (const byte of Buffer.from(text)) scan.add(Buffer.from([byte]))
  expect(scan.depth).toBe(depth)
})

test('the end of a file ends its texts and numbers', () => {
  const scan = new JsonScan()
  for (const file of ['{"v":"open', '9007199254740993', '12345678901234567.89']) {
    scan.add(Buffer.from(file))
    scan.end()
  }
  expect(scan.found.longWholes?.size).toBe(1)
  expect(scan.found.hasLongDecimals).toBe(true)
})
