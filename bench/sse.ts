// Thousands of subscribers of a hundred runs that each write a line a second: how late lines come, what is lost or doubled
// when connections are cut and come back, what the API process takes. Beside it: a bare server that writes from memory.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import postgres from 'postgres'
import { readRegistry } from '../sidecars/supervisor/registry.ts'
import { startService } from '../tools/test/service.ts'
import { cpuOf } from './cpu.ts'
import { addPublished } from './pipelines.ts'
import type { SseResult, SseTask } from './sse-task.ts'
import { startThread } from './threads.ts'

const RUNS = 100
const SUBSCRIBERS = Number(process.env.SUBSCRIBERS ?? 10_000)
const RECONNECTS = 1_000
const FOLLOW_MS = 20_000
const MB = 1_048_576

export async function benchSse() {
  const runner = await startProcess('talking-runner.process.ts')
  const service = await startService({
    RUNNER_URLS: runner.url,
    QUERY_URLS: 'none',
    // They all come from this machine.
    SSE_STREAMS_PER_CLIENT: String(SUBSCRIBERS + RECONNECTS),
    SSE_STREAMS: String(SUBSCRIBERS + RECONNECTS),
  })
  const registry = readRegistry(service.dataDir)
  const pidOf = (name: string) => registry?.processes.find((one) => one.name === name)?.pid ?? Number.NaN
  const sql = postgres(registry?.database_url ?? '', { max: 1, onnotice: () => {} })
  const cpu = cpuOf(pidOf('postgres'), pidOf('api'))
  try {
    const names = await addPublished(sql, RUNS)
    const runIds = await Promise.all(
      names.map(async (pipeline) => {
        const request = { namespace: 'default', layer: 'gold', pipeline, trigger: 'manual' }
        const response = await fetch(`${service.url}/api/v1/runs`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify(request),
        })
        return ((await response.json()) as { run_id: string }).run_id
      }),
    )
    const task = { host: '127.0.0.1', runIds, subscribers: SUBSCRIBERS, followMs: FOLLOW_MS }
    const idle = memoryOf(pidOf('api'))
    let most = 0
    const watch = setInterval(() => {
      most = Math.max(most, memoryOf(pidOf('api')))
    }, 250)
    const [before, cpuBefore] = [await transactionsOf(sql), cpu()]
    const got = await subscribe({ ...task, port: portOf(service.url), reconnects: RECONNECTS })
    const [after, cpuAfter] = [await transactionsOf(sql), cpu()]
    clearInterval(watch)
    const seconds = (FOLLOW_MS + got.connectMs) / 1000
    console.log(
      `  ${SUBSCRIBERS} subscribers of ${RUNS} runs, connected in ${(got.connectMs / 1000).toFixed(1)} s; ${got.reconnected} cut and back; lost ${got.lost}, doubled ${got.doubled}, silent ${got.silent}`,
    )
    console.log(`  written to received: ${latencyOf(got)}`)
    console.log(`  a bare server:       ${latencyOf(await bare(task))}`)
    console.log(
      `  memory of the API process: ${(idle / MB).toFixed(0)} MB before, ${(most / MB).toFixed(0)} MB at most; ${((most - idle) / SUBSCRIBERS / 1024).toFixed(1)} KB a subscriber`,
    )
    console.log(
      `  its CPU ${((cpuAfter.api - cpuBefore.api) / seconds / 10).toFixed(0)}% of a core; transactions of the database ${((after - before) / seconds / RUNS).toFixed(1)} a second and run`,
    )
  } finally {
    await sql.end()
    await service.stop()
    runner.end()
  }
}

async function subscribe(task: SseTask): Promise<SseResult> {
  const path = new URL('./sse-clients.worker.ts', import.meta.url)
  const { said, thread } = await startThread<SseResult>(path, task)
  thread.terminate()
  return said
}

async function bare(task: Omit<SseTask, 'port' | 'reconnects'>) {
  const { url, end } = await startProcess('bare-sse.process.ts')
  try {
    return await subscribe({ ...task, port: portOf(url), reconnects: 0, beginsAnywhere: true })
  } finally {
    end()
  }
}

/** A server of a benchmark in a process of its own; it prints its address. */
async function startProcess(file: string) {
  const child = Bun.spawn([process.execPath, join(import.meta.dirname, file)], {
    stdout: 'pipe',
    stderr: 'inherit',
  })
  const { value } = await child.stdout.getReader().read()
  return { url: new TextDecoder().decode(value).trim(), end: () => child.kill() }
}

const portOf = (url: string) => Number(new URL(url).port)

function latencyOf({ lines, latencies }: SseResult): string {
  const at = (share: number) => latencies[Math.floor(share * (latencies.length - 1))] ?? Number.NaN
  return `p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, max ${at(1)} ms of ${lines} lines`
}

/** Resident bytes of a process (Linux; else NaN). */
function memoryOf(pid: number): number {
  try {
    const [, kilobytes] = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
    return Number(kilobytes) * 1024
  } catch {
    return Number.NaN
  }
}

async function transactionsOf(sql: postgres.Sql): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select (xact_commit + xact_rollback)::float8 as count from pg_stat_database where datname = current_database()`
  return row?.count ?? 0
}
