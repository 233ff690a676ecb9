import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Code, ConnectError } from '@connectrpc/connect'
import { testDirectory } from '../../tools/test/directory.ts'
import { startTestQueries, type TestQueries } from './testing.ts'

setDefaultTimeout(60_000)

let queries: TestQueries
beforeAll(async () => {
  await writeFile(join(directory, 'secret.csv'), 'a\nthe secret\n')
  queries = await startTestQueries({ QUERY_MEMORY_LIMIT: '128MB', QUERY_CONCURRENCY: '2' })
  await queries.table('default.gold.routes', 'SELECT 1 AS id')
})
afterAll(async () => {
  expect(await queries.query('FROM gold.routes')).toMatchObject({ rows: [{ id: 1 }] })
  expect(await queries.isHealthy()).toBe(true)
  expect(await readdir(directory)).toEqual(['secret.csv'])
  await queries.close()
})
const directory = testDirectory()

async function refusalOf(sql: string, timeoutMs = 20_000): Promise<ConnectError> {
  const answer = await queries
    .query(sql.replaceAll('{dir}', directory), { timeoutMs })
    .catch((error: unknown) => error)
  if (!(answer instanceof ConnectError)) throw new Error(`it was not refused: ${JSON.stringify(answer)}`)
  return answer
}

// Most statements are refused by lake/engine/statement.test.ts already. Here are those that name this lake, or need the service.
describe('is refused as a statement that does not only read tables', () => {
  for (const [sql, message] of [
    // Files by function, by name, by way of something harmless
    [`SELECT * FROM read_csv('{dir}/secret.csv')`, 'read_csv()'],
    [`SELECT * FROM parquet_file_metadata('/**/*.parquet')`, 'parquet_file_metadata()'],
    [`FROM '{dir}/secret.csv'`, 'there is no table'],
    [`WITH routes AS (FROM '{dir}/secret.csv') FROM routes`, 'there is no table'],
    [`FROM gold.routes WHERE id IN (SELECT 1 FROM read_csv('{dir}/secret.csv'))`, 'read_csv()'],
    ['FROM "http://127.0.0.1:1/a.csv"', 'there is no table'],
    [`FROM default.gold."routes' UNION FROM '/etc/passwd"`, 'there is no table'],
    // Writing
    [`COPY (SELECT 1) TO '{dir}/out.csv'`, 'COPY is not allowed'],
    [`COPY gold.routes FROM '{dir}/secret.csv'`, 'COPY is not allowed'],
    [`ATTACH '{dir}/a.db' AS a`, 'ATTACH is not allowed'],
    ['DETACH "default"', 'DETACH is not allowed'],
    ['CREATE TEMP TABLE x AS SELECT 1', 'CREATE is not allowed'],
    ['CREATE OR REPLACE VIEW "default".gold.routes AS SELECT 2 AS id', 'CREATE is not allowed'],
    [`CREATE SECRET s (TYPE http, BEARER_TOKEN 'x')`, 'CREATE is not allowed'],
    ['CREATE MACRO m() AS 1', 'CREATE is not allowed'],
    ['TRUNCATE gold.routes', 'TRUNCATE is not allowed'],
    ['MERGE INTO gold.routes USING gold.routes r ON true WHEN MATCHED THEN DELETE', 'MERGE is not allowed'],
    ['WITH x AS (SELECT 1) INSERT INTO gold.routes FROM x', 'is not allowed'],
    // The engine itself
    ['SET VARIABLE x = 1', 'SET is not allowed'],
    [`CALL enable_logging(storage = 'file', storage_path = '{dir}/log')`, 'CALL is not allowed'],
    ['FROM pragma_database_list()', 'pragma_database_list()'],
    [
      'WITH RECURSIVE sqlite_master AS (FROM sqlite_master UNION FROM sqlite_master) FROM sqlite_master',
      'there is no table',
    ],
    ['WITH "s\u212Aip" AS (SELECT 1) FROM skip', 'there is no table'],
    // More or less than one statement
    ['SELECT 1; DROP VIEW "default".gold.routes', 'is not allowed'],
    [`SELECT 'it is not closed`, 'unterminated'],
    // Too much for the parser
    [`SELECT ${'('.repeat(50_000)}1${')'.repeat(50_000)}`, ''],
    [`SELECT ${'abs('.repeat(20_000)}1${')'.repeat(20_000)}`, ''],
    [`SELECT ${'NOT '.repeat(20_000)}true`, ''],
    [`FROM ${'(FROM '.repeat(15_000)}gold.routes${')'.repeat(15_000)}`, ''],
    [`SELECT ${'[['.repeat(20_000)}`, ''],
  ] as const)
    test(sql.slice(0, 100), async () => {
      const { code, rawMessage } = await refusalOf(sql)
      // What ends the engine itself is no fault of the service's.
      const codes = message === '' ? [Code.InvalidArgument, Code.Aborted] : [Code.InvalidArgument]
      expect(codes).toContain(code)
      expect(rawMessage).toContain(message)
      expect(rawMessage).not.toContain('the secret')
    })
})

describe('is stopped when it asks for too much', () => {
  for (const [sql, timeoutMs] of [
    ['WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT max(n) FROM r', 500],
    [
      'SELECT count(*) FROM range(100_000) a, range(100_000) b, range(100_000) c WHERE a.range + b.range < 0',
      500,
    ],
    ['SELECT length(list_reduce(range(100_000), lambda a, b: md5(a::VARCHAR || b)::VARCHAR)::VARCHAR)', 500],
    ['SELECT list_sort(range(1_000_000_000))', 1_000],
    [`SELECT repeat('x', 4_000_000_000)`, 1_000],
    [`SELECT string_agg(repeat('x', 1_000_000), '') FROM range(1_000_000)`, 1_000],
    [
      `SELECT max(r) FROM (SELECT rank() OVER (ORDER BY hash(range), repeat('x', 100)) AS r FROM range(30_000_000))`,
      1_000,
    ],
  ] as const)
    test(sql.slice(0, 100), async () => {
      const { code } = await refusalOf(sql, timeoutMs)
      expect([Code.DeadlineExceeded, Code.ResourceExhausted, Code.InvalidArgument, Code.Aborted]).toContain(
        code,
      )
    })
})
