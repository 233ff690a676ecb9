import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { readRegistry } from '../sidecars/supervisor/registry.ts'

/** Calls the API of a service. Any status other than 2xx throws. */
export function clientOf(url: string) {
  /** Sends a form, or an object as JSON. Resolves with the parsed JSON of the response. */
  async function call<Answer>(
    method: string,
    path: string,
    body?: object | FormData,
    headers = {},
  ): Promise<Answer> {
    const isJson = body !== undefined && !(body instanceof FormData)
    const response = await fetch(`${url}/api/v1${path}`, {
      method,
      headers: isJson ? { 'content-type': 'application/json', ...headers } : headers,
      body: isJson ? JSON.stringify(body) : body,
    })
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`)
    return response.json()
  }
  const requestRun = async (pipeline: string) => {
    const body = { namespace: 'default', layer: 'gold', pipeline, trigger: 'manual' }
    return (await call<{ run_id: string }>('POST', '/runs', body)).run_id
  }
  return {
    call,
    /** Creates a pipeline in `default.gold` with this source. */
    async create(name: string, sql: string) {
      await call('POST', '/pipelines', { namespace: 'default', layer: 'gold', name })
      await call('PUT', `/files/default/pipelines/gold/${name}/pipeline.sql`, { content: sql })
    },
    /** Requests a run of a pipeline in `default.gold`. Resolves with the id of the run. */
    requestRun,
    /** Requests a run and follows its log until it succeeds. `loggedMs` is the time to the first log line. */
    async runToSuccess(pipeline: string): Promise<{ id: string; loggedMs: number }> {
      const since = performance.now()
      const id = await requestRun(pipeline)
      const headers = { accept: 'text/event-stream' }
      const stream = await fetch(`${url}/api/v1/runs/${id}/logs`, { headers })
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

export type Client = ReturnType<typeof clientOf>

/** Starts `file` as a separate process. The process prints its address as its first line. */
export async function startServer(file: string, ...args: string[]) {
  const child = Bun.spawn([process.execPath, join(import.meta.dirname, file), ...args], {
    stdout: 'pipe',
    stderr: 'inherit',
  })
  const { value } = await child.stdout.getReader().read()
  const stop = async () => {
    child.kill()
    await child.exited
  }
  return { url: new TextDecoder().decode(value).trim(), stop }
}

/** The database address of the service that runs on `dataDir`. Throws when no service runs there. */
export function databaseUrlOf(dataDir: string): string {
  const registry = readRegistry(dataDir)
  assert(registry !== undefined, `no service runs on ${dataDir}`)
  return registry.database_url
}

/** Resident memory, in bytes, of one process of a running service. `NaN` on systems other than Linux. */
export function residentBytes(dataDir: string, part: string): number {
  const pid = readRegistry(dataDir)?.processes.find(({ name }) => name === part)?.pid
  try {
    const [, kilobytes] = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
    return Number(kilobytes) * 1024
  } catch {
    return Number.NaN
  }
}
