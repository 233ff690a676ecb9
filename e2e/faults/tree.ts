// A whole Sluice of the test's own, started and killed by the test: processes by pid, the database by its address.
import { type ChildProcess, spawn } from 'node:child_process'
import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import postgres from 'postgres'

const root = join(import.meta.dirname, '..', '..')

interface ProcessRecord {
  name: string
  pid: number | null
}

export interface Tree {
  url: string
  call<Answer = unknown>(
    method: string,
    path: string,
    body?: object,
  ): Promise<{ status: number; body: Answer }>
  /** The pid of a part, as the supervisor has written it down. */
  pidOf(name: string): Promise<number>
  databaseUrl(): Promise<string>
  /** A connection of the test's own; connections end when Postgres is killed. */
  connect(): Promise<postgres.Sql>
  log(): string
  stop(): Promise<void>
}

/** Starts `npm start` on a free port with an empty data directory and waits until it is ready. */
export async function startTree(): Promise<Tree> {
  const dataDir = await mkdtemp(join(tmpdir(), 'sluice-faults-'))
  // As root, Postgres runs as another user, which must be able to reach its directory.
  await chmod(dataDir, 0o755)
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const child = spawn(process.execPath, ['.setup/bun.mjs', 'sidecars/supervisor/main.ts'], {
    cwd: root,
    env: {
      ...plain(),
      DATA_DIR: dataDir,
      PORT: String(port),
      HOST: '127.0.0.1',
      // A killed test takes its tree along: the supervisor ends with its stdin.
      SUPERVISED: '1',
    },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  const lines: string[] = []
  const ready = new Promise<void>((resolve, reject) => {
    const take = (chunk: Buffer) => {
      lines.push(...chunk.toString().split('\n'))
      lines.splice(0, lines.length - 500)
      if (chunk.includes('Sluice is ready on')) resolve()
    }
    child.stdout?.on('data', take)
    child.stderr?.on('data', take)
    child.once('exit', (code) => reject(new Error(`the service ended with ${code}\n${lines.join('\n')}`)))
  })
  await ready
  const registry = async (): Promise<{ database_url: string; processes: ProcessRecord[] }> =>
    JSON.parse(await readFile(join(dataDir, 'run', 'processes.json'), 'utf8'))

  return {
    url,
    async call<Answer>(method: string, path: string, body?: object) {
      const response = await fetch(`${url}/api/v1${path}`, {
        method,
        headers: body === undefined ? {} : { 'content-type': 'application/json' },
        body: body === undefined ? undefined : JSON.stringify(body),
        signal: AbortSignal.timeout(10_000),
      })
      const text = await response.text()
      return { status: response.status, body: (text === '' ? undefined : JSON.parse(text)) as Answer }
    },
    async pidOf(name) {
      const pid = (await registry()).processes.find((part) => part.name === name)?.pid
      if (!pid) throw new Error(`${name} is not running`)
      return pid
    },
    databaseUrl: async () => (await registry()).database_url,
    connect: async () => postgres((await registry()).database_url, { max: 1, onnotice: () => {} }),
    log: () => lines.join('\n'),
    async stop() {
      await ended(child)
      await rm(dataDir, { recursive: true, force: true })
    },
  }
}

/** What any program needs; nothing the developer has set for a service of their own. */
const plain = () =>
  Object.fromEntries(['PATH', 'HOME', 'TMPDIR', 'LANG', 'TZ'].map((name) => [name, process.env[name]]))

const ended = (child: ChildProcess) =>
  new Promise<void>((resolve) => {
    if (child.exitCode !== null) return resolve()
    child.once('exit', () => resolve())
    child.kill('SIGINT')
  })

const freePort = () =>
  new Promise<number>((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0))
    })
  })

/** Asks again and again, through errors too, until the answer holds; the last one is in the error. */
export async function until<T>(
  ask: () => Promise<T>,
  holds: (answer: T) => boolean,
  timeoutMs = 45_000,
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
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
  throw new Error(`it did not come to pass; last seen: ${JSON.stringify(last)}`)
}

/** Keeps a lock in an open transaction. Released by `release`, or by the death of the server. */
export function holding(sql: postgres.Sql, statement: string) {
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
