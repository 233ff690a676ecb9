// Measures real runs of `select 1 as a` with one quality test: branch, SQL, test, merge. First, runs execute one at a time on
// an idle service, and the duration of each step is printed. Then many pipelines run at once, and each requests its next run as
// soon as its previous run has ended. Two limits are measured as well: DuckDB alone with the same SQL, written to Parquet and
// tested, and durable commits of the same Postgres.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import { openDatabase, type Sql } from '../drizzle/client.ts'
import { startService } from '../tools/service/service.ts'
import { type Client, clientOf, databaseUrlOf } from './client.ts'
import { figuresOf, printFigures, timed } from './figures.ts'
import { listenToRuns } from './news.ts'

const WARM_UP = 20
const SAMPLES = 150
/** Runs one after the other. The performance aim concerns the slowest of these. */
const RUNS = 1_000
const SLOWEST = 5
const PIPELINES = 16
const WARM_UP_MS = 5_000
const MEASURE_MS = 10_000
const SQL = 'select 1 as a'

export async function benchRunLatency() {
  const service = await startService({ LOG_FORMAT: 'text' })
  const database = openDatabase(databaseUrlOf(service.dataDir), {
    connections: 1,
    rawConnections: 4,
    application: 'bench',
  })
  try {
    const client = clientOf(service.url)
    const names = Array.from({ length: PIPELINES }, (_, n) => `one-${n}`)
    for (const name of names) await publish(client, name)

    const alone = await oneByOne(client, names[0] ?? '')
    const many = await manyAtOnce(client, names, database.sql)
    await timed(WARM_UP, duckdbAlone)
    const duckdb = await timed(SAMPLES, duckdbAlone)
    const commits = await commitsOf(database.sql)

    printFigures(
      {
        'POST to success': figuresOf(alone.toSuccess),
        'POST to running': figuresOf(alone.toRunning),
        'POST to the first log line (event stream)': figuresOf(alone.toLogged),
        [`${PIPELINES} pipelines at once: POST to success`]: figuresOf(many.toSuccess),
        'DuckDB alone: open, SQL to Parquet, test': figuresOf(duckdb),
        'Postgres: one durable commit': figuresOf(commits),
      },
      'Postgres: one durable commit',
    )
    printSteps(alone.steps)
    printSlowest(alone.runs)
    console.log(
      `  ${many.perSecond.toFixed(1)} runs/s of ${PIPELINES} pipelines at once; DuckDB alone, one after the other: ${(1_000 / figuresOf(duckdb).p50).toFixed(1)}/s`,
    )
  } finally {
    await database.close()
    await service.stop()
  }
}

/** Milliseconds from the request to each step, by the step's name. Sources are log lines and the times of the run. */
type Steps = Map<string, number[]>

/** The nth run, its duration from POST to success, and the milliseconds from the request to each of its steps. */
interface TimedRun {
  n: number
  ms: number
  steps: [step: string, afterMs: number][]
}

async function oneByOne(client: Client, name: string) {
  const toRunning: number[] = []
  const toLogged: number[] = []
  const steps: Steps = new Map()
  const ids: string[] = []
  const runs: TimedRun[] = []
  await timed(WARM_UP, () => client.runToSuccess(name))
  const toSuccess = await timed(RUNS, async () => {
    const { id, loggedMs } = await client.runToSuccess(name)
    ids.push(id)
    toLogged.push(loggedMs)
  })
  for (const [n, id] of ids.entries()) {
    const run = await client.call<RunTimes>('GET', `/runs/${id}`)
    const since = (at: string) => Date.parse(at) - Date.parse(run.created_at)
    toRunning.push(since(run.started_at))
    const own: TimedRun = { n, ms: toSuccess[n] ?? Number.NaN, steps: [] }
    runs.push(own)
    const add = (step: string, at: string) => {
      steps.set(step, [...(steps.get(step) ?? []), since(at)])
      own.steps.push([step, since(at)])
    }
    add('running', run.started_at)
    const { logs } = await client.call<{ logs: LogLine[] }>('GET', `/runs/${id}/logs`)
    for (const { timestamp, message } of logs) add(stepOf(message), timestamp)
    add('success is stored', run.finished_at)
  }
  return { toSuccess, toRunning, toLogged, steps, runs }
}

