import { expect, test } from 'bun:test'
import { csvOf } from './export.ts'

test.each([
  [[['a', 1]], 'n,m\r\na,1\r\n'],
  [[['a,b', 'say "x"']], 'n,m\r\n"a,b","say ""x"""\r\n'],
  [[['two\nlines', null]], 'n,m\r\n"two\nlines",\r\n'],
  [[[{ a: 1 }, undefined]], 'n,m\r\n"{""a"":1}",\r\n'],
  [[], 'n,m\r\n'],
])('writes %j as CSV', (rows, text) => {
  const columns = ['n', 'm'].map((name) => ({ name, type: 'VARCHAR' }))
  expect(csvOf(columns, rows)).toBe(text)
})
