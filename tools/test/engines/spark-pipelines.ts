/**
 * Pipelines with `engine: spark` on a real service, compared with the same pipelines in DuckDB. The service has a Sail or a Spark
 * cluster.
 */
import type { Tally } from '../../kit/tally.ts'
import { until } from '../../kit/until.ts'
import { CORPUS, CORPUS_TABLES, corpusQuery } from './spark-corpus.ts'
import { call, makeTable } from './tables.ts'

export interface SparkService {
  url: string
  /** For people: Sail or Spark. */
  engine: string
}

interface EndedRun {
  id: string
  status: string
  error: string | null
  rows_written: number | null
  lines: string[]
}

/** The first run of a cluster loads its classes. */
const RUN_LIMIT_MS = 300_000
const ENDED = ['success', 'failed', 'cancelled']

/** Creates or changes a pipeline and publishes it. */
export async function publish(url: string, name: string, files: Record<string, string>): Promise<void> {
  const pipelines = await call(url, 'GET', `/pipelines?namespace=default&layer=gold&limit=1000`)
  const isNew = !pipelines.pipelines.some((pipeline: { name: string }) => pipeline.name === name)
  if (isNew) await call(url, 'POST', '/pipelines', { namespace: 'default', layer: 'gold', name, type: 'sql' })
  for (const [path, content] of Object.entries(files))
    await call(url, 'PUT', `/files/default/pipelines/gold/${name}/${path}`, { content })
  await call(url, 'POST', `/pipelines/default/gold/${name}/publish`, {})
}

async function start(url: string, pipeline: string): Promise<string> {
  const { run_id: id } = await call(url, 'POST', '/runs', { namespace: 'default', layer: 'gold', pipeline })
  return id
}

export async function ended(url: string, id: string): Promise<EndedRun> {
  const run = await until(
    () => call(url, 'GET', `/runs/${id}`),
    ({ status }) => ENDED.includes(status),
    RUN_LIMIT_MS,
  )
  const { logs } = await call(url, 'GET', `/runs/${id}/logs`)
  return { ...run, id, lines: logs.map(({ message }: { message: string }) => message) }
}

/** Runs a pipeline to its end, whatever it is. */
export const runToEnd = async (url: string, name: string) => ended(url, await start(url, name))

/** Publishes a pipeline and runs it. Throws when the run does not succeed. */
export async function succeed(url: string, name: string, files: Record<string, string>): Promise<EndedRun> {
  await publish(url, name, files)
  const run = await runToEnd(url, name)
  if (run.status !== 'success')
    throw new Error(`${name}: ${run.status}: ${run.error}\n${run.lines.join('\n')}`)
  return run
}

/** The error of a run that must fail, or the refusal of its publication. */
async function failureOf(url: string, name: string, files: Record<string, string>): Promise<string> {
  try {
    await publish(url, name, files)
  } catch (error) {
    return String(error)
  }
  const { status, error } = await runToEnd(url, name)
  return status === 'failed' ? String(error) : `the run ended as ${status}`
}

async function rowsOf(url: string, sql: string): Promise<Record<string, unknown>[]> {
  return (await call(url, 'POST', '/query', { sql, limit: 1_000 })).rows
}

/** Undefined when both tables have equal rows; otherwise the first differences. */
export async function differenceOf(url: string, a: string, b: string, without: readonly string[] = []) {
  const exclude = without.length === 0 ? '' : ` exclude (${without.join(', ')})`
  const [left, right] = [a, b].map((name) => `select *${exclude} from gold.${name}`)
  // Sums of hashes cost far less than a comparison of rows. The union gives both sides the same types.
  const [sums] = await rowsOf(
    url,
    `select count(*) as n, coalesce(sum(sign * hash(*columns(* exclude (sign)))::hugeint), 0)::varchar as difference
     from (select 1 as sign, * from (${left}) union all select -1, * from (${right}))`,
  )
  if (sums?.n === 0) return `gold.${a} and gold.${b} have no rows`
  if (sums?.difference === '0') return undefined
  const rows = await rowsOf(
    url,
    `select 'only ${a}' as side, * from (${left} except all ${right})
     union all select 'only ${b}', * from (${right} except all ${left}) limit 6`,
  )
  return JSON.stringify(rows)
}

