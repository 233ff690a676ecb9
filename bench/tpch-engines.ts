// Runs the 22 queries of TPC-H as pipelines in DuckDB and in engine `spark`, beside DuckDB alone. All results must be equal.
// SCALE_FACTOR is 1 unless it is set. SPARK_REMOTE names a cluster; without it, PYTHON_BIN needs Sail.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import { startService } from '../tools/service/service.ts'
import { type Client, clientOf } from './client.ts'
import { generateTpch, loadTpch, SCALE_FACTOR, TPCH_TABLES, tablesIn, viewsIn } from './tpch.ts'

export async function benchTpchEngines() {
  const directory = await mkdtemp(join(tmpdir(), 'sluice-tpch-'))
  const { PYTHON_BIN, SPARK_REMOTE } = process.env
  const service = await startService({
    LOG_FORMAT: 'text',
    ...(PYTHON_BIN && { PYTHON_BIN }),
    ...(SPARK_REMOTE && { SPARK_REMOTE }),
  })
  const instance = await DuckDBInstance.create(':memory:', {})
  try {
    await generateTpch(directory)
    const client = clientOf(service.url)
    for (const table of TPCH_TABLES) await loadTpch(client, table, join(directory, table))
    const alone = await viewsIn(instance, directory)
    const queries: string[] = await Bun.file(join(directory, 'queries.json')).json()
    console.log(`  scale factor ${SCALE_FACTOR}, engine spark: ${SPARK_REMOTE ?? 'Sail'}`)
    console.log('  query   DuckDB run ms   Spark run ms   DuckDB alone ms')
    const sums = [0, 0, 0]
    for (const [index, text] of queries.entries()) {
      const sql = text.trim().replace(/;$/, '')
      const since = performance.now()
      await alone.runAndReadAll(sql)
      const aloneMs = performance.now() - since
      const times = [
        await runMs(client, `q${index + 1}_duckdb`, sql, ''),
        await runMs(client, `q${index + 1}_spark`, sql, '-- @engine: spark\n'),
        aloneMs,
      ]
      await compare(client, `q${index + 1}`)
      for (const [i, ms] of times.entries()) sums[i] = (sums[i] ?? 0) + ms
      console.log(`  ${String(index + 1).padStart(5)}${cells(times)}`)
    }
    console.log(`    all${cells(sums)}\n  ${queries.length} results are equal`)
  } finally {
    instance.closeSync()
    await service.stop()
    await rm(directory, { recursive: true })
  }
}

const cells = (times: readonly number[]) =>
  times.map((ms, i) => ms.toFixed(0).padStart([16, 15, 18][i] ?? 0)).join('')

async function runMs(client: Client, name: string, sql: string, header: string): Promise<number> {
  await client.create(name, header + tablesIn(sql, (table) => `{{ ref('gold.${table}') }}`))
  const since = performance.now()
  await client.runToSuccess(name)
  return performance.now() - since
}

/** An average of decimals has six places in Spark, and sums of doubles depend on the order of their rows. */
const TOLERANCE = 1e-6

async function compare(client: Client, query: string): Promise<void> {
  const [duckdb = [], spark = []] = await Promise.all(
    ['duckdb', 'spark'].map(async (engine) => {
      const { rows } = await client.call<{ rows: object[] }>('POST', '/query', {
        sql: `select * from gold.${query}_${engine}`,
        limit: 100_000,
      })
      return rows.map((row) => Object.values(row)).toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1))
    }),
  )
  const fault = duckdb.findIndex((row, i) => !row.every((value, j) => isSame(value, spark[i]?.[j])))
  if (fault !== -1 || duckdb.length !== spark.length)
    throw new Error(`the results of ${query} differ: ${JSON.stringify([duckdb[fault], spark[fault]])}`)
}

const isNumber = (value: unknown) => value !== null && value !== '' && !Number.isNaN(Number(value))

const keyOf = (row: readonly unknown[]) =>
  row.map((value) => (isNumber(value) ? Number(value).toPrecision(4) : String(value))).join('|')

function isSame(a: unknown, b: unknown): boolean {
  if (!isNumber(a) || !isNumber(b)) return a === b
  return Math.abs(Number(a) - Number(b)) <= TOLERANCE * Math.max(1, Math.abs(Number(a)))
}
