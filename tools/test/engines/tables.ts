/** Tables that foreign engines read: all types, each partition transform, and a schema that changed. */
import { until } from '../../kit/until.ts'

export type Engine = 'pyiceberg' | 'duckdb' | 'chdb' | 'sail' | 'spark' | 'trino'

export interface JudgedTable {
  name: string
  /** The content of the table. Every version but the last is a run before it. */
  versions: string[]
  /** Lines of the pipeline before its SQL. */
  settings?: string
  /** Columns that an engine cannot read (docs/engines.md). */
  without?: Partial<Record<Engine, string[]>>
  /** Engines that refuse the whole table (docs/engines.md). */
  refusedBy?: Engine[]
}

type Partition = [column: string, transform: string]

const identity =
  (query: string) =>
  (column: string): [string, Partition[]] => [query, [[column, 'identity']]]

const TIMES = `
  select range as id, date '2024-02-28' + (range % 5)::int as d,
    timestamp '2024-12-31 22:30:00.123456' + to_minutes((range * 37)::int) as ts,
    to_timestamp(1735684200 + (range % 30) * 3600) as tz,
    case when range % 7 = 0 then null else 'part ' || (range % 4) end as s,
    (range % 3)::int as i, (range % 3)::decimal(9, 2) as dec, range % 2 = 0 as b
  from range(200)`

/** More types of identity partitions. Spark refuses a table with a TIME column. */
const OTHERS = `
  select range as id, time '00:00:00.000001' + to_minutes((range % 4 * 300)::int) as clock,
    ('00112233-4455-6677-8899-aabbccddee0' || range % 4)::uuid as uid, ('\\x0' || range % 4)::blob as bin
  from range(50)`
const OTHERS_BUT_TIME = `select * exclude (clock) from (${OTHERS})`

const partitioned = (query: string, partitions: Partition[], index: number): JudgedTable => ({
  name: `p${index}_${partitions.map(([column, transform]) => `${transform}_${column}`).join('_')}`,
  versions: [query],
  settings: `-- @partition_by: [${partitions.map(([column, transform]) => `{column: ${column}, transform: ${transform}}`).join(', ')}]`,
  ...(query === OTHERS && { refusedBy: ['spark'], without: { chdb: ['clock'], sail: ['clock'] } }),
  ...(partitions[0]?.[0] === 'uid' && { refusedBy: ['chdb'] }),
})

const PARTITIONINGS: [query: string, partitions: Partition[]][] = [
  ...['d', 'ts', 'tz', 's', 'i', 'dec', 'b', 'id'].map(identity(TIMES)),
  ...['d', 'ts', 'tz'].flatMap((column) =>
    ['year', 'month', 'day'].map((transform): [string, Partition[]] => [TIMES, [[column, transform]]]),
  ),
  [TIMES, [['ts', 'hour']]],
  [TIMES, [['tz', 'hour']]],
  [OTHERS, [['clock', 'identity']]],
  ...['uid', 'bin'].map(identity(OTHERS_BUT_TIME)),
  [
    TIMES,
    [
      ['d', 'month'],
      ['s', 'identity'],
    ],
  ],
  [
    TIMES,
    [
      ['ts', 'day'],
      ['tz', 'hour'],
      ['b', 'identity'],
    ],
  ],
  [
    TIMES,
    [
      ['dec', 'identity'],
      ['i', 'identity'],
      ['id', 'identity'],
    ],
  ],
]

const ALL_TYPES = `
  select * from (values
    (1, true, 2147483647, 9223372036854775807, 1.5::float, 1e300, 12345678901234567890.123456789::decimal(38, 9),
      date '1969-12-31', time '23:59:59.999999', timestamp '1969-12-31 23:59:59.999999',
      timestamptz '2024-07-01 12:00:00+02', 'ü "quoted"', '\\x00\\xff'::blob, uuid '00112233-4455-6677-8899-aabbccddeeff',
      [1, null, 3], {a: 1, b: 'x'}, map {'k': 1}),
    (2, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null),
    (3, false, -2147483648, -9223372036854775808, 'nan'::float, '-inf'::double, -0.000000001, date '9999-12-31',
      time '00:00:00', timestamp '2262-01-01 00:00:00', timestamptz '1900-01-01 00:00:00+00', '', ''::blob,
      uuid 'ffffffff-ffff-ffff-ffff-ffffffffffff', [], {a: null, b: null}, map {})
  ) t(id, boolean, int32, int64, float32, float64, number, day, clock, moment, instant, words, bytes, uid, list, struct, entries)`

export const TABLES: JudgedTable[] = [
  {
    name: 'all_types',
    versions: [ALL_TYPES],
    without: { chdb: ['clock', 'list', 'struct', 'entries'], sail: ['clock'] },
    refusedBy: ['spark'],
  },
  {
    name: 'all_but_time',
    versions: [`select * exclude (clock) from (${ALL_TYPES})`],
    without: { chdb: ['list', 'struct', 'entries'] },
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
  ...PARTITIONINGS.map(([query, partitions], index) => partitioned(query, partitions, index)),
]

export const readableBy = (engine: Engine) => TABLES.filter(({ refusedBy }) => !refusedBy?.includes(engine))

/** Creates the pipeline of the table and runs each of its versions. */
export async function makeTable(url: string, { name, versions, settings = '' }: JudgedTable): Promise<void> {
  await call(url, 'POST', '/pipelines', { namespace: 'default', layer: 'gold', name, type: 'sql' })
  for (const version of versions) await runWith(url, name, `${settings}\n${version}`)
}

/** Publishes this content of the pipeline and waits until its run has succeeded. */
export async function runWith(
  url: string,
  name: string,
  content: string,
  headers: Record<string, string> = {},
): Promise<void> {
  const send = (method: string, path: string, body?: object) => call(url, method, path, body, headers)
  await send('PUT', `/files/default/pipelines/gold/${name}/pipeline.sql`, { content })
  await send('POST', `/pipelines/default/gold/${name}/publish`, {})
  const { run_id: id } = await send('POST', '/runs', { namespace: 'default', layer: 'gold', pipeline: name })
  const ended = await until(
    () => send('GET', `/runs/${id}`),
    ({ status }) => ['success', 'failed', 'cancelled'].includes(status),
  )
  if (ended.status !== 'success')
    throw new Error(`the run of ${name} ended as ${ended.status}: ${ended.error}`)
}

/** The answer of one call of the API. Throws for every status but 2xx. */
export async function call(
  url: string,
  method: string,
  path: string,
  body?: object,
  headers: Record<string, string> = {},
) {
  const answer = await fetch(`${url}/api/v1${path}`, {
    method,
    headers: { 'content-type': 'application/json', ...headers },
    ...(body && { body: JSON.stringify(body) }),
  })
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`)
  return answer.status === 204 ? undefined : answer.json()
}