const STEPS: readonly (readonly [RegExp, string])[] = [
  [/^attempt \d+: /, 'the attempt is made'],
  [/^rendered /, 'files and tables are there, SQL is rendered'],
  [/ of Parquet in /, 'SQL is executed, Parquet is written'],
  [/^committed /, 'committed to the branch'],
  [/ passed, \d+ failed/, 'tested'],
  [/^attempt \d+ done/, 'the attempt is done'],
  [/^success /, 'merged'],
]
const stepOf = (message: string) => STEPS.find(([pattern]) => pattern.test(message))?.[1] ?? 'other lines'

/**
 * Each pipeline requests its next run when the previous run has ended. Postgres notifies about the end, which costs the service
 * least.
 */
/** Each pipeline requests its next run when its last one has ended, for the time of the measurement. */
export async function manyAtOnce(client: Client, names: readonly string[], sql: Sql) {
  const news = await listenToRuns(sql)
  const from = performance.now() + WARM_UP_MS
  const until = from + MEASURE_MS
  const toSuccess: number[] = []
  const ids: string[] = []
  const caller = async (name: string) => {
    while (performance.now() < until) {
      const since = performance.now()
      const id = await client.requestRun(name)
      const { endedAt } = await news.of(id)
      if (endedAt < from || endedAt > until) continue
      ids.push(id)
      toSuccess.push(endedAt - since)
    }
  }
  await Promise.all(names.map(caller))
  const [{ failed } = { failed: 0 }] = await sql<{ failed: number }[]>`
    select count(*)::int as failed from run where id = any(${ids}) and status <> 'success'`
  if (failed > 0) throw new Error(`${failed} runs did not succeed`)
  return { toSuccess, perSecond: (1_000 * ids.length) / MEASURE_MS }
}

function printSteps(steps: Steps) {
  console.log(
    `\n  ${'one run, step by step'.padEnd(44)}${'after'.padStart(9)} ${'takes'.padStart(9)}  (means, ms)`,
  )
  let last = 0
  const means = Array.from(
    steps,
    ([name, times]) => [name, times.reduce((sum, ms) => sum + ms, 0) / times.length] as const,
  )
  for (const [name, mean] of means.filter(([name]) => name !== 'other lines').sort(([, a], [, b]) => a - b)) {
    console.log(`  ${name.padEnd(44)}${mean.toFixed(1).padStart(9)} ${(mean - last).toFixed(1).padStart(9)}`)
    last = mean
  }
}

/** Prints the slowest runs, each with the steps that took at least 5 ms. */
function printSlowest(runs: readonly TimedRun[]) {
  console.log(`\n  the slowest of ${runs.length} runs`)
  for (const { n, ms, steps } of runs.toSorted((a, b) => b.ms - a.ms).slice(0, SLOWEST)) {
    const inOrder = steps.toSorted(([, a], [, b]) => a - b)
    const durations = inOrder.map(([step, at], i) => [step, at - (inOrder[i - 1]?.[1] ?? 0)] as const)
    const texts = durations.filter(([, took]) => took >= 5).map(([step, took]) => `${step} ${took}`)
    console.log(`  run ${n}: ${ms.toFixed(0)} ms (${texts.join(', ')})`)
  }
}

type RunTimes = Record<'created_at' | 'started_at' | 'finished_at', string>
type LogLine = Record<'timestamp' | 'message', string>

/** Creates and publishes a pipeline with one quality test. */
/** Publishes a pipeline with one quality test. */
export async function publish({ call, create }: Client, name: string) {
  const path = `/pipelines/default/gold/${name}`
  await create(name, SQL)
  const test = { name: 'one-row', severity: 'error', sql: 'select count(*) - 1 from {{ this }}' }
  await call('POST', `${path}/tests`, test)
  await call('POST', `${path}/publish`)
}

async function commitsOf(sql: Sql): Promise<number[]> {
  await sql`create table if not exists bench_commit (at timestamptz)`
  const samples = await timed(SAMPLES, () => sql`insert into bench_commit values (clock_timestamp())`)
  await sql`drop table bench_commit`
  return samples
}

/** Does only the engine's part of a run: no locks, no sandbox, no durability and no merge. */
async function duckdbAlone() {
  const directory = await mkdtemp(join(tmpdir(), 'sluice-bench-'))
  const instance = await DuckDBInstance.create(':memory:', { threads: '1' })
  const connection = await instance.connect()
  const file = join(directory, 'a.parquet')
  await connection.run(`copy (${SQL}) to '${file}' (format parquet, compression zstd)`)
  await connection.runAndReadAll(`select count(*) - 1 from '${file}'`)
  connection.closeSync()
  instance.closeSync()
  await rm(directory, { recursive: true })
}
