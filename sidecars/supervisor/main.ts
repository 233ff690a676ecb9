/**
 * `npm start`: runs Postgres, runner, query service and API as one supervised tree. `describeTree` returns its parts as data.
 */
import { randomBytes } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { endWithParent } from '../../ground/process/lifeline.ts'
import { checkDatabase, claimDataDirectory, holdServicePort } from './checks.ts'
import { childProcess } from './child.ts'
import { jsonLog, textLog, type WriteLine } from './log.ts'
import { buildForNode } from './node-build.ts'
import { type HeldPort, holdPort } from './ports.ts'
import { isRoutine, startPostgres } from './postgres.ts'
import { untilReady } from './ready.ts'
import { messageOf, Refusal } from './refusal.ts'
import { endLeftovers, readRegistry, removeRegistry, writeRegistry } from './registry.ts'
import { apiEnv, readSettings, type Settings, sidecarEnv } from './settings.ts'
import { type Part, supervise, type Tree } from './tree.ts'
import { askHttp, askPostgres, askSidecar } from './watchdog.ts'

const root = join(import.meta.dirname, '..', '..')
const write = (line: string) => process.stdout.write(line)
const API_STOP_DEADLINE_MS = 8_000
const SIDECAR_STOP_DEADLINE_MS = 5_000
/**
 * Node 20 parses 64-bit integers exactly only with `--harmony-json-parse-with-source`. Newer versions do so anyway and accept
 * the flag.
 */
const NODE_OPTIONS = ['--enable-source-maps', '--harmony-json-parse-with-source']
/** Deno uses the packages of this checkout and downloads nothing. */
const DENO_OPTIONS = ['--no-lock', '--no-remote', '--node-modules-dir=manual']

let tree: Tree | undefined
let cleanUp: (() => void) | undefined
let ending: Promise<void> | undefined
let isReady = false

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => end(0))
endWithParent(process.env, () => end(0))
// Everything depends on this process, so a fault in one of its callbacks ends nothing.
for (const event of ['uncaughtException', 'unhandledRejection'] as const)
  process.on(event, (error) =>
    process.stderr.write(`internal error of the supervisor: ${messageOf(error)}\n`),
  )
// The reader of the log may close the pipe before this process ends.
process.stdout.on('error', () => {})

try {
  await start()
} catch (error) {
  // After an interrupt, the unfinished start fails as expected, so its error is not printed.
  if (!ending) process.stderr.write(`Sluice did not start: ${messageOf(error)}\n`)
  await end(1)
}

async function start() {
  const settings = readSettings(process.env, root)
  const { dataDir } = settings
  const log = settings.logFormat === 'json' ? jsonLog(write) : textLog(write)
  const own = (message: string) => log('sluice', message)

  const claim = claimDataDirectory(
    dataDir,
    () => `another Sluice (${readRegistry(dataDir)?.url ?? 'starting'})`,
  )
  cleanUp = claim.release
  if (claim.openBecause !== null)
    own(
      `warning: other users can enter the data directory ${dataDir} (${claim.openBecause}): set DATA_DIR, or run chmod 700`,
    )
  const previous = readRegistry(dataDir)
  if (previous) await endLeftovers(previous, own)
  const servicePort = await holdServicePort(settings.host, settings.port)
  if (settings.databaseUrl) await checkDatabase(settings.databaseUrl)
  for (const part of ['runner', 'query']) await mkdir(join(dataDir, 'scratch', part), { recursive: true })

  const described = await describeTree(settings, servicePort, log)
  const supervised = supervise(described.stages, {
    log,
    wasReady: () => isReady,
    onChange: () =>
      writeRegistry(
        dataDir,
        { url: settings.localUrl, databaseUrl: described.databaseUrl() },
        supervised.states(),
      ),
  })
  tree = supervised
  cleanUp = () => {
    removeRegistry(dataDir)
    claim.release()
    own('Sluice has stopped')
  }
  void supervised.gaveUp.then(({ name, reason }) => {
    const outcome = isReady ? 'stops' : 'did not start'
    process.stderr.write(`Sluice ${outcome}: ${name} refuses its configuration: ${reason}\n`)
    return end(1)
  })
  await supervised.start()
  await untilReady(settings, described.sidecarPorts, own)
  isReady = true
  own(`Sluice is ready on ${settings.localUrl} (${(performance.now() / 1000).toFixed(1)} s)`)
}

