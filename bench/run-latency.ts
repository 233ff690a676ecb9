// Real runs of `select 1 as a` with one quality test: branch, SQL, test, merge. One at a time on an idle service, with where
// the time and the processors go; then many pipelines at once, each asking for its next run as soon as one has ended.
// Limits measured beside it: DuckDB alone with the same SQL, written to Parquet and judged, and durable commits of the same
// Postgres.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import { openDatabase, type Sql } from '../drizzle/client.ts'
import { readRegistry } from '../sidecars/supervisor/registry.ts'
import { startService } from '../tools/test/service.ts'
import { figuresOf, printFigures, timed } from './figures.ts'
import { listenToRuns } from './news.ts'
import { cpuBetween, type PartsCpu, partsCpu } from './parts.ts'

const WARM_UP = 20
const RUNS = 150
const PIPELINES = 16
const WARM_UP_MS = 5_000
const MEASURE_MS = 10_000
const SQL = 'select 1 as a'

export async function benchRunLatency() {
  const service = await startService({ LOG_FORMAT: 'text' })
  const database = openDatabase(readRegistry(service.dataDir)?.database_url ?? '', {
    connections: 1,
    rawConnections: 4,
    application: 'bench',
  })
  try {
    const client = makeClient(service.url)
    const names = Array.from({ length: PIPELINES }, (_, n) => `one-${n}`)
    for (const name of names) await client.publish(name)
    const cpu = () => partsCpu(service.dataDir)

    const alone = await oneByOne(client, names[0] ?? '', cpu)
    const many = await manyAtOnce(client, names, database.sql, cpu)
    await timed(WARM_UP, duckdbAlone)
    const ownBefore = process.cpuUsage()
    const duckdb = await timed(RUNS, duckdbAlone)
    const own = process.cpuUsage(ownBefore)
    const duckdbCpu = (own.user + own.system) / 1_000 / RUNS
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
    printCpu({ 'one at a time': alone.cpu, [`${PIPELINES} at once`]: many.cpu }, duckdbCpu)
    console.log(
      `  ${many.perSecond.toFixed(1)} runs/s of ${PIPELINES} pipelines at once; DuckDB alone, one after the other: ${(1_000 / figuresOf(duckdb).p50).toFixed(1)}/s`,
    )
  } finally {
    await database.close()
    await service.stop()
  }
}

type Client = ReturnType<typeof makeClient>

/** How far each step is from the request, by name: what was logged, and the run's own times, in milliseconds. */
type Steps = Map<string, number[]>

