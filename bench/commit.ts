// Measures appends of one small data file to tables of 1, 1,000 and 10,000 data files. A run appends to main, from the request to
// success: so each table grows by one file with each run. An engine appends through Iceberg REST to a branch of its own, so these
// tables have exactly that many files. The limit is the same number of bytes in files that are synchronized to the disk, and a
// transaction that stores the size of each.
import { mkdtemp, open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { openDatabase, type Sql } from '../drizzle/client.ts'
import { startService } from '../tools/service/service.ts'
import { type Client, clientOf, databaseUrlOf } from './client.ts'
import { figuresOf, printFigures, timed } from './figures.ts'
import { type Append, appendByRest } from './iceberg-append.ts'

const SIZES = [1, 1_000, 10_000]
const WARM_UP = 5
/** Manifests are merged after 100 small ones, so no measured append includes that. */
const TIMES = 30

const CONFIG = 'partition_by:\n  - {column: p, transform: identity}\n'

export async function benchCommit() {
  const service = await startService({ LOG_FORMAT: 'text' })
  const client = clientOf(service.url)
  const database = openDatabase(databaseUrlOf(service.dataDir), {
    connections: 1,
    rawConnections: 1,
    application: 'bench',
  })
  const directory = await mkdtemp(join(service.dataDir, 'bench-'))
  try {
    const { sql } = database
    await sql`create table public.bench_limit (size integer not null)`
    const tables = SIZES.map((files) => ({ files, ...EMPTY() }))
    for (const { files } of tables) await create(client, files)
    // The sizes alternate, so that other load on the machine affects all equally.
    for (let n = 0; n < WARM_UP + TIMES; n++)
      for (const table of tables) {
        const branch = `append-${table.files}-${n}`
        await client.call('POST', '/branches', { name: branch })
        const append = await appendByRest(service.url, branch, nameOf(table.files))
        const [bare = Number.NaN] = await timed(1, () => writeBare(directory, sql, append.sizes))
        if (n < WARM_UP) continue
        table.appends.push(append)
        table.bare.push(bare)
      }
    for (const { files } of tables) await appendFromNowOn(client, files)
    for (let n = 0; n < WARM_UP + TIMES; n++)
      for (const table of tables) {
        const [ms = Number.NaN] = await timed(1, () => client.runToSuccess(nameOf(table.files)))
        if (n >= WARM_UP) table.runs.push(ms)
      }
    print(tables)
  } finally {
    await database.close()
    await rm(directory, { recursive: true })
    await service.stop()
  }
}

interface Measured {
  files: number
  /** Milliseconds. */
  runs: number[]
  appends: Append[]
  /** Milliseconds. */
  bare: number[]
}

const EMPTY = (): Omit<Measured, 'files'> => ({ runs: [], appends: [], bare: [] })

const nameOf = (files: number) => `files-${files}`

/** Creates a table with this number of files: 10 rows in each, and each in a partition of its own. */
async function create(client: Client, files: number) {
  await client.create(
    nameOf(files),
    `select (i // 10)::integer as p, i as id, 'text ' || i as name, timestamp '2024-01-01' + to_hours(i::integer) as seen
     from range(${files * 10}) t(i)`,
  )
  await configure(client, files, `merge_strategy: full_refresh\n${CONFIG}`)
  await client.runToSuccess(nameOf(files))
}

/** Each later run appends one row in a partition of its own, so no file is combined with it. */
async function appendFromNowOn(client: Client, files: number) {
  await configure(client, files, `merge_strategy: append_only\n${CONFIG}`)
  const sql = `select (1000000 + epoch_ms(current_timestamp) % 2000000000)::integer as p, 1::bigint as id, 'text' as name, timestamp '2024-01-01' as seen`
  await client.call('PUT', `/files/default/pipelines/gold/${nameOf(files)}/pipeline.sql`, { content: sql })
}

const configure = (client: Client, files: number, content: string) =>
  client.call('PUT', `/files/default/pipelines/gold/${nameOf(files)}/config.yaml`, { content })

/** Stores files of these sizes and a row for each, durably. */
async function writeBare(directory: string, sql: Sql, sizes: readonly number[]) {
  for (const [n, size] of sizes.entries()) {
    const path = join(directory, String(n))
    const file = await open(path, 'w')
    await file.write(new Uint8Array(size))
    await file.sync()
    await file.close()
  }
  await sql`insert into public.bench_limit select unnest(${[...sizes]}::integer[])`
}

function print(tables: readonly Measured[]) {
  const ways: Record<string, (table: Measured) => number[]> = {
    'append of a run, to success': ({ runs }) => runs,
    'append by Iceberg REST': ({ appends }) => appends.map(({ ms }) => ms),
    'only the request that commits': ({ appends }) => appends.map(({ requestMs }) => requestMs),
    'bare files and rows': ({ bare }) => bare,
  }
  for (const [way, samplesOf] of Object.entries(ways)) {
    console.log(`\n  ${way}`)
    const rows = tables.map((table) => [labelOf(table.files), figuresOf(samplesOf(table))])
    printFigures(Object.fromEntries(rows), '1 file')
  }
  for (const { files, appends } of tables) {
    const [data, manifest, list, metadata] = appends.at(-1)?.sizes ?? []
    console.log(
      `  ${labelOf(files)}: ${data} bytes of data, ${manifest} manifest, ${list} manifest list, ${metadata} metadata`,
    )
  }
}

const labelOf = (files: number) => (files === 1 ? '1 file' : `${files} files`)
