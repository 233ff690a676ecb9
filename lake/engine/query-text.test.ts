import { expect, test } from 'bun:test'
import { readQueryText } from './query-text.ts'
import { useConnection } from './test-connection.ts'

const connection = await useConnection()

/** The tables as `name@offset`, or the error. */
async function read(sql: string) {
  const { fault, tables } = await readQueryText(connection, sql)
  if (fault !== null) return `${fault.message}@${fault.at}`
  return tables.map(
    ({ catalog, schema, name, at }) => `${[catalog, schema, name].filter(Boolean).join('.')}@${at}`,
  )
}

test.each([
  ['select * from gold.squares', ['gold.squares@14']],
  ["select 'é😀', x from squares", ['squares@21']],
  [
    'from default.gold.squares s join DEFAULT . gold.b using (x)',
    ['default.gold.squares@5', 'default.gold.b@33'],
  ],
  ['from "default.gold"."squares"', ['default.gold.squares@5']],
  ['with t as (select 1), u as (from t) from u, v', ['v@44']],
  ["select (select max(b) from c) from range(3), read_csv('x'), (values (1)) w(a)", ['c@27']],
  ["from 'landing/x/*'", ['landing/x/*@5']],
  ['from duckdb_tables, information_schema.tables, pg_catalog.pg_class, a', ['a@68']],
  ['from (describe a)', ['a@15']],
  ['(summarize a)', ['a@11']],
  ['select ? as a', []],
])('finds the tables of %s', async (sql, tables) => {
  expect(await read(sql)).toEqual(tables)
})

test.each([
  ['selct 1', 'syntax error at or near "selct"@0'],
  ["select 'é',\n  from where", 'syntax error at or near "where"@19'],
  ['select * from a where (', 'syntax error at end of input@23'],
  ['select 1 from default', 'syntax error at or near "default"@14'],
  ["select '😀', from where", 'syntax error at or near "where"@18'],
  ['', 'there is no SELECT statement@undefined'],
  ['-- nothing\n', 'there is no SELECT statement@undefined'],
  ['-- a\ninsert into a values (1)', 'only a SELECT can be run, not INSERT@5'],
  ['describe a', 'only a SELECT can be run, not DESCRIBE@0'],
  ['-- a\nsummarize select 1 as b', 'only a SELECT can be run, not SUMMARIZE@5'],
  ['show tables', 'only a SELECT can be run, not SHOW@0'],
  ['create table a (b int)', 'only a SELECT can be run, not CREATE@0'],
  ["select ';';\n-- b\nselect 2;", 'one SELECT statement is expected, not 2@17'],
  ['select 1; drop table a', 'one SELECT statement is expected, not 2@10'],
  [
    'pivot a on b',
    'one SELECT statement is expected, not 2 (a PIVOT has to name its values: ON column IN (...))@0',
  ],
])('explains why %p is not a query', async (sql, fault) => {
  expect(await read(sql)).toBe(fault)
})
