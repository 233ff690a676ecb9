// Measures warm previews of a pipeline that reads a landing zone with one sample of 10 MB, as CSV, Parquet and JSON. The
// figures are the duration of the whole call and of its query. The limit is DuckDB alone, warm and in this process. It reads
// the same file to its end on one thread, like an engine of the service.
import { mkdtemp, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api'
import { startService } from '../tools/service/service.ts'
import { clientOf } from './client.ts'
import { type Figures, figuresOf, printFigures, timed } from './figures.ts'

const WARM_UP = 4
const RUNS = 25
/** Rows that make 10 MB in each format, and the DuckDB function that reads the format. */
const FORMATS = {
  csv: { rows: 170_000, reader: 'read_csv_auto' },
  parquet: { rows: 620_000, reader: 'read_parquet' },
  json: { rows: 95_000, reader: 'read_json_auto' },
} as const
type Format = keyof typeof FORMATS

export async function benchPreview() {
  const directory = await mkdtemp(join(tmpdir(), 'sluice-bench-'))
  const instance = await DuckDBInstance.create(':memory:', { threads: '1' })
  const connection = await instance.connect()
  const service = await startService({ LOG_FORMAT: 'text' })
  try {
    for (const format of ['csv', 'parquet', 'json'] satisfies Format[]) {
      const path = join(directory, `sample.${format}`)
      await writeSample(connection, path, format)
      const preview = await makePreview(service.url, format, path)
      await timed(WARM_UP, preview)
      const query: number[] = []
      const previews = await timed(RUNS, async () => query.push(await preview()))
      const alone = await timed(RUNS, () => readWhole(connection, path, format))
      const size = `${((await stat(path)).size / 1e6).toFixed(1)} MB of ${format}`
      const limit = `DuckDB alone: ${size}`
      const rows: Record<string, Figures> = {
        [`preview: ${size}`]: figuresOf(previews),
        'of it the query (sql_execute)': figuresOf(query),
        [limit]: figuresOf(alone),
      }
      printFigures(rows, limit)
    }
  } finally {
    connection.closeSync()
    instance.closeSync()
    await service.stop()
    await rm(directory, { recursive: true })
  }
}

async function writeSample(connection: DuckDBConnection, path: string, format: Format) {
  await connection.run(
    `copy (select i as id, 'customer ' || (i * 31) % 5000 as customer, date '2024-01-01' + cast(i % 365 as integer) as day,
                  round(hash(i) % 100000 / 100.0, 2) as amount, 'some text here ' || i as note
           from range(${FORMATS[format].rows}) t(i)) to '${path}' (format ${format})`,
  )
}

async function readWhole(connection: DuckDBConnection, path: string, format: Format) {
  const result = await connection.stream(`select * from ${FORMATS[format].reader}('${path}')`)
  for (let chunk = await result.fetchChunk(); chunk !== null && chunk.rowCount > 0; )
    chunk = await result.fetchChunk()
}

/**
 * Creates the landing zone and the pipeline. The returned function runs a preview and resolves with the duration of its query
 * in milliseconds.
 */
async function makePreview(url: string, format: Format, path: string): Promise<() => Promise<number>> {
  const { call } = clientOf(url)
  const name = `sample-${format}`
  await call('POST', '/landing-zones', { namespace: 'default', name })
  const form = new FormData()
  form.append('file', new File([await readFile(path)], `sample.${format}`))
  await call('POST', `/landing-zones/default/${name}/samples`, form)
  await call('POST', '/pipelines', { namespace: 'default', layer: 'silver', name })
  await call('PUT', `/files/default/pipelines/silver/${name}/pipeline.sql`, {
    content: `select * from ${FORMATS[format].reader}('{{ landing_zone("${name}") }}')`,
  })
  return async () => {
    const { total_row_count, phases } = await call<{
      total_row_count: number
      phases: { name: string; duration_ms: number }[]
    }>('POST', `/pipelines/default/silver/${name}/preview`, {})
    if (total_row_count !== FORMATS[format].rows)
      throw new Error(`the preview counted ${total_row_count} rows`)
    return phases.find((phase) => phase.name === 'sql_execute')?.duration_ms ?? Number.NaN
  }
}
