/**
 * The embedded Postgres: a real cluster under `<dataDir>/postgres`, reached over loopback TCP with a random password. It uses
 * TCP, because a URL of postgres.js cannot name a socket directory (ADR 1).
 */
import { randomBytes } from 'node:crypto'
import { closeSync, constants, existsSync, openSync } from 'node:fs'
import {
  chown,
  mkdir,
  readdir,
  readFile,
  readlink,
  realpath,
  rename,
  rm,
  stat,
  writeFile,
} from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { eachLine } from './lines.ts'
import { freePort } from './ports.ts'
import {
  type Account,
  type Binaries,
  embeddedBinaries,
  isCode,
  unprivilegedAccount,
} from './postgres-binaries.ts'

export type Postgres = {
  /** `postgres://sluice:<password>@127.0.0.1:<port>/sluice` */
  url: string
  port: number
  pid: number
  /** Resolves with the exit code when the server has ended, for any reason. */
  exited: Promise<number>
  /** Ends connections, writes a checkpoint and exits. The server is killed after 10 s. */
  stop: () => Promise<void>
  /** Ends the server at once, as after a crash. */
  kill: () => void
}

type PostgresOptions = {
  dataDir: string
  log: (line: string) => void
  /** A fixed port across restarts, so that clients find their server again. */
  port?: number
  /** `false` trades crash safety for speed, in throw-away test clusters only. */
  durable?: boolean
  /**
   * Also listens on a socket in the cluster's directory, because a short statement takes a tenth longer over TCP. The server's
   * user and every client must be able to enter `dataDir`.
   */
  hasSocket?: boolean
}

const USER = 'sluice'
const STOP_DEADLINE_MS = 10_000
/** Recovery after a crash takes longest, and replays at most max_wal_size. */
const START_DEADLINE_MS = 60_000
const START_ATTEMPTS = 5
const POLL_MS = 10

const SETTINGS = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  max_connections: '60',
  shared_buffers: '128MB',
  max_wal_size: '1GB',
  // The only available compression takes three times the CPU of a deletion of rows, in addition to the deletion itself.
  wal_compression: 'off',
  fsync: 'on',
  synchronous_commit: 'on',
  // Statements are short and connections few. Compilation costs more than it saves, and worker processes cost memory.
  jit: 'off',
  io_method: 'sync',
  max_logical_replication_workers: '0',
  timezone: 'UTC',
  lc_messages: 'C',
  // Failed statements belong in their caller's log, because they may contain a customer's data.
  log_min_messages: 'log',
  log_min_error_statement: 'panic',
  log_checkpoints: 'off',
  log_line_prefix: '',
}
const THROW_AWAY = {
  fsync: 'off',
  synchronous_commit: 'off',
  full_page_writes: 'off',
  max_connections: '200',
}
/** Some systems limit a socket address to 104 bytes, of which the file name takes 15. */
const SOCKET_DIRECTORY_BYTES = 88

/**
 * Starts the cluster of `dataDir`, and creates it first if necessary. Resolves when it accepts connections. Repairs the traces
 * of a crash: an unfinished initdb, an orphaned server, a stale postmaster.pid.
 */
export async function startPostgres(options: PostgresOptions): Promise<Postgres> {
  const binaries = embeddedBinaries()
  await mkdir(options.dataDir, { recursive: true })
  const dataDir = await realpath(options.dataDir)
  // On Linux another user enters the cluster through a descriptor, so the data directory stays closed to others.
  const account = unprivilegedAccount(HAS_DESCRIPTORS ? [binaries.postgres] : [binaries.postgres, dataDir])
  const cluster = join(dataDir, 'postgres')
  if (!existsSync(cluster)) await initialise(cluster, binaries, account, options.durable !== false)
  if ((await stat(cluster)).uid !== account.owner.uid) await giveTo(account, cluster)
  const data = join(cluster, 'data')
  await endLeftovers(data)
  const password = (await readFile(join(cluster, 'password'), 'utf8')).trim()

  let failure = ''
  for (let attempt = 1; attempt <= START_ATTEMPTS; attempt++) {
    const port = options.port ?? (await freePort())
    const started = await launch({ binaries, account, data, port, options })
    if ('server' in started) {
      const url = `postgres://${USER}:${password}@127.0.0.1:${port}/${USER}`
      return { url, port, ...started.server }
    }
    failure = started.failure
    if (!/could not create any TCP|shared memory block/.test(failure)) break
    await Bun.sleep(100 * attempt)
  }
  throw new Error(`the embedded Postgres did not start: ${failure}`)
}

