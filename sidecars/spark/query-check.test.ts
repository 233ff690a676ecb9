import { describe, expect, test } from 'bun:test'
import { refusalOfQuery, relationOf } from './query-check.ts'

describe('a query of Spark', () => {
  const ACCEPTED = [
    'select 1 as a',
    'select 1 as a;',
    "select ';' as a, 'using' as b",
    'select 1 as a -- ; select 2',
    "select 'it\\'s; fine' as a",
    "select r'a\\' as a",
    'select a.x from a join b using (`x`)',
    'with a as (select 1 as x) select * from a',
    "select transform(array(1), x -> x + 1) as a, 'using' as b",
    'select /* reflect( */ 1 as a',
  ]
  test.each(ACCEPTED)('%s is accepted', (text) => {
    expect(refusalOfQuery(text)).toBeNull()
  })

  const REFUSED: [string, RegExp][] = [
    ['', /no SELECT/],
    ['-- nothing', /no SELECT/],
    ['select 1 as a; select 2 as a', /not several/],
    ["select 'a' as a; drop table x", /not several/],
    ["select r'\\'; drop table x --' as a", /not several/],
    ["select reflect('java.lang.System', 'exit', 1) as a", /code of the server/],
    ["select `reflect`('java.lang.System', 'exit', 1) as a", /code of the server/],
    ["select system.builtin.java_method ('java.lang.System', 'exit') as a", /code of the server/],
    ["select transform(a) using 'cat' as (b) from t", /starts a program/],
    ['select transform(a) using"cat" as (b) from t', /starts a program/],
    ["from (select a from t) q map a using 'cat' as b", /starts a program/],
    ["select transform(a) using r'cat' as (b) from t", /starts a program/],
    ["select 1 -- a\r, reflect('java.lang.System', 'exit', 1) as a", /code of the server/],
    ["select /* /* */ ' */ reflect('a', 'b') --' */ as a", /engines read differently/],
    ["select 1 -- \\\n' \n, reflect('a', 'b') as a --'", /engines read differently/],
  ]
  test.each(REFUSED)('%s is refused', (text, reason) => {
    expect(refusalOfQuery(text)).toMatch(reason)
  })

  test('a comment at the end stays inside the relation', () => {
    expect(relationOf('select 1 as a -- one')).toBe('(\nselect 1 as a -- one\n)')
    expect(relationOf('select 1 as a; ')).toBe('(\nselect 1 as a\n)')
  })
})
