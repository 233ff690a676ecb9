import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { BadGlob, checkGlob, GLOB_LENGTH_MAX, matchesGlob } from './glob.ts'

describe('a name fits', () => {
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
  ])('%p: %p', (pattern, name) => {
    expect(matchesGlob(pattern, name)).toBe(true)
  })
})

describe('a name does not fit', () => {
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
  ])('%p: %p', (pattern, name) => {
    expect(matchesGlob(pattern, name)).toBe(false)
  })
})

describe('a malformed glob is refused, and why', () => {
  test.each([
    ['', 'is empty'],
    ['[', "'[' at character 1 is never closed"],
    ['a[bc', "'[' at character 2 is never closed"],
    ['[a-', "'[' at character 1 is never closed"],
    ['[!', "'[' at character 1 is never closed"],
    ['[]', 'the set at character 1 is empty'],
    ['x[!]', 'the set at character 2 is empty'],
    ['[z-a]', 'range z-a runs backwards'],
    ['a\\', "ends in '\\', which needs a character after it"],
    ['[a\\', "ends in '\\', which needs a character after it"],
    ['a/b', "has a '/', which no file name has"],
    ['[a/]', "has a '/', which no file name has"],
    ['x'.repeat(GLOB_LENGTH_MAX + 1), `is longer than ${GLOB_LENGTH_MAX} characters`],
  ])('%p: %p', (pattern, why) => {
    expect(() => checkGlob(pattern)).toThrow(new BadGlob(why))
    expect(() => matchesGlob(pattern, 'a')).toThrow(BadGlob)
  })
})

describe('a class of characters, which shells know and we do not,', () => {
  test.each([
    '[[:alpha:]]',
    '*[![:digit:]].csv',
    '[a[:space:]b]',
    '[[=a=]]',
    '[[.hyphen.]]',
    'x[[:upper:][:digit:]]',
  ])('%p is refused', (pattern) => {
    expect(() => checkGlob(pattern)).toThrow('has a class of characters')
  })

  test.each(['[[:]', '[:alpha:]', '[\\[:alpha:]', '[[]', '[[:alpha]', '\\[[:a]'])('%p is none', (pattern) => {
    expect(() => checkGlob(pattern)).not.toThrow()
  })

  test('and matches what it always has in a trigger that had it before', () => {
    expect(matchesGlob('[[:alpha:]]', 'p]')).toBe(true)
  })
})

describe('for any pattern and name', () => {
  /** The obvious definition, exponential in the worst case. */
  const fitsPlainly = (pattern: string[], name: string[]): boolean => {
    const [part, ...parts] = pattern
    const [character, ...rest] = name
    if (part === undefined) return character === undefined
    if (part === '*')
      return fitsPlainly(parts, name) || (character !== undefined && fitsPlainly(pattern, rest))
    return character !== undefined && (part === '?' || part === character) && fitsPlainly(parts, rest)
  }

  test('it agrees with the plain definition', () => {
    const letters = (...of: string[]) => fc.array(fc.constantFrom(...of), { maxLength: 9 })
    fc.assert(
      fc.property(letters('a', 'b', '*', '?'), letters('a', 'b'), (pattern, name) => {
        fc.pre(pattern.length > 0)
        expect(matchesGlob(pattern.join(''), name.join(''))).toBe(fitsPlainly(pattern, name))
      }),
      { numRuns: 2_000, seed: 7 },
    )
  })

  test('any text is either matched or refused, and an escaped one matches itself only', () => {
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
      { numRuns: 1_000, seed: 7 },
    )
  })

  test('a pattern of many stars is answered at once', () => {
    // Doubling with every star, this would not end before the test does.
    expect(matchesGlob(`${'a*'.repeat(200)}b`, 'a'.repeat(500))).toBe(false)
  })
})
