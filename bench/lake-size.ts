// Measures a pipeline without a key that writes 30 million rows, and a query that groups them. The peer is DuckDB alone with the
// same limits: it copies the same rows to one Parquet file and groups them.
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import { startService } from '../tools/service/service.ts'
import { clientOf } from './client.ts'

const ROWS = 30_000_000
const ROUNDS = 3
const QUERY_ROUNDS = 8
const THREADS = String(Math.max(1, availableParallelism() - 1))
const MEMORY = '1GB'

const SQL = `
  select i as id, (i * 7919) % 100003 as amount, 'customer ' || (i * 31) % 5000 as customer,
         timestamp '2024-01-01' + to_seconds(i) as seen, hash(i) % 1000 / 8.0 as score
  from range(${ROWS}) t(i)`
const GROUPS = `
  select customer, count(*) as n, sum(amount) as total, avg(score) as score, max(seen) as last
  from $table group by customer order by total desc limit 10`

export async function benchLakeSize() {
  const limits = { ENGINE_THREADS: THREADS, QUERY_THREADS: THREADS, QUERY_MEMORY_LIMIT: MEMORY }
  const service = await startService({ LOG_FORMAT: 'text', ENGINE_MEMORY_LIMIT: MEMORY, ...limits })
  const directory = await mkdtemp(join(tmpdir(), 'sluice-lake-size-'))
  const instance = await DuckDBInstance.create(':memory:', { threads: THREADS, memory_limit: MEMORY })
  try {
    const connection = await instance.connect()
    const client = clientOf(service.url)
    await client.create('rows', SQL)
    const file = join(directory, 'rows.parquet')
    const times = {
      write: [] as number[],
      rawWrite: [] as number[],
      group: [] as number[],
      rawGroup: [] as number[],
    }
    for (let round = 0; round < ROUNDS; round += 1) {
      times.rawWrite.push(await took(() => connection.run(`COPY (${SQL}) TO '${file}' (FORMAT parquet)`)))
      times.write.push(await took(() => client.runToSuccess('rows')))
    }
    const ofPeer = GROUPS.replace('$table', `'${file}'`)
    const ofService = { sql: GROUPS.replace('$table', 'gold.rows') }
    for (let round = 0; round < QUERY_ROUNDS; round += 1) {
      times.rawGroup.push(await took(() => connection.runAndReadAll(ofPeer)))
      times.group.push(await took(() => client.call('POST', '/query', ofService)))
    }
    const sizes = await sizesIn(join(service.dataDir, 'objects', '_lake'))
    console.log(
      `  ${sizes.length / ROUNDS} files of ${Math.round(Math.max(...sizes) / 1e6)} MB at most per write`,
    )
    print('write', times.write, times.rawWrite)
    print('group by', times.group, times.rawGroup)
    connection.closeSync()
  } finally {
    instance.closeSync()
    await service.stop()
    await rm(directory, { recursive: true })
  }
}

/** Prints the best times, because other load on the machine only adds to them. */
function print(name: string, own: readonly number[], raw: readonly number[]) {
  const [best, peer] = [Math.min(...own), Math.min(...raw)]
  console.log(
    `  ${name}: ${(best / 1_000).toFixed(2)} s; DuckDB alone ${(peer / 1_000).toFixed(2)} s; ${(best / peer).toFixed(2)} times`,
  )
}

async function sizesIn(lake: string): Promise<number[]> {
  const entries = await readdir(lake, { recursive: true, withFileTypes: true })
  const files = entries.filter(({ name }) => name.endsWith('.parquet'))
  return Promise.all(files.map(async ({ name, parentPath }) => (await stat(join(parentPath, name))).size))
}

async function took(work: () => Promise<unknown>): Promise<number> {
  const since = performance.now()
  await work()
  return performance.now() - since
}