/** Whether a directory can be entered through `/proc/self/fd`, whatever the modes of the directories above. */
const HAS_DESCRIPTORS = process.platform === 'linux'
/** The first descriptor after standard input, output and error. */
const BY_DESCRIPTOR = '/proc/self/fd/3'

/**
 * Starts a program of Postgres that works in `cluster`. `argvOf` gets the path by which the program reaches that directory. A
 * program of another user inherits a descriptor, because `DATA_DIR` is closed to that user.
 */
function spawnIn(
  cluster: string,
  account: Account,
  argvOf: (reached: string) => string[],
  { input, env }: { input?: string; env?: Record<string, string> } = {},
) {
  const isOther = HAS_DESCRIPTORS && account.spawn.uid !== undefined
  const descriptor = isOther ? openSync(cluster, constants.O_RDONLY | constants.O_DIRECTORY) : null
  try {
    return Bun.spawn(account.command(argvOf(descriptor === null ? cluster : BY_DESCRIPTOR)), {
      ...account.spawn,
      // A separate session: Ctrl-C in a terminal must reach only the supervisor, which stops Postgres last.
      detached: true,
      env: { PATH: process.env.PATH, TZ: 'UTC', ...env },
      cwd: '/',
      stdio: [
        input === undefined ? 'ignore' : new Blob([input]),
        'ignore',
        'pipe',
        ...(descriptor === null ? [] : [descriptor]),
      ],
    })
  } finally {
    if (descriptor !== null) closeSync(descriptor)
  }
}

