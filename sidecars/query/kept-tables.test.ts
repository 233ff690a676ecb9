import { expect, setDefaultTimeout, test } from 'bun:test'
import { duringTests } from '../../tools/test/during.ts'
import { startTestQueries } from './testing.ts'

setDefaultTimeout(60_000)

const queries = duringTests(() => startTestQueries({ QUERY_CONCURRENCY: '1' }))

const rowsOf = async (sql: string, visible?: string[]) =>
  (await queries.query(sql, visible && { visible })).rows
/** Whether the engine reads a file of the table. */
async function readsFiles(table: string): Promise<boolean> {
  return JSON.stringify(await rowsOf(`EXPLAIN SELECT * FROM ${table}`)).includes('PARQUET')
}

test('a small table is read from memory until it changes', async () => {
  await queries.table('default.gold.small', `SELECT range AS id, 'text ' || range AS text FROM range(3)`)
  expect(await readsFiles('gold.small')).toBe(false)
  expect(await rowsOf('FROM gold.small ORDER BY id LIMIT 1')).toEqual([{ id: 0, text: 'text 0' }])
  await queries.table('default.gold.small', `SELECT 7 AS id, 'other' AS text`)
  expect(await rowsOf('FROM gold.small')).toEqual([{ id: 7, text: 'other' }])
  expect(await readsFiles('gold.small')).toBe(false)
  expect(await rowsOf('FROM gold.small')).toEqual([{ id: 7, text: 'other' }])
})

test.each([
  ['many rows', 'SELECT range AS id FROM range(3000)'],
  [
    'a long text that is in its file once',
    `SELECT range AS id, repeat('x', 100_000) AS text FROM range(100)`,
  ],
  ['nested values', 'SELECT [range] AS ids FROM range(3)'],
])('a table with %s is read from its files', async (_, sql) => {
  await queries.table('default.gold.large', sql)
  expect(await readsFiles('gold.large')).toBe(true)
})

test('a kept table disappears for callers that do not see it', async () => {
  await queries.table('ops.silver.kept', 'SELECT 1 AS id')
  await queries.table('default.gold.seen', 'SELECT 2 AS id')
  expect(await readsFiles('ops.silver.kept')).toBe(false)
  const visible = ['default.gold.seen']
  expect(await rowsOf('SELECT table_name AS name FROM information_schema.tables', visible)).toEqual([
    { name: 'seen' },
  ])
  expect(await rowsOf('FROM ops.silver.kept')).toEqual([{ id: 1 }])
})