interface StrategyCase {
  settings: string
  /** One query for each run, the same in both dialects. */
  batches: readonly string[]
  /** Columns with times of runs. */
  without?: readonly string[]
}

const values = (...rows: string[]) => `select * from (values ${rows.join(', ')}) t(k, part, v)`

const FIRST = values("(1, 'a', 'x')", "(2, 'a', 'y')", "(3, 'b', 'z')", "(null, 'b', 'nothing')")
const SECOND = values("(2, 'a', 'y2')", "(4, 'c', 'w')", "(null, 'b', 'nobody')")
const TWICE = values("(1, 'a', 'x3')", "(5, 'a', 'q')", "(5, 'a', 'r')")
const WIDER = "select k, part, v, k * 2 as extra from (values (9, 'd', 'n'), (2, 'a', 'y4')) t(k, part, v)"

const STRATEGIES: Record<string, StrategyCase> = {
  full_refresh: {
    settings: 'merge_strategy: full_refresh',
    batches: [FIRST, SECOND, WIDER, `${FIRST} where k = 1`],
  },
  append_only: { settings: 'merge_strategy: append_only', batches: [FIRST, TWICE, WIDER] },
  incremental: { settings: 'merge_strategy: incremental\nunique_key: k', batches: [FIRST, SECOND, WIDER] },
  incremental_by_two: {
    settings: 'merge_strategy: incremental\nunique_key: [k, part]',
    batches: [FIRST, SECOND, values("(2, 'z', 'other part')")],
  },
  newest: {
    settings: 'merge_strategy: incremental\nunique_key: k\nwatermark_column: v',
    batches: [FIRST, values("(5, 'b', 'q')", "(5, 'a', 'r')", "(1, 'z', 'a')")],
  },
  delete_insert: {
    settings: 'merge_strategy: delete_insert\nunique_key: k',
    batches: [FIRST, SECOND, TWICE, WIDER],
  },
  snapshot: { settings: 'merge_strategy: snapshot\npartition_column: part', batches: [FIRST, SECOND, TWICE] },
  scd2: {
    settings: 'merge_strategy: scd2\nunique_key: k',
    batches: [FIRST, SECOND, FIRST, WIDER],
    without: ['valid_from', 'valid_to'],
  },
  partitioned: {
    settings:
      'merge_strategy: incremental\nunique_key: k\npartition_by: [{column: part, transform: identity}]',
    batches: [FIRST, SECOND, WIDER],
  },
  own_table: {
    settings: 'merge_strategy: append_only',
    batches: [FIRST, "select coalesce(max(k), 0) + 1 as k, 'n' as part, 'next' as v from {{ this }}"],
  },
  watermark: {
    settings: 'merge_strategy: append_only\nwatermark_column: k',
    batches: [
      FIRST,
      "select k + 1 as k, part, v from (values (3, 'b', 'old'), (7, 'b', 'new')) t(k, part, v) {% if watermark_value %} where k > {{ watermark_value }} {% endif %}",
    ],
  },
}

/** Compares every strategy, step by step. */
export async function judgeStrategies(tally: Tally, { url, engine }: SparkService): Promise<void> {
  tally.heading(`Strategies of ${engine}, compared with DuckDB`)
  for (const [name, { settings, batches, without }] of Object.entries(STRATEGIES))
    await tally.check(`${name}: ${batches.length} runs leave equal rows`, async () => {
      const [duckdb, spark] = [`${name}_duckdb`, `${name}_spark`]
      for (const batch of batches) {
        await succeed(url, duckdb, { 'config.yaml': settings, 'pipeline.sql': batch })
        await succeed(url, spark, { 'config.yaml': `${settings}\nengine: spark`, 'pipeline.sql': batch })
        const found = await differenceOf(url, duckdb, spark, without)
        if (found !== undefined) return `after ${batch}: ${found}`
      }
      return undefined
    })
  await tally.check('scd2: open and closed versions are those of DuckDB', async () => {
    const versions = (table: string) =>
      rowsOf(url, `select k, v, valid_to is null as is_open from gold.${table} order by all`)
    const [a, b] = [
      JSON.stringify(await versions('scd2_duckdb')),
      JSON.stringify(await versions('scd2_spark')),
    ]
    return a === b ? undefined : `${a}\n${b}`
  })
}

