// The whole service as a stranger meets it, with a no-op runner over Connect in a thread of its own.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import postgres from 'postgres'
import { startService } from '../.setup/service.ts'
import { cpuOf } from './cpu.ts'
import { listenToRuns } from './news.ts'
import { startThread } from './threads.ts'

export type NoOpService = Awaited<ReturnType<typeof startNoOpService>>

export async function startNoOpService() {
  const runner = await startThread<string>(new URL('./no-op-runner.worker.ts', import.meta.url))
  const service = await startService({ LOG_FORMAT: 'text', RUNNER_URLS: runner.said, QUERY_URLS: 'none' })
  const registry: { database_url: string; processes: { name: string; pid: number }[] } = JSON.parse(
    await readFile(join(service.dataDir, 'run', 'processes.json'), 'utf8'),
  )
  const pidOf = (name: string) => registry.processes.find((one) => one.name === name)?.pid ?? Number.NaN
  const sql = postgres(registry.database_url, { max: 4, onnotice: () => {} })
  return {
    sql,
    cpu: cpuOf(pidOf('postgres'), pidOf('api')),
    news: await listenToRuns(sql),
    /** JSON is answered for JSON; anything but 2xx throws. */
    async call<Answer>(
      method: string,
      path: string,
      body?: object | FormData,
      headers = {},
    ): Promise<Answer> {
      const isJson = body !== undefined && !(body instanceof FormData)
      const response = await fetch(`${service.url}/api/v1${path}`, {
        method,
        headers: isJson ? { 'content-type': 'application/json', ...headers } : headers,
        body: isJson ? JSON.stringify(body) : body,
      })
      if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`)
      return (await response.json()) as Answer
    },
    async stop() {
      await sql.end()
      await service.stop()
      runner.thread.terminate()
    },
  }
}
