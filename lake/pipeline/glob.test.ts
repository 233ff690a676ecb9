import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { BadGlob, checkGlob, GLOB_LENGTH_MAX, matchesGlob, overlapGlobs } from './glob.ts'

describe('a matching name', () => {
  test.each([
    ['*', ''],
    ['*', 'a.csv'],
    ['**', 'a.csv'],
    ['*.csv', '.csv'],
    ['*.csv', 'flights.csv'],
    ['*.csv', 'a.csv.csv'],
    ['flights_*.csv', 'flights_2026.csv'],
    ['*flights*', 'all flights of 2026.csv'],
    ['a*b*c', 'aXbYbZc'],
    ['a*a', 'aa'],
    ['?', 'a'],
    ['?', '😀'],
    ['???', 'día'],
    ['?*', 'ab'],
    ['[abc]', 'b'],
    ['[a-c]x', 'cx'],
    ['[!a-c]', 'd'],
    ['[^a-c]', 'd'],
    ['[a-cx-z]', 'y'],
    ['[-a]', '-'],
    ['[a-]', '-'],
    ['[a!]', '!'],
    ['[a^]', '^'],
    ['[*?]', '*'],
    ['[[]', '['],
    ['[\\]]', ']'],
    ['[!\\]]', '['],
    ['[\\a-\\c]', 'b'],
    ['[あ-ん]*', 'さくら.csv'],
    ['\\*', '*'],
    ['\\[a]', '[a]'],
    ['a]', 'a]'],
    ['data-20[0-9][0-9]-*.parquet', 'data-2026-11.parquet'],
    ['{a,b}', '{a,b}'],
    ['.*', '.hidden'],
  ])('%p matches %p', (pattern, name) => {
    expect(matchesGlob(pattern, name)).toBe(true)
  })
})

describe('a name that does not match', () => {
  test.each([
    ['*.csv', 'flights.CSV'],
    ['*.csv', 'flights.csv.gz'],
    ['*.csv', 'csv'],
    ['?', ''],
    ['?', 'ab'],
    ['a', ''],
    ['a*b*c', 'acb'],
    ['a*a', 'a'],
    ['[abc]', 'd'],
    ['[abc]', ''],
    ['[abc]', 'ab'],
    ['[!a-c]', 'b'],
    ['[!a]', ''],
    ['\\*', 'a'],
    ['\\?', 'a'],
    ['{a,b}', 'a'],
    ['x*', 'ax'],
    ['*x', 'xa'],
    ['a?c', 'ac'],
  ])('%p does not match %p', (pattern, name) => {
    expect(matchesGlob(pattern, name)).toBe(false)
  })
})

describe('a malformed glob', () => {
  test.each([
    ['', 'is empty'],
    ['[', "'[' at character 1 is never closed"],
    ['a[bc', "'[' at character 2 is never closed"],
    ['[a-', "'[' at character 1 is never closed"],
    ['[!', "'[' at character 1 is never closed"],
    ['[]', 'the set at character 1 is empty'],
    ['x[!]', 'the set at character 2 is empty'],
    ['[z-a]', 'range z-a ends before it starts: swap its ends'],
    ['a\\', "ends in '\\', which needs a character after it"],
    ['[a\\', "ends in '\\', which needs a character after it"],
    ['a/b', "contains '/', which cannot occur in a file name"],
    ['[a/]', "contains '/', which cannot occur in a file name"],
    ['x'.repeat(GLOB_LENGTH_MAX + 1), `is longer than ${GLOB_LENGTH_MAX} characters`],
  ])('%p is refused: %p', (pattern, why) => {
    expect(() => checkGlob(pattern)).toThrow(new BadGlob(why))
    expect(() => matchesGlob(pattern, 'a')).toThrow(BadGlob)
  })
})

describe('a character class of shells', () => {
  test.each([
    '[[:alpha:]]',
    '*[![:digit:]].csv',
    '[a[:space:]b]',
    '[[=a=]]',
    '[[.hyphen.]]',
    'x[[:upper:][:digit:]]',
  ])('%p is refused', (pattern) => {
    expect(() => checkGlob(pattern)).toThrow('contains a character class')
  })

  test.each(['[[:]', '[:alpha:]', '[\\[:alpha:]', '[[]', '[[:alpha]', '\\[[:a]'])(
    '%p is not a character class',
    (pattern) => {
      expect(() => checkGlob(pattern)).not.toThrow()
    },
  )

  test('an existing trigger keeps the literal meaning of a class', () => {
    expect(matchesGlob('[[:alpha:]]', 'p]')).toBe(true)
  })
})

describe('any pattern and name', () => {
  /** A direct definition of matching, exponential in the worst case. */
  const fitsPlainly = (pattern: string[], name: string[]): boolean => {
    const [part, ...parts] = pattern
    const [character, ...rest] = name
    if (part === undefined) return character === undefined
    if (part === '*')
      return fitsPlainly(parts, name) || (character !== undefined && fitsPlainly(pattern, rest))
    return character !== undefined && (part === '?' || part === character) && fitsPlainly(parts, rest)
  }

  test('match as in a direct definition', () => {
    const letters = (...of: string[]) => fc.array(fc.constantFrom(...of), { maxLength: 9 })
    fc.assert(
      fc.property(letters('a', 'b', '*', '?'), letters('a', 'b'), (pattern, name) => {
        fc.pre(pattern.length > 0)
        expect(matchesGlob(pattern.join(''), name.join(''))).toBe(fitsPlainly(pattern, name))
      }),
      { numRuns: 2_000 },
    )
  })

  test('match or are refused, and escaped text matches only itself', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'binary', maxLength: 30 }),
        fc.string({ unit: 'binary' }),
        (text, name) => {
          try {
            matchesGlob(text, name)
          } catch (error) {
            expect(error).toBeInstanceOf(BadGlob)
          }
          const plain = text.replaceAll('/', '_')
          fc.pre(plain !== '')
          const escaped = Array.from(plain, (character) => `\\${character}`).join('')
          expect(matchesGlob(escaped, plain)).toBe(true)
          expect(matchesGlob(escaped, name)).toBe(plain === name)
        },
      ),
      { numRuns: 1_000 },
    )
  })

  test('match quickly even if the pattern has many stars', () => {
    // With exponential backtracking the test would time out.
    expect(matchesGlob(`${'a*'.repeat(200)}b`, 'a'.repeat(500))).toBe(false)
  })
})

test.each([
  ['*.csv', 'a*', true],
  ['*.csv', '*.json', false],
  ['orders_*.csv', 'returns_*.csv', false],
  ['orders_*', '*_old.csv', true],
  ['a?c', 'abc', true],
  ['a?c', 'abcd', false],
  ['[a-c]x', '[b-d]x', true],
  ['[a-c]x', '[!a-c]x', false],
  ['[!a]*', '[!b]*', true],
  ['*', 'x', true],
  ['a*b*c', 'acb', false],
  ['a*b*c', '*bc', true],
  ['ab', 'abc', false],
])('two patterns that one name can match overlap: %s and %s', (one, other, expected) => {
  expect([overlapGlobs(one, other), overlapGlobs(other, one)]).toEqual([expected, expected])
})