/** Returns the stages in the order of their start. Each part is a process that can be restarted at the same address. */
async function describeTree(settings: Settings, servicePort: HeldPort, log: WriteLine) {
  let databaseUrl = settings.databaseUrl ?? ''
  // Each port is held until its owner starts, so that no two parts choose the same port.
  const postgresPort = settings.databaseUrl ? undefined : await holdPort()
  const runnerPort = settings.runnerUrls ? undefined : await holdPort()
  const queryPort = settings.queryUrls ? undefined : await holdPort()
  const postgres = (held: HeldPort): Part => ({
    name: 'postgres',
    ask: askPostgres(held.port),
    start: async () => {
      const server = await startPostgres({
        dataDir: settings.dataDir,
        port: held.port,
        log: (line) => isRoutine(line) || log('postgres', line),
      })
      databaseUrl = server.url
      return server
    },
  })
  const sidecar = (name: string, held: HeldPort) =>
    startedAt(
      held,
      childProcess({
        name,
        command: [process.execPath, `sidecars/${name}/main.ts`],
        env: () => sidecarEnv(process.env, settings, { name, port: held.port }),
        cwd: root,
        port: held.port,
        ask: askSidecar(held.port, settings.sidecarToken),
        stopDeadlineMs: SIDECAR_STOP_DEADLINE_MS,
        log,
      }),
    )
  const { runtime, workers } = await describeRuntime(settings)
  const sidecarPorts = [runnerPort, queryPort].flatMap((held) => held?.port ?? [])
  const environment = () => ({
    ...apiEnv(process.env, settings, {
      databaseUrl,
      runnerUrls: settings.runnerUrls ?? `http://127.0.0.1:${runnerPort?.port}`,
      queryUrls: settings.queryUrls ?? `http://127.0.0.1:${queryPort?.port}`,
      ownSidecars: sidecarPorts.map((port) => `http://127.0.0.1:${port}`),
    }),
    ...workers?.env,
  })
  const stopDeadlineMs = API_STOP_DEADLINE_MS + settings.stopDelayMs
  const beside = { env: environment, cwd: root, stopDeadlineMs, log }
  const ask = askHttp(`${settings.localUrl}/health`)
  const api = childProcess({ ...beside, name: 'api', command: runtime, port: settings.port, ask })
  const stages = [
    // The sidecars need no database, so they start together with Postgres.
    [
      ...(postgresPort ? [startedAt(postgresPort, postgres(postgresPort))] : []),
      ...(runnerPort ? [sidecar('runner', runnerPort)] : []),
      ...(queryPort ? [sidecar('query', queryPort)] : []),
    ],
    [startedAt(servicePort, api)],
    // Starts after the API and ends before it, because the workers request objects from the API.
    workers
      ? [
          startedAt(
            workers.held,
            childProcess({
              ...beside,
              name: 'workers',
              command: [process.execPath, 'workers/main.ts'],
              port: workers.held.port,
            }),
          ),
        ]
      : [],
  ]
  return { stages, sidecarPorts, databaseUrl: () => databaseUrl }
}

/** Returns the command of the API process. If the API does not run on Bun, its workers run in a separate process. */
async function describeRuntime({ apiRuntime, dataDir }: Settings) {
  if (apiRuntime === 'bun') return { runtime: [process.execPath, 'app/entry/main.ts'] }
  const binary = Bun.which(apiRuntime)
  if (binary === null)
    throw new Refusal(
      `API_RUNTIME=${apiRuntime}: ${apiRuntime} not found on the PATH: install it, or set API_RUNTIME=bun`,
    )
  const held = await holdPort()
  const env = { WORKERS_PORT: String(held.port), WORKERS_TOKEN: randomBytes(32).toString('hex') }
  const workers = { held, env }
  if (apiRuntime === 'deno')
    return { runtime: [binary, 'run', '--allow-all', ...DENO_OPTIONS, 'app/entry/main-deno.ts'], workers }
  const folder = join(dataDir, 'run', 'api-node')
  const built = await buildForNode({ root, entry: 'app/entry/main-node.ts', folder })
  return { runtime: [binary, ...NODE_OPTIONS, built], workers }
}

/** Returns a part that releases its held port just before it starts. */
function startedAt(held: HeldPort, part: Part): Part {
  const start = async () => {
    await held.release()
    return part.start()
  }
  return { ...part, start }
}

/** Stops everything once, then exits. Further signals have no effect, since every step has a deadline. */
function end(code: number): Promise<void> {
  ending ??= (async () => {
    try {
      await tree?.stop()
      cleanUp?.()
    } catch (error) {
      process.stderr.write(`Sluice stops with an error: ${messageOf(error)}\n`)
    }
    process.exit(code)
  })()
  return ending
}
