import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import fc from 'fast-check'
import { areRows } from './json-check.ts'

setDefaultTimeout(60_000)

const bytesOf = (text: string) => new TextEncoder().encode(text)
const names = fc.uniqueArray(fc.string({ unit: 'binary' }), { minLength: 1, maxLength: 4 })
const rowText = (names: readonly string[], row: readonly unknown[]) =>
  `{${names.map((name, index) => `${JSON.stringify(name)}:${JSON.stringify(row[index])}`).join()}}`
const rows = names.chain((names) =>
  fc
    .array(
      fc.array(fc.jsonValue({ stringUnit: 'binary', maxDepth: 2 }), {
        minLength: names.length,
        maxLength: names.length,
      }),
      {
        maxLength: 5,
      },
    )
    .map((values) => ({
      names,
      count: values.length,
      text: values.map((row) => rowText(names, row)).join(),
    })),
)

/** By the runtime's own parser; as objects that hold the names, whatever stands between them. */
function parsed(bytes: Uint8Array): unknown[] | null {
  try {
    return JSON.parse(`[${new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)}]`)
  } catch {
    return null
  }
}

describe('rows as an engine writes them', () => {
  test('are believed, whatever their values', () => {
    fc.assert(
      fc.property(rows, ({ names, count, text }) => {
        expect(areRows(bytesOf(text), names, count)).toBe(true)
        expect(areRows(bytesOf(text), names, count + 1)).toBe(false)
        expect(areRows(bytesOf(text), [...names, 'more'], count)).toBe(count === 0)
      }),
      { numRuns: 200 },
    )
  })

  test('with bytes changed, left out or put in are believed only where they are rows still', () => {
    const change = fc.record({
      at: fc.nat(),
      left: fc.nat({ max: 3 }),
      put: fc.oneof(
        fc.uint8Array({ maxLength: 2 }),
        fc.constantFrom(...'{}[],:"\\-+.eEu019 ntf\n'.split('')).map(bytesOf),
      ),
    })
    let believed = 0
    let refused = 0
    fc.assert(
      fc.property(rows, change, ({ names, count, text }, { at, left, put }) => {
        const before = bytesOf(text)
        const place = at % (before.length + 1)
        const bytes = Uint8Array.from([
          ...before.subarray(0, place),
          ...put,
          ...before.subarray(place + left),
        ])
        if (!areRows(bytes, names, count)) {
          refused += 1
          return
        }
        believed += 1
        const objects = parsed(bytes)
        expect(objects).toHaveLength(count)
        for (const object of objects ?? [])
          expect(Object.keys(object as object).sort()).toEqual([...names].sort())
      }),
      { numRuns: 1_000 },
    )
    expect([believed > 0, refused > 0]).toEqual([true, true])
  })
})

test.each(
  `0 -0 7 10 1.5 -1.50 1e5 1E+5 1.5e-7 "" "a" "\\u00e9" "\\ud83e" "\\"\\\\\\/\\b\\f\\n\\r\\t" "\u007f\u2028é🦆" true false null [] {} [[]] [{}]
  [1,[2,{"a":[]}],null] {"":{"b":[1]},"c":2}
  01 - -a .5 1. 1.e5 1e 1e+ +1 0x1 NaN Infinity nul nulll True "a 'a' "\\x" "\\u12g4" "\\u12 "\u0001" "\t" "\\ [ ] { } [1 [1,] [,1] [1}
  {"a"} {"a":} {"a":1,} {a:1} {1:2} {"a":1] [1:2] {"a":1,2} [[[[] 1,2 1}`
    .split(/\s+/)
    .concat('"a\nb"', '[1, 2]', ' 1', '1 ', ''),
)('as a value, %s is believed where it is JSON', (value) => {
  const bytes = bytesOf(`{"a":${value}}`)
  const objects = parsed(bytes)
  const isValue = objects?.length === 1 && Object.keys(objects[0] as object).join() === 'a'
  expect(areRows(bytes, ['a'], 1)).toBe(isValue && !/[ \n]/.test(value))
})

test('nesting a hundred thousand deep takes no call for each', () => {
  const deep = `${'[{"a":'.repeat(100_000)}1${'}]'.repeat(100_000)}`
  expect(areRows(bytesOf(`{"a":${deep}}`), ['a'], 1)).toBe(true)
  expect(areRows(bytesOf(`{"a":${deep}]}`), ['a'], 1)).toBe(false)
})
