import { expect, test } from 'bun:test'
import { quoteIdentifier } from '../../quote.ts'
import { parseDuckType, renderDuckType } from './duckdb-type.ts'

test.each([
  'INTEGER',
  'DECIMAL(38,0)',
  'TIMESTAMP WITH TIME ZONE',
  'INTEGER[]',
  'VARCHAR[3][]',
  'MAP(VARCHAR, DOUBLE)',
  'STRUCT("a" INTEGER, "b c" VARCHAR[])',
  'STRUCT("q""x" STRUCT("z" DECIMAL(5,1))[], "it\'s" MAP(INTEGER, TIMESTAMP WITH TIME ZONE))',
])('parses and writes %s unchanged', (text) => {
  expect(renderDuckType(parseDuckType(text), quoteIdentifier)).toBe(text)
})

test('ignores the arguments of ENUM and UNION', () => {
  expect(parseDuckType("ENUM('a', 'b''c)')")).toEqual({ kind: 'scalar', name: 'ENUM' })
  expect(parseDuckType('UNION(a INTEGER, b STRUCT(c INTEGER))[]')).toEqual({
    kind: 'list',
    element: { kind: 'scalar', name: 'UNION' },
  })
})

test('parses the quoted name that DuckDB writes for an untyped NULL', () => {
  expect(parseDuckType('"NULL"')).toEqual({ kind: 'scalar', name: 'NULL' })
})

test('gives unnamed fields an empty name', () => {
  const struct = parseDuckType('STRUCT(INTEGER, DECIMAL(4,1)[])')
  expect(struct.kind === 'struct' && struct.fields.map((field) => field.name)).toEqual(['', ''])
})

test.each([
  '',
  '(',
  'STRUCT(',
  'STRUCT()',
  'MAP(INTEGER)',
  'DECIMAL(a,b)',
  'INTEGER]',
  "ENUM('a'",
  'a;b',
  '"',
  'INTEGER[x]',
])('refuses %j', (text) => expect(() => parseDuckType(text)).toThrow(SyntaxError))

test('refuses nesting that would exhaust the stack', () => {
  const deep = `${'STRUCT(a '.repeat(100_000)}INTEGER${')'.repeat(100_000)}`
  expect(() => parseDuckType(deep)).toThrow('nested deeper')
})
