import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test as base } from '@playwright/test'

const ROOT = join(import.meta.dirname, '..', '..')
/** Time limit for the service to become ready. A busy machine needs some seconds, so only a service that hangs exceeds it. */
const READY_LIMIT_MS = 180_000
const STOP_LIMIT_MS = 60_000
/** Last characters of the log that an error shows. */
const KEPT = 20_000

export interface OwnService {
  url: string
  dataDir: string
  /** The root directory of the service, as this process reaches it. A service with its own mounts sees other disks. */
  root: string
  /** All output so far. */
  log(): string
  stop(): Promise<void>
}

/**
 * Starts a service beside the one under test, for behaviour that the environment decides. It listens on a free port unless
 * `PORT` is set.
 */
export async function startOwnService(
  env: Record<string, string> = {},
  /** Output that means ready. A service whose parts do not answer never prints the default text. */
  whenSaid = 'Sluice is ready on',
  /** Shell commands that mount file systems for this service only, before its start; `$DATA_DIR` is set. */
  mounts = '',
): Promise<OwnService> {
  const dataDir = await mkdtemp(join(tmpdir(), 'sluice-own-'))
  const port = env.PORT ?? (await freePort())
  const start = [process.execPath, '.setup/bun.mjs', 'sidecars/supervisor/main.ts']
  const unshare =
    process.getuid?.() === 0 ? ['unshare', '--mount'] : ['unshare', '--map-root-user', '--mount']
  const [program = '', ...args] =
    mounts === '' ? start : [...unshare, 'sh', '-ec', `${mounts}\nexec "$@"`, 'sh', ...start]
  const child = spawn(program, args, {
    cwd: ROOT,
    // The supervisor ends with its stdin, so a killed test ends its service too.
    env: { ...passedOn(), PORT: String(port), DATA_DIR: dataDir, SUPERVISED: '1', ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()))
  const written: Buffer[] = []
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => written.push(chunk))
  const log = () => Buffer.concat(written).toString()
  const stop = async () => {
    child.kill('SIGINT')
    await within(STOP_LIMIT_MS, ended, () => `the service does not end:\n${log().slice(-KEPT)}`)
    await rm(dataDir, { recursive: true, force: true })
  }
  try {
    await within(
      READY_LIMIT_MS,
      hasSaid(whenSaid, child, ended, log),
      () => `the service is not ready:\n${log()}`,
    )
  } catch (error) {
    await stop()
    throw error
  }
  return { url: `http://127.0.0.1:${port}`, dataDir, root: `/proc/${child.pid}/root`, log, stop }
}

/**
 * Playwright's `test` with a service for this file. `test.use({ serviceEnv })` sets its environment, and `request` calls it.
 */
export const test = base.extend<object, { serviceEnv: Record<string, string>; service: OwnService }>({
  serviceEnv: [{}, { option: true, scope: 'worker' }],
  service: [
    async ({ serviceEnv }, use) => {
      const service = await startOwnService(serviceEnv)
      await use(service)
      await service.stop()
    },
    { scope: 'worker' },
  ],
  baseURL: ({ service }, use) => use(service.url),
  extraHTTPHeaders: ({ service: _ }, use) => use({}),
})

/** Starts a program of this checkout beside a service. `readyLine` finds the program's address in its output. */
export async function startProgram(path: string, env: Record<string, string>, readyLine: RegExp) {
  const child = spawn(process.execPath, ['.setup/bun.mjs', path], {
    cwd: ROOT,
    env: { ...passedOn(), PORT: '0', ...env },
    stdio: 'pipe',
  })
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()))
  const url = await new Promise<string>((resolve, reject) => {
    let output = ''
    const read = (chunk: Buffer) => {
      output += chunk
      const found = readyLine.exec(output)?.[1]
      if (found !== undefined) resolve(found)
    }
    child.stdout.on('data', read)
    child.stderr.on('data', read)
    void ended.then(() => reject(new Error(`${path} ended:\n${output}`)))
  })
  return {
    url,
    async stop() {
      child.kill('SIGINT')
      await ended
    },
  }
}

/** Variables that any program needs, and the runtime under test. */
const passedOn = () =>
  Object.fromEntries(
    ['PATH', 'HOME', 'TMPDIR', 'LANG', 'TZ', 'API_RUNTIME'].flatMap((name) => {
      const value = process.env[name]
      return value === undefined ? [] : [[name, value]]
    }),
  )

function hasSaid(
  text: string,
  child: ChildProcessWithoutNullStreams,
  ended: Promise<void>,
  log: () => string,
) {
  return new Promise<void>((resolve, reject) => {
    const check = () => log().includes(text) && resolve()
    child.stdout.on('data', check)
    child.stderr.on('data', check)
    void ended.then(() => reject(new Error(`the service ended:\n${log()}`)))
  })
}

function within<T>(limitMs: number, work: Promise<T>, message: () => string): Promise<T> {
  let limit: NodeJS.Timeout | undefined
  const tooLate = new Promise<never>((_, reject) => {
    limit = setTimeout(() => reject(new Error(message())), limitMs)
  })
  return Promise.race([work, tooLate]).finally(() => clearTimeout(limit))
}

/**
 * A free port below the range of outgoing connections. So no connection takes it before the service listens, or while the
 * service restarts.
 */
export async function freePort(): Promise<number> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await listenedOn(randomInt(10_100, 32_768))
    } catch (error) {
      if (attempt === 100) throw error
    }
  }
}

const listenedOn = (port: number) =>
  new Promise<number>((resolve, reject) => {
    const server = createServer().once('error', reject)
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(port)))
  })
