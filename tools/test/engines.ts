/**
 * Foreign engines read tables of a real service through `/iceberg` and `/s3`. Each row must equal the row that another DuckDB
 * computes with the pipeline's query.
 */
import { join } from 'node:path'
import { pythonWith } from './python.ts'
import { run } from './run.ts'
import { startService } from './service.ts'
import type { Tally } from './tally.ts'
import { until } from './until.ts'

const SCRIPT = join(import.meta.dirname, 'engines', 'readers.py')
const PACKAGES = [
  'pyiceberg[pyarrow]==0.12.0',
  'duckdb==1.5.5',
  'duckdb-extension-httpfs==1.5.5',
  'duckdb-extension-avro==1.5.5',
  'duckdb-extension-iceberg==1.5.5',
  'chdb==4.4.0',
  'pysail==0.7.2',
  'pyspark-client==4.0.4',
]
const ENGINES = ['pyiceberg', 'duckdb', 'chdb', 'sail'] as const
type Engine = (typeof ENGINES)[number]
const STEP_LIMIT_MS = 3 * 60_000

interface JudgedTable {
  name: string
  /** The content of the table. Every version but the last is a run before it. */
  versions: string[]
  /** Lines of the pipeline before its SQL. */
  settings?: string
  /** Columns that an engine cannot read (docs/engines.md). */
  without?: Partial<Record<Engine, string[]>>
}

const TIMES = `
  select range as id, date '2024-02-28' + (range % 5)::int as d,
    timestamp '2024-12-31 22:30:00.123456' + to_minutes((range * 37)::int) as ts,
    to_timestamp(1735684200 + (range % 30) * 3600) as tz,
    case when range % 7 = 0 then null else 'part ' || (range % 4) end as s,
    (range % 3)::int as i, (range % 3)::decimal(9, 2) as dec, range % 2 = 0 as b
  from range(200)`

const partitioned = (column: string, transform: string, index: number): JudgedTable => ({
  name: `p${index}_${transform}_${column}`,
  versions: [TIMES],
  settings: `-- @partition_by: [{column: ${column}, transform: ${transform}}]`,
})

const TRANSFORMS: [column: string, transform: string][] = [
  ...['d', 'ts', 'tz', 's', 'i', 'dec', 'b', 'id'].map((column): [string, string] => [column, 'identity']),
  ...['d', 'ts', 'tz'].flatMap((column) =>
    ['year', 'month', 'day'].map((transform): [string, string] => [column, transform]),
  ),
  ['ts', 'hour'],
  ['tz', 'hour'],
]

const TABLES: JudgedTable[] = [
  {
    name: 'all_types',
    versions: [
      `select * from (values
        (1, true, 2147483647, 9223372036854775807, 1.5::float, 1e300, 12345678901234567890.123456789::decimal(38, 9),
          date '1969-12-31', time '23:59:59.999999', timestamp '1969-12-31 23:59:59.999999',
          timestamptz '2024-07-01 12:00:00+02', 'ü "quoted"', '\\x00\\xff'::blob, uuid '00112233-4455-6677-8899-aabbccddeeff',
          [1, null, 3], {a: 1, b: 'x'}, map {'k': 1}),
        (2, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null),
        (3, false, -2147483648, -9223372036854775808, 'nan'::float, '-inf'::double, -0.000000001, date '9999-12-31',
          time '00:00:00', timestamp '2262-01-01 00:00:00', timestamptz '1900-01-01 00:00:00+00', '', ''::blob,
          uuid 'ffffffff-ffff-ffff-ffff-ffffffffffff', [], {a: null, b: null}, map {})
      ) t(id, boolean, int32, int64, float32, float64, number, day, clock, moment, instant, words, bytes, uid, list, struct, entries)`,
    ],
    without: { chdb: ['clock', 'list', 'struct', 'entries'], sail: ['clock'] },
  },
  {
    name: 'evolved',
    versions: [
      'select range::int as id, range::int as n from range(10)',
      "select range::int as id, range * 10000000000 as n, 'new' as added from range(20)",
      "select range::int as id, 'only' as added, {x: range} as s from range(5)",
    ],
    without: { chdb: ['s'] },
  },
  ...TRANSFORMS.map(([column, transform], index) => partitioned(column, transform, index)),
]

/** Installs the engines, makes the tables, and lets each engine read all of them. */
export async function judgeByEngines(tally: Tally): Promise<void> {
  tally.heading('Tables read by other engines')
  let python: string | undefined
  let service: Awaited<ReturnType<typeof startService>> | undefined
  await tally.check('PyIceberg, DuckDB, chDB and Sail are installed', async () => {
    python = await pythonWith(PACKAGES)
    return undefined
  })
  await tally.check('the service starts, and its runs make the tables', async () => {
    service = await startService()
    for (const table of TABLES) await makeTable(service.url, table)
    return undefined
  })
  if (service === undefined) return
  const { url, stop } = service
  if (python !== undefined)
    for (const engine of ENGINES) {
      const groups = engine === 'sail' ? TABLES.map((table) => [table]) : [TABLES]
      for (const group of groups)
        await tally.check(`${engine} reads the rows of ${namesOf(group)}`, () =>
          judge(python ?? '', engine, url, group),
        )
    }
  await tally.check('the service stops', stop)
}

const namesOf = (tables: JudgedTable[]) => (tables.length === 1 ? tables[0]?.name : `${tables.length} tables`)

/** The differences; undefined: none. */
async function judge(python: string, engine: Engine, url: string, tables: JudgedTable[]) {
  const task = {
    url,
    tables: tables.map(({ name, versions, without }) => ({ name, query: versions.at(-1), without })),
  }
  const { code, output } = await run({
    command: [python, SCRIPT, engine, JSON.stringify(task)],
    limitMs: STEP_LIMIT_MS,
  })
  return code === 0 ? undefined : output
}

async function makeTable(url: string, { name, versions, settings = '' }: JudgedTable): Promise<void> {
  const at = `default/gold/${name}`
  const call = async (method: string, path: string, body: object) => {
    const answer = await fetch(`${url}/api/v1${path}`, {
      method,
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`)
    return answer.json()
  }
  await call('POST', '/pipelines', { namespace: 'default', layer: 'gold', name, type: 'sql' })
  for (const version of versions) {
    const content = `${settings}\n${version}`
    await call('PUT', `/files/default/pipelines/gold/${name}/pipeline.sql`, { content })
    await call('POST', `/pipelines/${at}/publish`, {})
    const { run_id: id } = await call('POST', '/runs', {
      namespace: 'default',
      layer: 'gold',
      pipeline: name,
    })
    const ended = await until(
      async () => (await fetch(`${url}/api/v1/runs/${id}`)).json(),
      ({ status }) => ['success', 'failed', 'cancelled'].includes(status),
    )
    if (ended.status !== 'success')
      throw new Error(`the run of ${name} ended as ${ended.status}: ${ended.error}`)
  }
}
