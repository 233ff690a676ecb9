/** The real service for end-to-end tests: all supervised processes, on a free port, with a new data directory. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { eachLine } from '../../sidecars/supervisor/lines.ts'
import { freePort } from '../../sidecars/supervisor/ports.ts'
import { endWith, killAllIn } from '../kit/scratch.ts'

const root = join(import.meta.dirname, '..', '..')
/** Time limit for the service to become ready. A busy machine needs some seconds, so only a service that hangs exceeds it. */
const READY_LIMIT_MS = 180_000
const STOP_LIMIT_MS = 60_000
/** Child processes may end a moment after the service. */
const FAREWELL_MS = 10_000
const KEPT_LINES = 60
/** Log lines of successful requests. They explain no failure, so they are not stored. */
const ANSWERED = / api +[A-Z]+ \/\S+ [23]\d\d /
/** The supervisor restarts a process that died, so later tests may pass. The restart still counts as a failure. */
const RESTARTED = / ended \(.*\): restart \d+/

export type Service = {
  url: string
  /** The process that was started. */
  pid: number
  dataDir: string
  /** The last lines of the log, without successful requests. */
  log: () => string
  /** Stops the service as Ctrl-C does. Resolves with the fault of its end, or undefined when there is none. */
  stop: () => Promise<string | undefined>
}

/** Starts the service and waits until it is ready. Throws with the log when it does not become ready. */
export async function startService(
  env: Record<string, string> = {},
  /** Called with each line of the log. */
  onLine: (line: string) => void = () => {},
  /** Another checkout, and the command that starts its service. */
  { cwd, command } = { cwd: root, command: [process.execPath, 'sidecars/supervisor/main.ts'] },
): Promise<Service> {
  const dataDir = await mkdtemp(join(tmpdir(), 'sluice-e2e-'))
  const port = await freePort()
  const child = Bun.spawn(command, {
    cwd,
    env: { ...ownEnvironment(), DATA_DIR: dataDir, PORT: String(port), SUPERVISED: '1', ...env },
    detached: true,
    stdin: 'pipe',
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const lines: string[] = []
  const restarts: string[] = []
  const log = () => lines.join('\n')
  const stop = async () => {
    cancelCleanup()
    child.kill('SIGINT')
    const hardStop = setTimeout(() => child.kill('SIGKILL'), STOP_LIMIT_MS)
    const code = await child.exited
    clearTimeout(hardStop)
    const killed = await killAllIn(dataDir, FAREWELL_MS)
    await rm(dataDir, { recursive: true, force: true })
    if (code !== 0) return `exit code ${code}\n${log()}`
    if (killed > 0) return `${killed} processes had to be killed after the stop\n${log()}`
    return restarts.length === 0 ? undefined : restarts.join('\n')
  }
  const cancelCleanup = endWith(stop)

  const ready = Promise.withResolvers<boolean>()
  const collect = (line: string) => {
    onLine(line)
    if (!ANSWERED.test(line)) lines.push(line)
    if (RESTARTED.test(line)) restarts.push(line)
    if (lines.length > KEPT_LINES) lines.shift()
    if (line.includes('Sluice is ready on')) ready.resolve(true)
  }
  const drained = Promise.all([eachLine(child.stdout, collect), eachLine(child.stderr, collect)])
  const limit = setTimeout(() => ready.resolve(false), READY_LIMIT_MS)
  const isReady = await Promise.race([ready.promise, child.exited.then(() => drained).then(() => false)])
  clearTimeout(limit)
  if (!isReady) {
    await stop()
    throw new Error(`the service did not become ready\n${log()}`)
  }
  return { url: `http://127.0.0.1:${port}`, pid: child.pid, dataDir, log, stop }
}

/** Only variables that any program needs. The tests must not use the developer's `DATABASE_URL`, for example. */
const ownEnvironment = () =>
  Object.fromEntries(['PATH', 'HOME', 'TMPDIR', 'LANG', 'TZ', 'CI'].map((name) => [name, process.env[name]]))
