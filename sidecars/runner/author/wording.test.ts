import { expect, test } from 'bun:test'
import { EngineFault } from '../engine/engine-messages.ts'
import { reasonOf } from './wording.ts'

const reason = (line: number, source: string, sql: string) =>
  reasonOf(new EngineFault({ kind: 'binder', message: 'Binder Error: no\n\nLINE 1: x', line }), {
    file: 'pipeline.sql',
    source,
    sql,
  })

test('an error in rendered SQL names the line of the template', () => {
  expect(reason(2, 'select 1\n, nope', 'select 1\n, nope')).toBe('pipeline.sql line 2: Binder Error: no')
  expect(reason(2, 'select 1\r\n, {{ x }}', 'select 1\r\n, nope')).toBe(
    'pipeline.sql line 2: Binder Error: no',
  )
})

test('a text that ends too early fails on its last line', () => {
  const fault = new EngineFault({ kind: 'syntax', message: 'Parser Error: syntax error at end of input' })
  const said = reasonOf(fault, {
    file: 'pipeline.sql',
    source: 'select (\n{{ x }} +\n\n',
    sql: 'select (\n1 +\n\n',
  })
  expect(said).toBe('pipeline.sql line 2: Parser Error: syntax error at end of input')
})

test('lines of SQL that the runner wrote are not reported', () => {
  expect(reason(1, '', '')).toBe('pipeline.sql: Binder Error: no')
})

test('a line that the template has moved is found by its text', () => {
  const source = '{% for i in range(2) %}\n, {{ i }}\n{% endfor %}\n, nope\n, twice\n, twice'
  const sql = '\n, 0\n\n, 1\n\n, nope\n, twice\n, twice'
  expect(reason(6, source, sql)).toBe('pipeline.sql line 4: Binder Error: no')
  expect(reason(7, source, sql)).toBe('pipeline.sql (line 7 of the rendered SQL): Binder Error: no')
  expect(reason(2, source, sql)).toBe('pipeline.sql (line 2 of the rendered SQL): Binder Error: no')
})

test('a plain line that moved is not confused with its replacement', () => {
  const source = '{% if true %}{# gone\n#}select 1,\nnope,\n{{ many }}'
  const sql = 'select 1,\nnope,\n7,\n8'
  expect(reason(2, source, sql)).toBe('pipeline.sql line 3: Binder Error: no')
})

test('a ref outside of delimiters is explained', () => {
  const message =
    'Catalog Error: Table Function with name ref does not exist!\nDid you mean "parquet_scan"?\n\nLINE 1: x'
  expect(
    reasonOf(new EngineFault({ kind: 'binder', message, line: 1 }), {
      file: 'pipeline.sql',
      source: "from ref('a.b')",
      sql: "from ref('a.b')",
    }),
  ).toBe(
    'pipeline.sql line 1: Catalog Error: Table Function with name ref does not exist: ref() belongs to the template: write {{ ref(...) }}',
  )
})

test('an unreadable landing file names the only line that reads its zone', () => {
  const message = 'Conversion Error: CSV Error on Line: 9\n\n  file = landing/drops/20260101_000000_a.csv'
  const said = (source: string, sql: string) =>
    reasonOf(new EngineFault({ kind: 'other', message }), { file: 'pipeline.sql', source, sql })
  const source = "select *\nfrom read_csv('{{ landing_zone('drops') }}')"
  const once = "select *\nfrom read_csv('landing/drops/*')"
  expect(said(source, once)).toStartWith('pipeline.sql line 2: landing/drops/20260101_000000_a.csv line 9: ')
  expect(said('{{ both }}', `${once} union all\n${once}`)).toStartWith('pipeline.sql: landing/drops/')
  expect(said(source, "select *\nfrom read_csv('landing/drops-2/*')")).toStartWith(
    'pipeline.sql: landing/drops/',
  )
})
