// A run of `select 1 as a` with one quality test on an idle service, from its request to its success. Limits measured
// beside it: the same SQL written to Parquet by DuckDB alone, and one durable commit of the same Postgres.
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import postgres from 'postgres'
import { startService } from '../.setup/service.ts'
import { figuresOf, printFigures, timed } from './figures.ts'

const WARM_UP = 10
const RUNS = 100

export async function benchRunLatency() {
  const service = await startService({ LOG_FORMAT: 'text' })
  try {
    const path = '/pipelines/default/gold/one'
    await call('POST', '/pipelines', { namespace: 'default', layer: 'gold', name: 'one' })
    await call('PUT', '/files/default/pipelines/gold/one/pipeline.sql', { content: 'select 1 as a' })
    await call('POST', `${path}/tests`, {
      name: 'one-row',
      severity: 'error',
      sql: 'select count(*) - 1 from {{ this }}',
    })
    await call('POST', `${path}/publish`)

    const toRunning: number[] = []
    const toLogged: number[] = []
    await timed(WARM_UP, () => runOnce([], []))
    const toSuccess = await timed(RUNS, () => runOnce(toRunning, toLogged))
    printFigures(
      {
        'POST to success': figuresOf(toSuccess),
        'POST to running': figuresOf(toRunning),
        'POST to the first log line (event stream)': figuresOf(toLogged),
        'DuckDB alone: open, select 1, write Parquet': figuresOf(await timed(RUNS, duckdbAlone)),
        'Postgres: one durable commit': figuresOf(await commits(RUNS)),
      },
      'Postgres: one durable commit',
    )

    async function runOnce(running: number[], logged: number[]) {
      const since = performance.now()
      const { run_id } = await call<{ run_id: string }>('POST', '/runs', {
        namespace: 'default',
        layer: 'gold',
        pipeline: 'one',
      })
      const stream = await fetch(`${service.url}/api/v1/runs/${run_id}/logs`, {
        headers: { accept: 'text/event-stream' },
      })
      let text = ''
      const decoder = new TextDecoder()
      for await (const chunk of stream.body ?? []) {
        text += decoder.decode(chunk, { stream: true })
        if (logged.length < RUNS && !seen.has(run_id) && text.includes('event: log')) {
          seen.add(run_id)
          logged.push(performance.now() - since)
        }
      }
      if (!text.includes('"status":"success"')) throw new Error(`the run did not succeed: ${text}`)
      const run = await call<{ created_at: string; started_at: string }>('GET', `/runs/${run_id}`)
      running.push(Date.parse(run.started_at) - Date.parse(run.created_at))
    }
  } finally {
    await service.stop()
  }

  async function call<Answer>(method: string, path: string, body?: object): Promise<Answer> {
    const response = await fetch(`${service.url}/api/v1${path}`, {
      method,
      headers: body === undefined ? {} : { 'content-type': 'application/json' },
      body: body === undefined ? undefined : JSON.stringify(body),
    })
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`)
    return response.json()
  }

  async function commits(times: number) {
    const registry = JSON.parse(await readFile(join(service.dataDir, 'run', 'processes.json'), 'utf8'))
    const sql = postgres(registry.database_url, { max: 1, onnotice: () => {} })
    await sql`create table if not exists bench_commit (at timestamptz)`
    const samples = await timed(times, () => sql`insert into bench_commit values (clock_timestamp())`)
    await sql`drop table bench_commit`
    await sql.end()
    return samples
  }
}

const seen = new Set<string>()

async function duckdbAlone() {
  const directory = await mkdtemp(join(tmpdir(), 'sluice-bench-'))
  const instance = await DuckDBInstance.create(':memory:')
  const connection = await instance.connect()
  await connection.run(`copy (select 1 as a) to '${join(directory, 'a.parquet')}' (format parquet)`)
  connection.closeSync()
  instance.closeSync()
  await rm(directory, { recursive: true })
}
