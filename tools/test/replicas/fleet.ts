/**
 * A fleet as operators run it: API replicas, runners and query services are processes of their own. They share one Postgres and
 * one S3 server, and a balancer is before the replicas. A process that ends is started again at its address, as a process manager does.
 */
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { queryAt, runnerAt } from '../../../app/rpc/clients.ts'
import { childProcess } from '../../../sidecars/supervisor/child.ts'
import { holdPort } from '../../../sidecars/supervisor/ports.ts'
import { supervise, type Tree } from '../../../sidecars/supervisor/tree.ts'
import { endWith } from '../../kit/scratch.ts'
import { until } from '../../kit/until.ts'
import { startS3Server } from '../../service/s3-server.ts'
import { startSystemPostgres } from '../../service/system-postgres.ts'
import { type Balancer, startBalancer } from './balancer.ts'

/** The checkout under test. */
export const ROOT = join(import.meta.dirname, '..', '..', '..')
/** A replica uses up to 52 connections, and an upgrade runs two sets of replicas. */
const CONNECTIONS = 400
const STOP_DEADLINE_MS = 30_000
/** HAProxy probes every half second, and two failed probes are enough. */
const STOP_DELAY_SECONDS = 3
const KEPT_LINES = 400
/** Log lines of successful requests. They explain no failure, so they are not stored. */
const ANSWERED = /^api-\d+ [A-Z]+ \/\S+ [234]\d\d /
/** Host names and origins that the end-to-end tests use. A service without authentication accepts no others. */
const KNOWN_TO_TESTS = { ALLOWED_HOSTS: 'sluice.test,a', CORS_ORIGINS: 'http://localhost:3000' }

const KINDS = ['api', 'runner', 'query'] as const
type Kind = (typeof KINDS)[number]
/** The number of addresses of each kind. An upgrade starts its replicas at further addresses. */
export type Sizes = Record<Kind, number>

const ENTRIES: Record<Kind, string> = {
  api: 'app/entry/main.ts',
  runner: 'sidecars/runner/main.ts',
  query: 'sidecars/query/main.ts',
}

/** The entry file of a version. Before 2026-11-29 the one of the API was `app/main.ts`. */
function entryIn(root: string, kind: Kind): string {
  const entry = ENTRIES[kind]
  return existsSync(join(root, entry)) ? entry : entry.replace('/entry/', '/')
}

export interface Fleet {
  /** The address of the balancer. */
  url: string
  databaseUrl: string
  balancer: Balancer
  /** The names of the running parts, such as `runner-2`. */
  names(): string[]
  urlOf(name: string): string
  pidOf(name: string): number | undefined
  /** Starts these parts with the code at `root`, and waits until they answer. */
  start(names: readonly string[], root?: string): Promise<void>
  /** Sends a signal to a part and waits until its successor answers at its address. Returns the time of the signal. */
  restart(name: string, signal: 'SIGTERM' | 'SIGKILL'): Promise<number>
  /** Stops a part for good. */
  end(name: string): Promise<void>
  log(): string
  stop(): Promise<void>
}

export const namesOf = (kind: Kind, from: number, count: number) =>
  Array.from({ length: count }, (_, n) => `${kind}-${from + n}`)
const kindOf = (name: string) => name.slice(0, name.lastIndexOf('-')) as Kind

