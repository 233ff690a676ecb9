// Measures POST /query over HTTP against DuckDB alone, with the same client library, files, threads and SQL. Both are warm and
// alternate. The texts of small queries differ from call to call, as they do in real use.
import { readdir } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api'
import { startService } from '../tools/service/service.ts'
import { clientOf } from './client.ts'
import { figuresOf, printFigures } from './figures.ts'

const CALLERS = 50
const QUERIES_OF_CALLER = 40
const THREADS = Math.max(1, availableParallelism() - 1)

const TABLES = {
  routes: `select i as id, 'route ' || i as name, (i % 97) * 1.25::decimal(14,2) as delay from range(500) t(i)`,
  flights: `
    select i as id, (i % 100)::integer as day, 'customer ' || (i * 31) % 5000 as customer, i / 7.0::double as score,
           (i * 1.37)::decimal(14,2) as amount, date '2024-01-01' + (i % 365)::integer as booked,
           timestamp '2024-01-01' + to_seconds(i * 61) as seen, i % 3 = 0 as late,
           if(i % 5 = 0, null, 'note ' || i) as note
    from range(1000) t(i)`,
  events: `
    select i as id, (i * 7919) % 100003 as amount, 'customer ' || (i * 31) % 5000 as customer,
           timestamp '2024-01-01' + to_seconds(i) as seen, hash(i) % 1000 / 8.0 as score
    from range(10_000_000) t(i)`,
}

const QUERIES = [
  { name: 'one row', table: 'routes', sql: 'select id, name, delay from $table where id = $n', times: 1_000 },
  { name: '1,000 rows of 9 columns', table: 'flights', sql: 'select * from $table', times: 300 },
  {
    name: 'aggregate of 10 M rows',
    table: 'events',
    sql: `select customer, count(*) as n, sum(amount) as total, avg(score) as score, max(seen) as last
          from $table where amount % 10 < 9 group by customer order by total desc limit 10`,
    times: 15,
  },
] as const

type Table = keyof typeof TABLES

export async function benchQuery() {
  const service = await startService({ LOG_FORMAT: 'text', QUERY_THREADS: String(THREADS) })
  const client = clientOf(service.url)
  const instance = await DuckDBInstance.create(':memory:', { threads: String(THREADS) })
  try {
    for (const [table, sql] of Object.entries(TABLES)) {
      await client.create(table, sql)
      await client.runToSuccess(table)
    }
    const connection = await instance.connect()
    for (const { name, table, sql, times } of QUERIES) {
      const overHttp: number[] = []
      const alone: number[] = []
      const files = await filesOf(table)
      const sqlOn = (source: string, n: number) =>
        sql.replace('$table', source).replace('$n', String((n * 7) % 500))
      const warmUp = Math.ceil(times / 5)
      for (let n = 0; n < times + warmUp; n += 1) {
        const http = await took(() => query(sqlOn(`gold.${table}`, n)))
        const raw = await took(() => rowsOf(connection, sqlOn(files, n)))
        if (n < warmUp) continue
        overHttp.push(http)
        alone.push(raw)
      }
      const [http, raw] = [figuresOf(overHttp), figuresOf(alone)]
      printFigures({ [`POST /query: ${name}`]: http, 'DuckDB alone': raw }, 'DuckDB alone')
      const more = (http.p50 - raw.p50).toFixed(2)
      console.log(`  ${name}: ${more} ms more than DuckDB alone, ${(http.p50 / raw.p50).toFixed(2)} times\n`)
    }
    connection.closeSync()
    await manyCallers()
  } finally {
    instance.closeSync()
    await service.stop()
  }

  async function manyCallers() {
    const caller = async () => {
      const samples: number[] = []
      for (let n = 0; n < QUERIES_OF_CALLER; n += 1)
        samples.push(await took(() => query('select id, name, delay from gold.routes where id = 42')))
      return figuresOf(samples).p50
    }
    await Promise.all(Array.from({ length: CALLERS }, caller))
    const began = performance.now()
    const medians = await Promise.all(Array.from({ length: CALLERS }, caller))
    const seconds = (performance.now() - began) / 1_000
    const [fastest, slowest] = [Math.min(...medians), Math.max(...medians)]
    console.log(
      `  ${CALLERS} callers at once: p50 of the fastest ${fastest.toFixed(1)} ms, of the slowest ${slowest.toFixed(1)} ms,` +
        ` ${(slowest / fastest).toFixed(2)} times; ${((CALLERS * QUERIES_OF_CALLER) / seconds).toFixed(0)} queries/s`,
    )
  }

  async function query(sql: string): Promise<void> {
    const answer = await client.call<{ rows: object[] }>('POST', '/query', { sql })
    if (answer.rows.length === 0) throw new Error(`no rows: ${sql}`)
  }

  /** Returns a SQL table expression over the data files that the service reads. */
  async function filesOf(table: Table): Promise<string> {
    const lake = join(service.dataDir, 'objects', '_lake')
    const entries = await readdir(lake, { recursive: true, withFileTypes: true })
    const paths = entries
      .filter(({ name, parentPath }) => name.endsWith('.parquet') && parentPath.includes(`/${table}-`))
      .map(({ name, parentPath }) => `'${join(parentPath, name)}'`)
    if (paths.length === 0) throw new Error(`no files of ${table} in ${lake}`)
    return `read_parquet([${paths.join(', ')}])`
  }
}

/** Reads all rows as objects ready for JSON, as a program that uses DuckDB directly would. */
async function rowsOf(connection: DuckDBConnection, sql: string): Promise<void> {
  const reader = await connection.runAndReadAll(sql)
  if (reader.getRowObjectsJson().length === 0) throw new Error(`no rows: ${sql}`)
}

async function took(work: () => Promise<unknown>): Promise<number> {
  const since = performance.now()
  await work()
  return performance.now() - since
}
