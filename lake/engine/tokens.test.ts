import { expect, test } from 'bun:test'
import { splitStatements } from './statement.ts'
import { tokensOf } from './tokens.ts'

const texts = (sql: string) => tokensOf(sql).map(({ text }) => text)

test.each([
  ["select 'it''s', E'a\\'b', \"a\"\"b\"", ['select', "'it''s'", ',', "E'a\\'b'", ',', '"a""b"']],
  ['a -- b\r c -- d\n e', ['a', 'c', 'e']],
  ['a /* b /* c */ d */ e', ['a', 'e']],
  ['$x$ a $y$ $x$ $$ b $$', ['$x$ a $y$ $x$', '$$ b $$']],
  ["1e5 a$1 'open", ['1e5', 'a$1', "'open"]],
  ['"open', ['"open']],
  ["'\\' a", ["'\\'", 'a']],
])('splits %s into the tokens of the engine', (sql, expected) => expect(texts(sql)).toEqual(expected))

test('returns names without quotes', () => {
  const named = tokensOf('a."b""c"."d').map(({ name }) => name)
  expect(named).toEqual(['a', undefined, 'b"c', undefined, 'd'])
})

test.each([
  ['select 1; select 2', ['select 1', 'select 2']],
  ["-- a; b\rselect ';' ; ; /* ; */ select 2 -- c ", ["select ';'", 'select 2 -- c']],
  [' ; -- nothing', []],
])('splits %s at its semicolons', (sql, expected) =>
  expect(splitStatements(sql).map(({ text }) => text)).toEqual(expected),
)