/** `further` are variables of every replica, and `settings` those of Postgres. */
export async function openFleet(
  sizes: Sizes,
  { further = {}, settings = [] }: { further?: Record<string, string>; settings?: string[] } = {},
): Promise<Fleet> {
  const directory = await mkdtemp(join(tmpdir(), 'fleet-'))
  const [postgres, s3] = await Promise.all([
    startSystemPostgres([`max_connections=${CONNECTIONS}`, ...settings]),
    startS3Server(),
  ])
  const ports = await portsFor(KINDS.flatMap((kind) => namesOf(kind, 1, sizes[kind])))
  const portsOf = (kind: Kind) => [...ports].flatMap(([name, port]) => (kindOf(name) === kind ? port : []))
  const balancer = await startBalancer(directory, portsOf('api'))
  const token = randomBytes(32).toString('hex')
  const listed = (kind: Kind) =>
    portsOf(kind)
      .map((port) => `http://127.0.0.1:${port}`)
      .join(',')
  const lines: string[] = []
  const log = (name: string, line: string) => {
    const text = `${name} ${line}`
    if (!ANSWERED.test(text)) lines.push(text)
    if (lines.length > KEPT_LINES) lines.shift()
  }
  const trees = new Map<string, Tree>()
  const urlOf = (name: string) => `http://127.0.0.1:${ports.get(name)}`
  const pidOf = (name: string) => trees.get(name)?.states()[0]?.pid
  const access = { token, tokenUrls: null, publicUrl: balancer.url }

  const environmentOf = (name: string) => {
    const own = join(directory, name)
    const common = { ...passedOn(), PORT: String(ports.get(name)), SIDECAR_TOKEN: token, LOG_FORMAT: 'text' }
    if (kindOf(name) !== 'api')
      return { ...common, SCRATCH_DIR: own, API_URLS: balancer.url, RUNNER_CONCURRENCY: '2' }
    return {
      ...common,
      ...s3.env,
      ...KNOWN_TO_TESTS,
      DATA_DIR: own,
      DATABASE_URL: postgres.url,
      PUBLIC_URL: balancer.url,
      RUNNER_URLS: listed('runner'),
      QUERY_URLS: listed('query'),
      STOP_DELAY: String(STOP_DELAY_SECONDS),
      ...further,
    }
  }

  /** Waits until the part serves: a replica for the balancer, a sidecar for its callers. */
  async function answers(name: string) {
    const url = urlOf(name)
    if (kindOf(name) === 'api') return until(() => balancer.isUp(ports.get(name) ?? 0))
    const remote = (kindOf(name) === 'runner' ? runnerAt : queryAt)(url, () => {}, access)
    return until(() =>
      remote.check(AbortSignal.timeout(1_000)).then(
        () => true,
        () => false,
      ),
    )
  }

  const stopTrees = (names: readonly string[]) => Promise.all(names.map((name) => trees.get(name)?.stop()))
  const stop = async () => {
    cancelCleanup()
    for (const kind of KINDS) await stopTrees([...trees.keys()].filter((name) => kindOf(name) === kind))
    await Promise.all([balancer.stop(), postgres.stop(), s3.stop()])
  }
  const cancelCleanup = endWith(stop)

  return {
    url: balancer.url,
    databaseUrl: postgres.url,
    balancer,
    names: () => [...trees.keys()],
    urlOf,
    pidOf,
    async start(names, root = ROOT) {
      await Promise.all(
        names.map(async (name) => {
          await mkdir(join(directory, name), { recursive: true })
          const command = [process.execPath, entryIn(root, kindOf(name))]
          const env = () => environmentOf(name)
          const part = childProcess({ name, command, env, cwd: root, stopDeadlineMs: STOP_DEADLINE_MS, log })
          const tree = supervise([[part]], { log: (source, line) => log(source, line) })
          trees.set(name, tree)
          await tree.start()
          await answers(name)
        }),
      )
    },
    async restart(name, signal) {
      const pid = await until(() => pidOf(name))
      const at = performance.now()
      process.kill(pid as number, signal)
      await until(() => pidOf(name) !== undefined && pidOf(name) !== pid)
      // Otherwise HAProxy might still show the state of the ended process.
      if (kindOf(name) === 'api') await until(() => isReady(urlOf(name)))
      await answers(name)
      return at
    },
    async end(name) {
      await trees.get(name)?.stop()
      trees.delete(name)
    },
    log: () => lines.join('\n'),
    stop,
  }
}

/** A port for each name. All are held at the same time, so no two are equal. */
async function portsFor(names: readonly string[]): Promise<Map<string, number>> {
  const held = await Promise.all(names.map(async (name) => [name, await holdPort()] as const))
  await Promise.all(held.map(([, { release }]) => release()))
  return new Map(held.map(([name, { port }]) => [name, port]))
}

const isReady = (url: string) =>
  fetch(`${url}/health/ready`, { signal: AbortSignal.timeout(5_000) }).then(
    ({ ok }) => ok,
    () => false,
  )

/** Variables that any program needs. */
const passedOn = () =>
  Object.fromEntries(['PATH', 'HOME', 'TMPDIR', 'LANG', 'TZ'].map((name) => [name, process.env[name]]))
