import { beforeAll, expect, test } from 'bun:test'
import { ConnectError } from '@connectrpc/connect'
import { CostSchema } from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { duringTests } from '../../tools/kit/during.ts'
import { startTestQueries } from './testing.ts'

const queries = duringTests(() => startTestQueries({ QUERY_CONCURRENCY: '1' }))
beforeAll(() =>
  queries.table('default.gold.numbers', 'SELECT (hash(range) // 2)::BIGINT AS h FROM range(1000000)'),
)

const ask = async (sql: string) =>
  queries.client.executeQuery({ sql, limit: 10n, timeoutMs: 20_000, lake: await queries.lake() })

test('a query reports the bytes that it has read, without those of earlier queries', async () => {
  const { cost } = await ask('SELECT sum(h % 7) AS s FROM gold.numbers')
  expect(Number(cost?.bytesRead)).toBeGreaterThan(7_000_000)
  expect(Number((await ask('SELECT 1 AS a')).cost?.bytesRead)).toBeLessThan(1_000_000)
})

test('a failed query reports its cost, too', async () => {
  const sql = "SELECT error('end ' || sum(h % 7)) AS a FROM gold.numbers, range(20)"
  const failure = ConnectError.from(await ask(sql).catch((error: unknown) => error))
  expect(failure.findDetails(CostSchema)[0]?.cpuSeconds).toBeGreaterThan(0.05)
})