async function oneByOne(client: Client, name: string, cpu: () => PartsCpu) {
  const toRunning: number[] = []
  const toLogged: number[] = []
  const steps: Steps = new Map()
  const ids: string[] = []
  await timed(WARM_UP, () => client.runAndFollow(name))
  const before = cpu()
  const toSuccess = await timed(RUNS, async () => {
    const { id, loggedMs } = await client.runAndFollow(name)
    ids.push(id)
    toLogged.push(loggedMs)
  })
  const spent = cpuBetween(before, cpu())
  for (const id of ids) {
    const run = await client.run(id)
    const since = (at: string) => Date.parse(at) - Date.parse(run.created_at)
    toRunning.push(since(run.started_at))
    const add = (step: string, at: string) => steps.set(step, [...(steps.get(step) ?? []), since(at)])
    add('running', run.started_at)
    for (const { timestamp, message } of await client.logs(id)) add(stepOf(message), timestamp)
    add('success is stored', run.finished_at)
  }
  return { toSuccess, toRunning, toLogged, steps, cpu: perRun(spent, RUNS) }
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

/** Each pipeline asks for its next run when one has ended; how it ended is heard of Postgres, which costs the service least. */
async function manyAtOnce(client: Client, names: readonly string[], sql: Sql, cpu: () => PartsCpu) {
  const news = await listenToRuns(sql)
  const start = performance.now()
  const from = start + WARM_UP_MS
  const until = from + MEASURE_MS
  const toSuccess: number[] = []
  const ids: string[] = []
  let before: PartsCpu = {}
  const warm = setTimeout(() => {
    before = cpu()
  }, WARM_UP_MS)
  const caller = async (name: string) => {
    while (performance.now() < until) {
      const since = performance.now()
      const id = await client.request(name)
      const { endedAt } = await news.of(id)
      if (endedAt < from || endedAt > until) continue
      ids.push(id)
      toSuccess.push(endedAt - since)
    }
  }
  const ended = Promise.all(names.map(caller))
  await Promise.race([ended, new Promise((resolve) => setTimeout(resolve, until - start))])
  const spent = cpuBetween(before, cpu())
  await ended
  clearTimeout(warm)
  const [{ failed } = { failed: 0 }] = await sql<{ failed: number }[]>`
    select count(*)::int as failed from run where id = any(${ids}) and status <> 'success'`
  if (failed > 0) throw new Error(`${failed} runs did not succeed`)
  return { toSuccess, perSecond: (1_000 * ids.length) / MEASURE_MS, cpu: perRun(spent, ids.length) }
}

const perRun = (cpu: PartsCpu, runs: number): PartsCpu =>
  Object.fromEntries(Object.entries(cpu).map(([part, ms]) => [part, ms / runs]))

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

function printCpu(modes: Record<string, PartsCpu>, duckdbMs: number) {
  const names = Object.keys(modes)
  console.log(`\n  ${'CPU of a run, ms'.padEnd(44)}${names.map((name) => name.padStart(15)).join('')}`)
  const parts = [...new Set(Object.values(modes).flatMap((cpu) => Object.keys(cpu)))].sort()
  const line = (name: string, valueIn: (cpu: PartsCpu) => number) =>
    console.log(
      `  ${name.padEnd(44)}${Object.values(modes)
        .map((cpu) => valueIn(cpu).toFixed(1).padStart(15))
        .join('')}`,
    )
  for (const part of parts) line(part, (cpu) => cpu[part] ?? 0)
  line('all', (cpu) => Object.values(cpu).reduce((sum, ms) => sum + ms, 0))
  line('DuckDB alone', () => duckdbMs)
}

function makeClient(url: string) {
  async function call<Answer>(method: string, path: string, body?: object): Promise<Answer> {
    const response = await fetch(`${url}/api/v1${path}`, {
      method,
      headers: body === undefined ? {} : { 'content-type': 'application/json' },
      body: body === undefined ? undefined : JSON.stringify(body),
    })
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`)
    return response.json()
  }
  const request = async (pipeline: string) => {
    const body = { namespace: 'default', layer: 'gold', pipeline }
    return (await call<{ run_id: string }>('POST', '/runs', body)).run_id
  }
  return {
    request,
    run: (id: string) =>
      call<{ created_at: string; started_at: string; finished_at: string }>('GET', `/runs/${id}`),
    async logs(id: string) {
      return (await call<{ logs: { timestamp: string; message: string }[] }>('GET', `/runs/${id}/logs`)).logs
    },
    /** A pipeline with one quality test, published. */
    async publish(name: string) {
      const path = `/pipelines/default/gold/${name}`
      await call('POST', '/pipelines', { namespace: 'default', layer: 'gold', name })
      await call('PUT', `/files/default/pipelines/gold/${name}/pipeline.sql`, { content: SQL })
      await call('POST', `${path}/tests`, {
        name: 'one-row',
        severity: 'error',
        sql: 'select count(*) - 1 from {{ this }}',
      })
      await call('POST', `${path}/publish`)
    },
    /** Asks for a run and follows its log to the end. */
    async runAndFollow(name: string): Promise<{ id: string; loggedMs: number }> {
      const since = performance.now()
      const id = await request(name)
      const stream = await fetch(`${url}/api/v1/runs/${id}/logs`, {
        headers: { accept: 'text/event-stream' },
      })
      let text = ''
      let loggedMs = Number.NaN
      const decoder = new TextDecoder()
      for await (const chunk of stream.body ?? []) {
        text += decoder.decode(chunk, { stream: true })
        if (Number.isNaN(loggedMs) && text.includes('event: log')) loggedMs = performance.now() - since
      }
      if (!text.includes('"status":"success"')) throw new Error(`the run did not succeed: ${text}`)
      return { id, loggedMs }
    },
  }
}

async function commitsOf(sql: Sql): Promise<number[]> {
  await sql`create table if not exists bench_commit (at timestamptz)`
  const samples = await timed(RUNS, () => sql`insert into bench_commit values (clock_timestamp())`)
  await sql`drop table bench_commit`
  return samples
}

/** What a run asks of an engine, and nothing else: nothing is locked, kept apart, durable or merged. */
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