const AT_ONCE = 4

/** Compares the results of one hundred queries. */
export async function judgeCorpus(
  tally: Tally,
  { url, engine }: SparkService,
  queries: readonly string[] = CORPUS,
): Promise<void> {
  tally.heading(`Queries in ${engine}, compared with DuckDB`)
  await tally.check('the tables are made', async () => {
    for (const [name, query] of Object.entries(CORPUS_TABLES))
      await makeTable(url, { name, versions: [query] })
    return undefined
  })
  const faults: string[] = []
  const compare = async (query: string, index: number) => {
    const text = corpusQuery(query)
    const [duckdb, spark] = [`q${index}_duckdb`, `q${index}_spark`]
    await succeed(url, duckdb, { 'pipeline.sql': text })
    await succeed(url, spark, { 'pipeline.sql': text, 'config.yaml': 'engine: spark' })
    return differenceOf(url, duckdb, spark)
  }
  await tally.check(`${queries.length} queries have equal results`, async () => {
    for (let from = 0; from < queries.length; from += AT_ONCE)
      await Promise.all(
        queries.slice(from, from + AT_ONCE).map(async (query, n) => {
          const fault = await compare(query, from + n).catch(String)
          if (fault !== undefined) faults.push(`${query}: ${fault}`)
        }),
      )
    return faults.length === 0 ? undefined : `${faults.length} differ:\n${faults.join('\n')}`
  })
}

/** A query that runs until it is cancelled or lost. */
const ENDLESS = 'select sum(a.id * b.id % 7) as n from range(200000) a cross join range(200000) b'

/** Starts a run of `ENDLESS`, and waits for its session. */
export async function startEndless(url: string, name: string): Promise<string> {
  await publish(url, name, { ...SPARK, 'pipeline.sql': ENDLESS })
  const id = await start(url, name)
  await until(
    () => call(url, 'GET', `/runs/${id}/logs`),
    ({ logs }) => logs.some(({ message }: { message: string }) => /^session on/.test(message)),
    RUN_LIMIT_MS,
  )
  return id
}

export const SPARK = { 'config.yaml': 'engine: spark' }

