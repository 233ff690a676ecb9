// Measures event streams: thousands of subscribers follow a hundred runs that each write one line per second. The figures are
// the latency of lines, lines lost or duplicated by reconnects, and the memory of the API process.
import assert from 'node:assert/strict'
import postgres from 'postgres'
import { startService } from '../tools/service/service.ts'
import { clientOf, databaseUrlOf, residentBytes, startServer } from './client.ts'
import { addPublished } from './pipelines.ts'
import type { SseResult, SseTask } from './sse-task.ts'

const RUNS = 100
const SUBSCRIBERS = Number(process.env.SUBSCRIBERS ?? 10_000)
const RECONNECTS = 1_000
const FOLLOW_MS = 20_000
const MB = 1_048_576

export async function benchSse() {
  const runner = await startServer('runner.process.ts', 'talking')
  const service = await startService({
    RUNNER_URLS: runner.url,
    QUERY_URLS: 'none',
    // All subscribers share the address of this machine.
    SSE_STREAMS_PER_CLIENT: String(SUBSCRIBERS + RECONNECTS),
    SSE_STREAMS: String(SUBSCRIBERS + RECONNECTS),
  })
  const sql = postgres(databaseUrlOf(service.dataDir), { max: 1, onnotice: () => {} })
  try {
    const names = await addPublished(sql, RUNS)
    const { requestRun } = clientOf(service.url)
    const runIds = await Promise.all(names.map(requestRun))
    const memory = () => residentBytes(service.dataDir, 'api')
    const task = { host: '127.0.0.1', runIds, subscribers: SUBSCRIBERS, followMs: FOLLOW_MS }
    const idle = memory()
    let most = 0
    const watch = setInterval(() => {
      most = Math.max(most, memory())
    }, 250)
    const before = await transactionsOf(sql)
    const got = await subscribe({ ...task, port: portOf(service.url), reconnects: RECONNECTS })
    const after = await transactionsOf(sql)
    clearInterval(watch)
    const seconds = (FOLLOW_MS + got.connectMs) / 1000
    console.log(
      `  ${SUBSCRIBERS} subscribers of ${RUNS} runs, connected in ${(got.connectMs / 1000).toFixed(1)} s; ${got.reconnected} cut and back; lost ${got.lost}, doubled ${got.doubled}, silent ${got.silent}`,
    )
    console.log(`  written to received: ${latencyOf(got)}`)
    console.log(
      `  memory of the API process: ${(idle / MB).toFixed(0)} MB before, ${(most / MB).toFixed(0)} MB at most; ${((most - idle) / SUBSCRIBERS / 1024).toFixed(1)} KB a subscriber`,
    )
    console.log(
      `  transactions of the database ${((after - before) / seconds / RUNS).toFixed(1)} a second and run`,
    )
  } finally {
    await sql.end()
    await service.stop()
    await runner.stop()
  }
}

async function subscribe(task: SseTask): Promise<SseResult> {
  const clients = new Worker(new URL('./sse-clients.worker.ts', import.meta.url))
  const result = await new Promise<SseResult>((resolve) => {
    clients.onmessage = ({ data }) => resolve(data)
    clients.postMessage(task)
  })
  clients.terminate()
  return result
}

const portOf = (url: string) => Number(new URL(url).port)

function latencyOf({ lines, latencies }: SseResult): string {
  const at = (share: number) => latencies[Math.floor(share * (latencies.length - 1))] ?? Number.NaN
  return `p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, max ${at(1)} ms of ${lines} lines`
}

async function transactionsOf(sql: postgres.Sql): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select (xact_commit + xact_rollback)::float8 as count from pg_stat_database where datname = current_database()`
  assert(row !== undefined, 'no row in pg_stat_database for the test database')
  return row.count
}
