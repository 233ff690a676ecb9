import { expect, test } from 'bun:test'
import { DuckDBInstance } from '@duckdb/node-api'
import fc from 'fast-check'
import { quoteIdentifier, quoteList, quoteLiteral } from './quote.ts'

test('reads back any quoted text unchanged', async () => {
  const instance = await DuckDBInstance.create(':memory:')
  const connection = await instance.connect()
  const text = fc.string({ unit: 'grapheme' }).filter((value) => !value.includes('\0'))
  await fc.assert(
    fc.asyncProperty(text, text, async (literal, other) => {
      const reader = await connection.runAndReadAll(
        `SELECT ${quoteLiteral(literal)} AS ${quoteIdentifier(`c${other}`)}, ${quoteList([literal, other])}`,
      )
      expect(reader.columnNames()[0]).toBe(`c${other}`)
      expect(reader.getRowsJson()).toEqual([[literal, [literal, other]]])
    }),
    { numRuns: 50 },
  )
  connection.closeSync()
  instance.closeSync()
})

test('refuses a null byte', () => {
  expect(() => quoteLiteral('a\0b')).toThrow(TypeError)
  expect(() => quoteIdentifier('\0')).toThrow(TypeError)
})