/** Tests, previews, landing zones and errors. */
export async function judgeBehaviour(tally: Tally, { url, engine }: SparkService): Promise<void> {
  tally.heading(`Runs of ${engine}`)
  await tally.check('a failing test of either engine leaves no trace', async () => {
    for (const header of ['', '-- @engine: spark\n']) {
      const name = header === '' ? 'gated_by_duckdb' : 'gated_by_spark'
      const test = `${header}select * from {{ this }} where a = 2 and b`
      const files = {
        ...SPARK,
        'pipeline.sql': 'select 1 as a, true as b union all select 2, true',
        'tests/quality/no-two.sql': test,
      }
      const error = await failureOf(url, name, files)
      if (!error.includes('no-two (1 row: a=2, b=true)')) return error
      const tables = await call(url, 'GET', '/tables?namespace=default&limit=1000')
      if (tables.tables.some((table: { name: string }) => table.name === name)) return `${name} exists`
    }
    return undefined
  })
  await tally.check('a landing zone is read by the S3 endpoint', async () => {
    await call(url, 'POST', '/landing-zones', { namespace: 'default', name: 'events' })
    for (const n of [1, 2]) {
      const form = new FormData()
      form.set('file', new File([`{"a": ${n}, "b": "${n}"}\n`], `f${n}.json`))
      const answer = await fetch(`${url}/api/v1/landing-zones/default/events/files`, {
        method: 'POST',
        body: form,
      })
      if (!answer.ok) return `${answer.status} ${await answer.text()}`
    }
    const query = "select a, b from json.`{{ landing_zone('events') }}`"
    await succeed(url, 'landed', { ...SPARK, 'pipeline.sql': query })
    const rows = JSON.stringify(await rowsOf(url, 'select * from gold.landed order by a'))
    if (rows !== '[{"a":1,"b":"1"},{"a":2,"b":"2"}]') return rows
    const { runs } = await call(url, 'GET', '/runs?namespace=default&pipeline=landed&limit=1')
    const log = JSON.stringify(await call(url, 'GET', `/runs/${runs[0].id}/logs`))
    return log.includes('Spark reads the files of events by its own rules') ? undefined : log
  })
  await tally.check('a preview shows the first rows', async () => {
    await publish(url, 'shown', {
      ...SPARK,
      'pipeline.sql': 'select id, cast(id as decimal(9, 2)) as d from range(50)',
    })
    const preview = await call(url, 'POST', '/pipelines/default/gold/shown/preview', { limit: 2 })
    const rows = JSON.stringify(preview.rows)
    return rows === '[[0,0],[1,1]]' ? undefined : JSON.stringify(preview)
  })
  const refusals: Record<string, [files: Record<string, string>, expected: RegExp]> = {
    'two statements': [
      { 'pipeline.sql': 'select 1 as a; select 2 as a' },
      /one SELECT statement is expected/,
    ],
    'a command': [{ 'pipeline.sql': 'drop table x' }, /pipeline\.sql/],
    'a write': [{ 'pipeline.sql': "insert into {{ ref('gold.facts') }} values (1)" }, /pipeline\.sql/],
    'code of the server': [
      { 'pipeline.sql': "select reflect('java.lang.System', 'getProperty', 'user.home') as a" },
      /calls code of the server/,
    ],
    'a program': [{ 'pipeline.sql': "select transform(1) using 'cat' as (a string)" }, /starts a program/],
    'equal column names': [{ 'pipeline.sql': 'select 1 as a, 2 as A' }, /two columns are named/],
    'an unknown column': [{ 'pipeline.sql': "select nothing from {{ ref('gold.facts') }}" }, /nothing/],
    'a missing table': [
      { 'pipeline.sql': "select * from {{ ref('gold.absent') }}" },
      /table default\.gold\.absent does not exist/,
    ],
    'an interval column': [{ 'pipeline.sql': "select interval '1' day as a" }, /cast the column/],
    'an unknown engine': [
      { 'pipeline.sql': 'select 1 as a', 'config.yaml': 'engine: flink' },
      /engine: must be one of duckdb, spark, auto/,
    ],
  }
  // Sail is on the machine of the service. The files of a cluster are the matter of its operator.
  if (engine === 'Sail') {
    refusals['a list'] = [
      { 'pipeline.sql': 'select array(1) as a' },
      /has a list, which Sail .* cannot write/,
    ]
    refusals['a file of the server'] = [
      { 'pipeline.sql': 'select * from text.`/etc/passwd`' },
      /passwd|[Pp]ermission|not found|No files/,
    ]
  }
  for (const [what, [files, expected]] of Object.entries(refusals))
    await tally.check(`${what} is refused with a clear error`, async () => {
      const name = `refused_${what.replaceAll(' ', '_')}`
      const error = await failureOf(url, name, { ...SPARK, ...files })
      return expected.test(error) ? undefined : error
    })
  await tally.check('a cancelled run ends soon and leaves no trace', async () => {
    const id = await startEndless(url, 'endless')
    const from = performance.now()
    await call(url, 'POST', `/runs/${id}/cancel`)
    const { status } = await ended(url, id)
    const ms = performance.now() - from
    console.log(`         cancelled in ${Math.round(ms)} ms`)
    return status === 'cancelled' && ms < 10_000 ? undefined : `${status} after ${ms} ms`
  })
}
