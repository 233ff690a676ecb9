import { beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { duringTests } from '../../tools/kit/during.ts'
import { startTestQueries } from './testing.ts'

setDefaultTimeout(60_000)

const FILES = 12
const queries = duringTests(() => startTestQueries({ QUERY_CONCURRENCY: '1' }))
beforeAll(async () => {
  for (let n = 0; n < FILES; n += 1)
    await queries.table(
      'default.gold.many',
      `SELECT ${n} AS p, ${n} * 10 + i AS id FROM range(3) t(i)`,
      'append',
    )
  await queries.table('default.gold.few', 'SELECT 4 AS p')
})

async function answerOf(sql: string) {
  const { filesTotal, filesRead } = await queries.client.executeQuery({
    sql,
    limit: 100n,
    timeoutMs: 20_000,
    lake: await queries.lake(),
  })
  const { rows } = await queries.query(sql)
  return { rows, files: [Number(filesTotal), Number(filesRead)] }
}

test.each([
  ['SELECT id FROM gold.many WHERE p = 4 AND id > 41', [FILES, 1], [{ id: 42 }]],
  ['SELECT max(id) AS m FROM gold.many WHERE p IN (2, 9)', [FILES, 2], [{ m: 92 }]],
  ['SELECT count(*)::INT AS n FROM gold.many', [FILES, FILES], [{ n: 36 }]],
  ['SELECT count(*)::INT AS n FROM gold.many JOIN gold.few USING (p)', [FILES + 1, FILES + 1], [{ n: 3 }]],
  [
    'SELECT count(*)::INT AS n FROM gold.many m JOIN gold.few f ON m.p = f.p AND m.p = 4',
    [FILES + 1, 2],
    [{ n: 3 }],
  ],
  ['SELECT count(*)::INT AS n FROM gold.many WHERE p = 100', [FILES, 0], [{ n: 0 }]],
  ['SELECT count(*)::INT AS n FROM gold.many WHERE p = year(now())', [FILES, FILES], [{ n: 0 }]],
  ['SELECT id FROM gold.many WHERE id = 110', [FILES, 1], [{ id: 110 }]],
  ['SELECT id FROM gold.many WHERE p = 4 AND id > 41', [FILES, 1], [{ id: 42 }]],
] as const)('%s reads %p files', async (sql, files, rows) => {
  expect(await answerOf(sql)).toEqual({ rows: [...rows], files: [...files] })
})

test('a statement that fails during planning fails with the message of its execution', async () => {
  await expect(queries.query('SELECT nothing FROM gold.many WHERE p = 1')).rejects.toThrow(
    'Referenced column "nothing" not found',
  )
})

test('the planner continues after the columns of a table have changed', async () => {
  await queries.table('default.gold.many', 'SELECT 50 AS p, 1 AS other', 'append')
  expect(await answerOf('SELECT other FROM gold.many WHERE p = 50')).toEqual({
    rows: [{ other: 1 }],
    files: [FILES + 1, 1],
  })
})
