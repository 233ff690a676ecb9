// Measures POST /query of selective statements on a table of 10,000 files. The peer is DuckDB alone on the same files: with all of
// them, and with only the file that holds the answer.
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import { startService } from '../tools/service/service.ts'
import { clientOf } from './client.ts'
import { figuresOf, printFigures, timed } from './figures.ts'

const FILES = 10_000
const TIMES = 100
const ALL_FILES_TIMES = 3

const STATEMENTS = {
  'one partition': (n: number) =>
    `select count(*) as n, sum(id) as s from $table where p = ${(n * 77) % FILES}`,
  'ten partitions of a list': (n: number) =>
    `select count(*) as n, sum(id) as s from $table where p in (${Array.from({ length: 10 }, (_, i) => (n * 77 + i * 501) % FILES)})`,
  'a range of another column': (n: number) =>
    `select count(*) as n, sum(id) as s from $table where seen >= timestamp '2024-01-01' + to_days(${n * 7}) and seen < timestamp '2024-01-01' + to_days(${n * 7 + 5})`,
}

export async function benchManyFiles() {
  const service = await startService({ LOG_FORMAT: 'text' })
  const client = clientOf(service.url)
  const instance = await DuckDBInstance.create(':memory:', { threads: '1' })
  try {
    await client.create(
      'files',
      `select (i // 10)::integer as p, i as id, 'text ' || i as name, timestamp '2024-01-01' + to_hours((i // 10)::integer * 24 + i % 10) as seen
       from range(${FILES * 10}) t(i)`,
    )
    const config = 'merge_strategy: full_refresh\npartition_by:\n  - {column: p, transform: identity}\n'
    await client.call('PUT', '/files/default/pipelines/gold/files/config.yaml', { content: config })
    await client.runToSuccess('files')
    const connection = await instance.connect()
    const paths = await filesIn(join(service.dataDir, 'objects', '_lake'))
    const all = `read_parquet([${paths.map((path) => `'${path}'`).join(', ')}])`
    const query = (sql: string) => client.call('POST', '/query', { sql: sql.replace('$table', 'gold.files') })
    const [first] = await timed(1, () => query('select count(*) as n from $table where p = 1'))
    console.log(`  ${paths.length} files; the first query takes ${first?.toFixed(0)} ms`)
    for (const [name, sqlOf] of Object.entries(STATEMENTS)) {
      await timed(10, (n) => query(sqlOf(n + TIMES)))
      const http = await timed(TIMES, (n) => query(sqlOf(n)))
      const raw = await timed(ALL_FILES_TIMES, (n) => connection.run(sqlOf(n).replace('$table', all)))
      printFigures(
        { [`POST /query: ${name}`]: figuresOf(http), 'DuckDB alone': figuresOf(raw) },
        'DuckDB alone',
      )
    }
    connection.closeSync()
  } finally {
    instance.closeSync()
    await service.stop()
  }
}

async function filesIn(lake: string): Promise<string[]> {
  const entries = await readdir(lake, { recursive: true, withFileTypes: true })
  return entries
    .filter(({ name }) => name.endsWith('.parquet'))
    .map(({ name, parentPath }) => join(parentPath, name))
}
