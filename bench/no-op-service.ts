// The whole service as a stranger meets it, with a no-op runner over Connect in a process of its own.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import postgres from 'postgres'
import { startService } from '../tools/test/service.ts'
import { countCpu } from './cpu.ts'
import { listenToRuns } from './news.ts'

export type NoOpService = Awaited<ReturnType<typeof startNoOpService>>

/** `one-by-one`: the runner offers no batches. */
export async function startNoOpService(...options: 'one-by-one'[]) {
  const runner = Bun.spawn(
    [process.execPath, join(import.meta.dirname, 'no-op-runner.process.ts'), ...options],
    {
      stdout: 'pipe',
      stderr: 'inherit',
    },
  )
  const { value: said } = await runner.stdout.getReader().read()
  const runnerUrl = new TextDecoder().decode(said).trim()
  const service = await startService({ LOG_FORMAT: 'text', RUNNER_URLS: runnerUrl, QUERY_URLS: 'none' })
  const registry: { database_url: string; processes: { name: string; pid: number }[] } = JSON.parse(
    await readFile(join(service.dataDir, 'run', 'processes.json'), 'utf8'),
  )
  const pidOf = (name: string) => registry.processes.find((one) => one.name === name)?.pid ?? Number.NaN
  const sql = postgres(registry.database_url, { max: 4, onnotice: () => {} })
  return {
    sql,
    url: service.url,
    apiPid: pidOf('api'),
    cpu: countCpu({
      processes: { postgres: pidOf('postgres'), api: pidOf('api'), runner: runner.pid },
      threads: { dispatcher: { pid: pidOf('api'), thread: 'dispatcher' } },
    }),
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
      runner.kill()
      await runner.exited
    },
  }
}
