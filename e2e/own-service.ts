import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const ROOT = join(import.meta.dirname, '..')
const READY_LIMIT_MS = 50_000

export interface OwnService {
  url: string
  dataDir: string
  /** All that it has written so far. */
  log(): string
  stop(): Promise<void>
}

/** A service beside the one under test, for what is decided by its environment. */
export async function startOwnService(
  env: Record<string, string>,
  /** What it says when it answers; one whose parts do not answer is never ready. */
  whenSaid = 'Sluice is ready on',
): Promise<OwnService> {
  const dataDir = await mkdtemp(join(tmpdir(), 'sluice-own-'))
  // As root, Postgres runs as another user, which must be able to reach its directory.
  await chmod(dataDir, 0o755)
  const port = await freePort()
  const child = spawn(process.execPath, ['.setup/bun.mjs', 'sidecars/supervisor/main.ts'], {
    cwd: ROOT,
    env: { ...passedOn(), PORT: String(port), DATA_DIR: dataDir, ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()))
  const stop = async () => {
    child.kill('SIGINT')
    await ended
    await rm(dataDir, { recursive: true, force: true })
  }
  const written: Buffer[] = []
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => written.push(chunk))
  try {
    await hasSaid(whenSaid, child, ended)
  } catch (error) {
    await stop()
    throw error
  }
  const log = () => Buffer.concat(written).toString()
  return { url: `http://127.0.0.1:${port}`, dataDir, log, stop }
}

/** What any program needs, and the runtime that these tests are about. */
const passedOn = () =>
  Object.fromEntries(
    ['PATH', 'HOME', 'API_RUNTIME'].flatMap((name) => {
      const value = process.env[name]
      return value === undefined ? [] : [[name, value]]
    }),
  )

function hasSaid(text: string, child: ChildProcessWithoutNullStreams, ended: Promise<void>) {
  let said = ''
  return new Promise<void>((resolve, reject) => {
    const hear = (chunk: Buffer) => {
      said += chunk
      if (said.includes(text)) resolve()
    }
    child.stdout.on('data', hear)
    child.stderr.on('data', hear)
    const limit = setTimeout(() => reject(new Error(`the service is not ready:\n${said}`)), READY_LIMIT_MS)
    void ended.then(() => {
      clearTimeout(limit)
      reject(new Error(`the service ended:\n${said}`))
    })
  })
}

const freePort = () =>
  new Promise<number>((resolve, reject) => {
    const server = createServer().once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() =>
        typeof address === 'object' && address ? resolve(address.port) : reject(new Error('no port')),
      )
    })
  })