/** Whether Postgres writes such a line at each start and stop. All other lines may report a problem. */
export const isRoutine = (line: string) => ROUTINE.test(line)
const ROUTINE =
  /^LOG: {2}(starting PostgreSQL|listening on|database system (was|is) shut down|database system is ready|received (fast|smart) shutdown|aborting any active|shutting down|background worker "logical)/

/** Clients find the socket through this setting, so the path must name the same directory in every process. */
const socketSettings = (cluster: string) =>
  Buffer.byteLength(cluster) > SOCKET_DIRECTORY_BYTES ? {} : { unix_socket_directories: cluster }

type Launch = { binaries: Binaries; account: Account; data: string; port: number; options: PostgresOptions }

type Launched = { server: Pick<Postgres, 'pid' | 'exited' | 'stop' | 'kill'> } | { failure: string }

async function launch({ binaries, account, data, port, options }: Launch): Promise<Launched> {
  const child = spawnIn(dirname(data), account, (reached) => {
    const settings = {
      ...SETTINGS,
      ...(options.durable === false ? THROW_AWAY : {}),
      ...(options.hasSocket ? socketSettings(dirname(data)) : {}),
      port: String(port),
    }
    const argv = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
    return [binaries.postgres, '-D', join(reached, basename(data)), ...argv]
  })
  const ready = Promise.withResolvers<'ready'>()
  const lastLines: string[] = []
  const drained = eachLine(child.stderr, (line) => {
    options.log(line)
    lastLines.push(line)
    if (lastLines.length > 20) lastLines.shift()
    if (line.includes('database system is ready to accept connections')) ready.resolve('ready')
  })
  const late = setTimeout(() => child.kill('SIGKILL'), START_DEADLINE_MS)
  const outcome = await Promise.race([ready.promise, child.exited.then(() => drained)])
  clearTimeout(late)
  if (outcome !== 'ready') {
    const why = lastLines.filter((line) => /^(FATAL|PANIC|WARNING|postgres|unshare)/.test(line)).join(' ')
    return { failure: why || lastLines.at(-1) || `exit code ${await child.exited}` }
  }
  const lifeline = holdLifeline(child.pid, data)
  const exited = child.exited.finally(() => lifeline.kill())
  const stop = async () => {
    child.kill('SIGINT')
    const deadline = setTimeout(() => child.kill('SIGKILL'), STOP_DEADLINE_MS)
    await exited
    clearTimeout(deadline)
    await endLeftovers(data)
  }
  // The next start ends the other processes of the cluster.
  return { server: { pid: child.pid, exited, stop, kill: () => child.kill('SIGKILL') } }
}

/**
 * Stops the server when this process ends. Postgres does not watch its parent, so a small shell process does. The shell's stdin
 * ends when this process ends in any way. Then the shell interrupts the server, if that pid still owns the cluster.
 */
function holdLifeline(pid: number, data: string) {
  const script = 'read -r _; read -r owner < "$2/postmaster.pid" && [ "$owner" = "$1" ] && kill -INT "$1"'
  return Bun.spawn(['sh', '-c', script, 'sluice-postgres-lifeline', String(pid), data], {
    detached: true,
    stdin: 'pipe',
    stdout: 'ignore',
    stderr: 'ignore',
  })
}

/** Builds the cluster beside its final path and then renames it. So a directory with the final name is always complete. */
async function initialise(cluster: string, binaries: Binaries, account: Account, durable: boolean) {
  const unfinished = `${cluster}.new`
  await rm(unfinished, { recursive: true, force: true })
  await mkdir(unfinished, { mode: 0o700 })
  const password = join(unfinished, 'password')
  await writeFile(password, `${randomBytes(32).toString('base64url')}\n`, { mode: 0o600 })
  for (const path of [unfinished, password]) await chown(path, account.owner.uid, account.owner.gid)
  await run(unfinished, account, (reached) => [
    binaries.initdb,
    `--pgdata=${join(reached, 'data')}`,
    `--username=${USER}`,
    `--pwfile=${join(reached, 'password')}`,
    '--auth=scram-sha-256',
    // The password has 256 random bits. Stretching it would only slow down each connection.
    '--set=scram_iterations=16',
    '--encoding=UTF8',
    '--locale=C',
    '--locale-provider=builtin',
    '--builtin-locale=C.UTF-8',
    ...(durable ? [] : ['--no-sync']),
  ])
  const single = (reached: string) => [binaries.postgres, '--single', '-D', join(reached, 'data'), 'postgres']
  await run(unfinished, account, single, `CREATE DATABASE ${USER};\n`)
  await rename(unfinished, cluster)
}

async function run(cluster: string, account: Account, argvOf: (reached: string) => string[], input = '') {
  const child = spawnIn(cluster, account, argvOf, { input, env: { LC_ALL: 'C' } })
  const [code, errorOutput] = await Promise.all([child.exited, new Response(child.stderr).text()])
  if (code !== 0) throw new Error(`the embedded Postgres could not be set up: ${errorOutput.trim()}`)
}

/** Changes the owner of a cluster that another account created (say, first as root and now inside a user namespace). */
async function giveTo({ owner }: Account, cluster: string) {
  const done = Bun.spawnSync(['chown', '-R', `${owner.uid}:${owner.gid}`, cluster])
  if (!done.success) {
    throw new Error(`cannot change the owner of ${cluster}: ${done.stderr.toString().trim()}`)
  }
}

/**
 * Ends the processes that a killed supervisor or postmaster left on this data directory. Also removes a postmaster.pid whose
 * number now belongs to another program, because Postgres would refuse to start.
 */
async function endLeftovers(data: string) {
  const pidFile = join(data, 'postmaster.pid')
  const pid = await readFile(pidFile, 'utf8').then(
    (text) => Number.parseInt(text, 10),
    (error) => {
      if (isCode(error, 'ENOENT')) return undefined
      throw error
    },
  )
  if (pid && (await isPostgresOn(pid, data))) {
    process.kill(pid, 'SIGINT')
    if (!(await gone(pid, data, STOP_DEADLINE_MS))) process.kill(pid, 'SIGKILL')
    await gone(pid, data, STOP_DEADLINE_MS)
  }
  for (const straggler of pid ? await processesOn(data) : []) {
    process.kill(straggler, 'SIGKILL')
    await gone(straggler, data, STOP_DEADLINE_MS)
  }
  await rm(pidFile, { force: true })
}

async function gone(pid: number, data: string, deadlineMs: number) {
  for (let waitedMs = 0; waitedMs < deadlineMs; waitedMs += POLL_MS) {
    if (!(await isPostgresOn(pid, data))) return true
    await Bun.sleep(POLL_MS)
  }
  return false
}

/**
 * Whether the process belongs to the cluster. Every process of a cluster works in its data directory. Outside of Linux only the
 * postmaster can be recognized.
 */
async function isPostgresOn(pid: number, data: string) {
  if (process.platform === 'linux') {
    return (await readlink(`/proc/${pid}/cwd`).catch(() => '')) === data
  }
  return Bun.spawnSync(['ps', '-o', 'command=', '-p', String(pid)]).stdout.includes(`-D ${data}`)
}

async function processesOn(data: string) {
  if (process.platform !== 'linux') return []
  const pids = (await readdir('/proc')).map(Number).filter((pid) => pid > 0)
  const found = await Promise.all(pids.map(async (pid) => ((await isPostgresOn(pid, data)) ? [pid] : [])))
  return found.flat()
}
