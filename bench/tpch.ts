// Measures the 22 queries of TPC-H. Pipelines load eight tables from Parquet files in landing zones. Each query then runs through
// POST /query, and in DuckDB alone on the loaded files. DuckDB runs with the limits of the query service's engines, and with its
// own limits. SCALE_FACTOR is 1 unless it is set.
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api'
import { readMachine } from '../sidecars/core/machine.ts'
import { parseSettings } from '../sidecars/query/settings.ts'
import { pythonWith } from '../tools/install/python.ts'
import { run } from '../tools/kit/run.ts'
import { startService } from '../tools/service/service.ts'
import { type Client, clientOf } from './client.ts'

export const SCALE_FACTOR = process.env.SCALE_FACTOR ?? '1'
const ROUNDS = 10
export const TPCH_TABLES = [
  'customer',
  'lineitem',
  'nation',
  'orders',
  'part',
  'partsupp',
  'region',
  'supplier',
]
const PACKAGES = ['duckdb==1.5.5', 'duckdb-extension-tpch==1.5.5']
/** The number of rows that POST /query returns by default, and at most. */
const [DEFAULT_ROWS, ROWS_MAX] = [1_000, 100_000]
const GENERATION_LIMIT_MS = 3_600_000

export async function benchTpch() {
  const directory = await mkdtemp(join(tmpdir(), 'sluice-tpch-'))
  const service = await startService({ LOG_FORMAT: 'text' })
  const { engine } = parseSettings(
    { SCRATCH_DIR: directory, SIDECAR_TOKEN: crypto.randomUUID() + crypto.randomUUID() },
    readMachine(),
  )
  const limits = { threads: String(engine.threads), memory_limit: `${engine.memoryLimitBytes}B` }
  const instances = [
    await DuckDBInstance.create(':memory:', limits),
    await DuckDBInstance.create(':memory:', {}),
  ]
  try {
    await generateTpch(directory)
    const client = clientOf(service.url)
    for (const table of TPCH_TABLES) await loadTpch(client, table, join(directory, table))
    const [same, own] = await Promise.all(instances.map((instance) => viewsIn(instance, directory)))
    if (same === undefined || own === undefined) throw new Error('no DuckDB to compare with')
    const queries: string[] = await Bun.file(join(directory, 'queries.json')).json()
    console.log(`  scale factor ${SCALE_FACTOR}; limits ${limits.threads} threads, ${limits.memory_limit}`)
    console.log('  query   /query ms   DuckDB ms   times   own limits ms   times')
    const ratios: { same: number; own: number }[] = []
    for (const [index, text] of queries.entries()) {
      const sql = text.trim().replace(/;$/, '')
      const times = await measured(sql, client, { same, own })
      ratios.push({ same: times.query / times.same, own: times.query / times.own })
      const cells = [times.query, times.same, times.query / times.same, times.own, times.query / times.own]
      const digits = [0, 0, 2, 0, 2]
      const widths = [12, 12, 8, 16, 8]
      const line = cells.map((cell, i) => cell.toFixed(digits[i]).padStart(widths[i] ?? 0)).join('')
      console.log(`  ${String(index + 1).padStart(5)}${line}`)
    }
    console.log(
      `  ${ratios.length} answers are equal; geometric mean ${mean(ratios.map((each) => each.same))} times DuckDB with the same limits,` +
        ` ${mean(ratios.map((each) => each.own))} times DuckDB with its own`,
    )
  } finally {
    for (const instance of instances) instance.closeSync()
    await service.stop()
    await rm(directory, { recursive: true })
  }
}

const mean = (values: readonly number[]): string =>
  Math.exp(values.reduce((sum, value) => sum + Math.log(value), 0) / values.length).toFixed(3)

/** Writes Parquet files of the tables, and `queries.json`, to the directory. */
export async function generateTpch(directory: string) {
  const python = await pythonWith(PACKAGES)
  const { code, output } = await run({
    command: [python, join(import.meta.dirname, 'tpch.py'), SCALE_FACTOR, directory],
    limitMs: GENERATION_LIMIT_MS,
  })
  await rm(join(python, '..', '..'), { recursive: true })
  if (code !== 0) throw new Error(output)
}

/** Uploads the files of a table, and loads them by a pipeline. */
export async function loadTpch(client: Client, table: string, directory: string) {
  await client.call('POST', '/landing-zones', { namespace: 'default', name: table })
  for (const file of await readdir(directory)) {
    const form = new FormData()
    form.set('file', new File([await Bun.file(join(directory, file)).arrayBuffer()], file))
    await client.call('POST', `/landing-zones/default/${table}/files`, form)
  }
  await client.create(table, `select * from read_parquet('{{ landing_zone("${table}") }}')`)
  await client.runToSuccess(table)
}

/** A DuckDB that reads the generated files. */
export async function viewsIn(instance: DuckDBInstance, directory: string): Promise<DuckDBConnection> {
  const connection = await instance.connect()
  for (const table of TPCH_TABLES)
    await connection.run(`CREATE VIEW ${table} AS FROM read_parquet('${join(directory, table)}/*.parquet')`)
  return connection
}

interface Answer {
  rows: object[]
  truncated: boolean
}

/** The query with other names of its tables. */
export const tablesIn = (sql: string, named: (table: string) => string): string =>
  sql.replaceAll(
    new RegExp(`(?<=\\b(?:from|join)\\s+|,\\s*)(${TPCH_TABLES.join('|')})\\b(?!\\s*\\.)`, 'gi'),
    (table) => named(table.toLowerCase()),
  )

/** The best times, because other load on the machine only adds to them. */
async function measured(
  sql: string,
  client: Client,
  { same, own }: { same: DuckDBConnection; own: DuckDBConnection },
) {
  const times = { query: Infinity, same: Infinity, own: Infinity }
  const best = async <T>(name: keyof typeof times, work: () => Promise<T>): Promise<T> => {
    const since = performance.now()
    const result = await work()
    times[name] = Math.min(times[name], performance.now() - since)
    return result
  }
  const ofService = tablesIn(sql, (table) => `gold.${table}`)
  const ask = (limit: number) => client.call<Answer>('POST', '/query', { sql: ofService, limit })
  const limit = (await ask(DEFAULT_ROWS)).truncated ? ROWS_MAX : DEFAULT_ROWS
  for (let round = 0; round < ROUNDS; round += 1) {
    const { rows } = await best('query', () => ask(limit))
    const alone = await best('same', () => same.runAndReadAll(sql))
    await best('own', () => own.runAndReadAll(sql))
    if (JSON.stringify(plain(rows)) !== JSON.stringify(plain(alone.getRowObjectsJson())))
      throw new Error(`the answers differ: ${sql}`)
  }
  return times
}

/** Values as text, numbers with the precision that sums of doubles in any order share. */
const plain = (rows: readonly object[]): string[][] =>
  rows.map((row) =>
    Object.values(row).map((value) => {
      const number = Number(value)
      return value === null || Number.isNaN(number) ? String(value) : number.toPrecision(10)
    }),
  )
