// A whole Sluice that the test starts and kills: processes by pid, the database by its address.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import postgres from 'postgres'
import { startOwnService } from '../kit/own-service.ts'

/** Timeout of one request. A test that has killed something repeats the request until it is answered. */
const ANSWER_LIMIT_MS = 30_000
/** Timeout of all repeats together. Working requests take seconds, on a busy machine tens of seconds. */
const PATIENCE_MS = 120_000

interface ProcessRecord {
  name: string
  pid: number | null
}

interface Run {
  status: string
  phase: string | null
  error: string | null
  attempt: number
  merged_commit: number | null
  version_number: number | null
}
export const isOver = ({ status }: Run) => ['success', 'failed', 'cancelled'].includes(status)

export interface Tree {
  url: string
  dataDir: string
  call<Answer = unknown>(
    method: string,
    path: string,
    body?: object | FormData,
    headers?: Record<string, string>,
  ): Promise<{ status: number; body: Answer }>
  /** Makes a pipeline in `default.gold` if it does not exist, writes its source and publishes it. */
  publish(name: string, content: string, type?: 'sql' | 'python'): Promise<void>
  /** Requests a run of a pipeline in `default.gold`; resolves with the id of the run. */
  requestRun(pipeline: string): Promise<string>
  /** The run; throws while the service cannot answer. */
  run(id: string): Promise<Run>
  /** Waits for the end of the run and returns the run. */
  ended(id: string, timeoutMs?: number): Promise<Run>
  /** The pid of a part or of the supervisor, as recorded by the supervisor. */
  pidOf(name: string): Promise<number>
  databaseUrl(): Promise<string>
  /** A connection for the test; it ends when Postgres is killed. */
  connect(): Promise<postgres.Sql>
  log(): string
  stop(): Promise<void>
}

interface Registry {
  supervisor_pid: number
  database_url: string
  processes: ProcessRecord[]
}

/** Starts `npm start` on a free port with an empty data directory and waits until it is ready. */
export async function startTree(env: Record<string, string> = {}): Promise<Tree> {
  const { url, dataDir, log, stop } = await startOwnService(env)
  const registry = async (): Promise<Registry> =>
    JSON.parse(await readFile(join(dataDir, 'run', 'processes.json'), 'utf8'))

  async function call<Answer>(
    method: string,
    path: string,
    body?: object | FormData,
    headers: Record<string, string> = {},
  ) {
    const isJson = body !== undefined && !(body instanceof FormData)
    const response = await fetch(`${url}/api/v1${path}`, {
      method,
      headers: isJson ? { ...headers, 'content-type': 'application/json' } : headers,
      body: isJson ? JSON.stringify(body) : body,
      signal: AbortSignal.timeout(ANSWER_LIMIT_MS),
    })
    const text = await response.text()
    return { status: response.status, body: (text === '' ? undefined : JSON.parse(text)) as Answer }
  }
  /** Like `call`, but throws on any other status. */
  async function must<Answer>(statuses: number[], method: string, path: string, body?: object) {
    const answer = await call<Answer>(method, path, body)
    if (!statuses.includes(answer.status))
      throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`)
    return answer.body
  }

  const run = (id: string) => must<Run>([200], 'GET', `/runs/${id}`)

  return {
    url,
    dataDir,
    call,
    run,
    ended: (id, timeoutMs) => until(() => run(id), isOver, timeoutMs),
    async publish(name, content, type = 'sql') {
      const file = type === 'python' ? 'pipeline.py' : 'pipeline.sql'
      await must([201, 409], 'POST', '/pipelines', { namespace: 'default', layer: 'gold', name, type })
      await must([200], 'PUT', `/files/default/pipelines/gold/${name}/${file}`, { content })
      await must([200], 'POST', `/pipelines/default/gold/${name}/publish`)
    },
    async requestRun(pipeline) {
      const data = { namespace: 'default', layer: 'gold', pipeline }
      return (await must<{ run_id: string }>([202], 'POST', '/runs', data)).run_id
    },
    async pidOf(name) {
      const { supervisor_pid, processes } = await registry()
      const pid = name === 'supervisor' ? supervisor_pid : processes.find((part) => part.name === name)?.pid
      if (!pid) throw new Error(`${name} is not running`)
      return pid
    },
    databaseUrl: async () => (await registry()).database_url,
    connect: async () => postgres((await registry()).database_url, { max: 1, onnotice: () => {} }),
    log,
    stop,
  }
}

/**
 * Repeats `ask`, also after errors, until `holds` accepts its answer. After the timeout, throws an error with the last answer.
 */
export async function until<T>(
  ask: () => Promise<T>,
  holds: (answer: T) => boolean,
  timeoutMs = PATIENCE_MS,
  pauseMs = 10,
): Promise<T> {
  const giveUpAt = Date.now() + timeoutMs
  let last: unknown
  while (Date.now() < giveUpAt) {
    try {
      const answer = await ask()
      if (holds(answer)) return answer
      last = answer
    } catch (error) {
      last = String(error)
    }
    await new Promise((resolve) => setTimeout(resolve, pauseMs))
  }
  throw new Error(`condition not met in time; last result: ${JSON.stringify(last)}`)
}

/** Holds a lock in an open transaction until `release`, or until the server dies. `isUndone`: the transaction rolls back. */
export function holding(sql: postgres.Sql, statement: string, isUndone = false) {
  let letGo: () => void = () => {}
  const released = new Promise<void>((resolve) => {
    letGo = resolve
  })
  let ended: Promise<unknown> = Promise.resolve()
  const taken = new Promise<void>((resolve, reject) => {
    ended = sql
      .begin(async (tx) => {
        await tx.unsafe(statement)
        resolve()
        await released
        if (isUndone) throw new Error('rolled back')
      })
      .catch(reject)
  })
  return {
    taken,
    async release() {
      letGo()
      await ended.catch(() => {})
      await sql.end({ timeout: 1 }).catch(() => {})
    },
  }
}
