// Measures incremental runs that change 1,000 rows of a table with one million and with 30 million rows. The keys are adjacent
// or scattered. The figures are the bytes written and the duration. Two limits are measured as well: DuckDB alone rewrites one
// file of the table, and the whole table.
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import { startService } from '../tools/service/service.ts'
import { clientOf } from './client.ts'
import { figuresOf } from './figures.ts'

const SIZES = [1_000_000, 30_000_000]
const CHANGED = 1_000
const WARM_UP = 2
const RUNS = 15
/** Rows in one file of these tables. */
const FILE_ROWS = 65_536

const rows = (id: string, range: string, factor = 7919) => `
  select ${id} as id, (${id} * ${factor}) % 100003 as amount, 'customer ' || (${id} * 31) % 5000 as customer,
         timestamp '2024-01-01' + to_seconds(${id}) as at, hash(${id}) % 1000 / 8.0 as score
  from range(${range}) t(i)`

export async function benchMerge() {
  const service = await startService({ LOG_FORMAT: 'text' })
  try {
    const tables: Loaded[] = []
    for (const size of SIZES) tables.push(await load(service, size))
    const merges: Measured[] = tables.map((table) => ({ ...table, clustered: [] }))
    // The sizes alternate, so that other load on the machine affects both equally.
    for (let n = 0; n < WARM_UP + RUNS; n += 1)
      for (const merge of merges) {
        const merged = await merge.change((n + 0.5) / (WARM_UP + RUNS))
        if (n >= WARM_UP) merge.clustered.push(merged)
      }
    for (const merge of merges)
      Object.assign(merge, { scattered: await merge.scatter() }, await duckdbAlone(merge.size))
    print(merges)
  } finally {
    await service.stop()
  }
}

interface Loaded {
  size: number
  tableBytes: number
  loadMs: number
  /** Changes adjacent rows. `place` is the position in the table, from 0 to 1. */
  change(place: number): Promise<Merged>
  /** Changes rows that are spread over the whole table. */
  scatter(): Promise<Merged>
}

interface Measured extends Loaded {
  clustered: Merged[]
  scattered?: Merged
  oneFileMs?: number
  totalMs?: number
}

interface Merged {
  ms: number
  /** Bytes of data files, manifests and metadata. */
  bytes: number
}

async function load(service: { url: string; dataDir: string }, size: number): Promise<Loaded> {
  const name = `merge-${size}`
  const lake = join(service.dataDir, 'objects', '_lake')
  const client = clientOf(service.url)
  await client.create(name, 'select 1')
  await write('config.yaml', 'merge_strategy: incremental\nunique_key: id\n')

  const loaded = await run(rows('i', String(size)))
  return {
    size,
    tableBytes: loaded.bytes,
    loadMs: loaded.ms,
    change: (place) => {
      const from = Math.floor(size * place)
      return run(rows('i', `${from}, ${from + CHANGED}`, 17))
    },
    scatter: () => run(rows(`(i * ${Math.floor(size / CHANGED)} + i % 7)`, String(CHANGED), 19)),
  }

  async function run(sql: string): Promise<Merged> {
    await write('pipeline.sql', sql)
    const before = await bytesIn(lake)
    const since = performance.now()
    await client.runToSuccess(name)
    const ms = performance.now() - since
    return { ms, bytes: (await bytesIn(lake)) - before }
  }

  async function write(file: string, content: string) {
    await client.call('PUT', `/files/default/pipelines/gold/${name}/${file}`, { content })
  }
}

async function bytesIn(directory: string): Promise<number> {
  const entries = await readdir(directory, { withFileTypes: true, recursive: true }).catch(() => [])
  const sizes = await Promise.all(
    entries
      .filter((entry) => entry.isFile())
      .map(async ({ parentPath, name }) => (await stat(join(parentPath, name))).size),
  )
  return sizes.reduce((sum, size) => sum + size, 0)
}

async function duckdbAlone(size: number) {
  const directory = await mkdtemp(join(tmpdir(), 'sluice-bench-'))
  const instance = await DuckDBInstance.create(':memory:', { threads: '1' })
  const connection = await instance.connect()
  const copy = async (count: number) => {
    const since = performance.now()
    await connection.run(
      `copy (select * replace (if(id < ${CHANGED}, 0, amount) as amount) from '${join(directory, 'all.parquet')}' where id < ${count})
       to '${join(directory, 'out.parquet')}' (format parquet)`,
    )
    return performance.now() - since
  }
  await connection.run(
    `copy (${rows('i', String(size))}) to '${join(directory, 'all.parquet')}' (format parquet)`,
  )
  const oneFile: number[] = []
  for (let n = 0; n < RUNS; n += 1) oneFile.push(await copy(FILE_ROWS))
  const totalMs = await copy(size)
  connection.closeSync()
  instance.closeSync()
  await rm(directory, { recursive: true })
  return { oneFileMs: figuresOf(oneFile).p50, totalMs }
}

function print(merges: readonly Measured[]) {
  const columns = merges.map(({ size }) => `${size / 1_000_000} M rows`.padStart(12))
  console.log(`  ${''.padEnd(52)}${columns.join('')}`)
  const line = (name: string, value: (merge: Measured) => string) =>
    console.log(`  ${name.padEnd(52)}${merges.map((merge) => value(merge).padStart(12)).join('')}`)
  const median = ({ clustered }: Measured) => figuresOf(clustered.map(({ ms }) => ms)).p50
  const ms = (value = Number.NaN) => `${value.toFixed(0)} ms`
  const share = (bytes: number, { tableBytes }: Measured) => `${((100 * bytes) / tableBytes).toFixed(2)} %`
  line('table', ({ tableBytes }) => `${(tableBytes / 1e6).toFixed(1)} MB`)
  line('first load', ({ loadMs }) => ms(loadMs))
  line('1,000 keys side by side: POST to success, p50', (merge) => ms(median(merge)))
  line('  bytes written, most of any run', (merge) =>
    share(Math.max(...merge.clustered.map(({ bytes }) => bytes)), merge),
  )
  line('1,000 scattered keys: POST to success', ({ scattered }) => ms(scattered?.ms))
  line('  bytes written', (merge) => share(merge.scattered?.bytes ?? Number.NaN, merge))
  line('DuckDB alone rewrites one file, p50', ({ oneFileMs }) => ms(oneFileMs))
  line('DuckDB alone rewrites the whole table', ({ totalMs }) => ms(totalMs))
  const [small, large] = merges
  if (small && large)
    console.log(`  time side by side, 30 M rows over 1 M rows: ${(median(large) / median(small)).toFixed(2)}`)
}
