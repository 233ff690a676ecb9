import { expect, test } from 'bun:test'
import { problemsOf } from './coverage.ts'

const page = (...ids: string[]) => ids.map((id) => `| \`${id}\` | A behaviour |`).join('\n')

test('rows and tags match one to one, and ids are unique', () => {
  expect(problemsOf(page('a', 'b.c'), new Set(['a', 'b.c']))).toEqual([])
  expect(problemsOf(page('a', 'b', 'a'), new Set(['a', 'c']))).toEqual([
    'a: two rows have this id',
    'b: no test has the tag @b',
    '@c: e2e/COVERAGE.md has no such row',
  ])
})
