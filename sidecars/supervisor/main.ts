/** `npm start`: Postgres, runner, query and API as one supervised tree. What is started is data, in `describeTree`. */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { checkDatabase, checkPortIsFree, claimDataDirectory } from './checks.ts'
import { childProcess } from './child.ts'
import { endWithParent } from './lifeline.ts'
import { jsonLog, textLog, type WriteLine } from './log.ts'
import { freePorts } from './ports.ts'
import { isRoutine, startPostgres } from './postgres.ts'
import { untilReady } from './ready.ts'
import { messageOf } from './refusal.ts'
import { endLeftovers, readRegistry, removeRegistry, writeRegistry } from './registry.ts'
import { apiEnv, readSettings, type Settings, sidecarEnv } from './settings.ts'
import { type Part, supervise, type Tree } from './tree.ts'

const root = join(import.meta.dirname, '..', '..')
const write = (line: string) => process.stdout.write(line)
/** sysexits.h EX_CONFIG: the API process has said what is wrong with the environment. */
const CONFIGURATION_ERROR = 78
const API_STOP_DEADLINE_MS = 8_000
const SIDECAR_STOP_DEADLINE_MS = 5_000

let tree: Tree | undefined
let farewell: (() => void) | undefined
let ending: Promise<void> | undefined

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => end(0))
endWithParent(() => end(0))
// Whoever read our log may leave before we do.
process.stdout.on('error', () => {})

try {
  await start()
} catch (error) {
  // A start that was interrupted fails in many ways, and none of them is news.
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
  farewell = claim.release
  const previous = readRegistry(dataDir)
  if (previous) await endLeftovers(previous, own)
  await checkPortIsFree(settings.host, settings.port)
  if (settings.databaseUrl) await checkDatabase(settings.databaseUrl)
  for (const part of ['runner', 'query']) await mkdir(join(dataDir, 'scratch', part), { recursive: true })

  const described = await describeTree(settings, log)
  const supervised = supervise(described.stages, {
    log,
    onChange: () =>
      writeRegistry(
        dataDir,
        { url: settings.localUrl, databaseUrl: described.databaseUrl() },
        supervised.states(),
      ),
  })
  tree = supervised
  farewell = () => {
    removeRegistry(dataDir)
    claim.release()
    own('Sluice has stopped')
  }
  void supervised.gaveUp.then((name) => {
    process.stderr.write(`Sluice did not start: ${name} refuses its configuration\n`)
    return end(1)
  })
  await supervised.start()
  await untilReady(settings.localUrl, described.sidecarPorts, own)
  own(`Sluice is ready on ${settings.localUrl} (${(performance.now() / 1000).toFixed(1)} s)`)
}

/** Stages in the order of starting; each part as a process that can be started again at the same address. */
async function describeTree(settings: Settings, log: WriteLine) {
  let databaseUrl = settings.databaseUrl ?? ''
  let postgresPort: number | undefined
  const postgres: Part = {
    name: 'postgres',
    start: async () => {
      const server = await startPostgres({
        dataDir: settings.dataDir,
        port: postgresPort,
        log: (line) => isRoutine(line) || log('postgres', line),
      })
      databaseUrl = server.url
      postgresPort = server.port
      return server
    },
  }
  const [runnerPort = 0, queryPort = 0] = await freePorts(2)
  const sidecar = (name: string, port: number) =>
    childProcess({
      name,
      command: [process.execPath, `sidecars/${name}/main.ts`],
      env: () => sidecarEnv(process.env, settings, { name, port }),
      cwd: root,
      port,
      stopDeadlineMs: SIDECAR_STOP_DEADLINE_MS,
      log,
    })
  const api = childProcess({
    name: 'api',
    command: [process.execPath, 'app/main.ts'],
    env: () =>
      apiEnv(process.env, settings, {
        databaseUrl,
        runnerUrls: settings.runnerUrls ?? `http://127.0.0.1:${runnerPort}`,
        queryUrls: settings.queryUrls ?? `http://127.0.0.1:${queryPort}`,
      }),
    cwd: root,
    port: settings.port,
    stopDeadlineMs: API_STOP_DEADLINE_MS,
    finalCode: CONFIGURATION_ERROR,
    log,
  })
  const stages = [
    settings.databaseUrl ? [] : [postgres],
    [
      ...(settings.runnerUrls ? [] : [sidecar('runner', runnerPort)]),
      ...(settings.queryUrls ? [] : [sidecar('query', queryPort)]),
    ],
    [api],
  ]
  const sidecarPorts = [
    ...(settings.runnerUrls ? [] : [runnerPort]),
    ...(settings.queryUrls ? [] : [queryPort]),
  ]
  return { stages, sidecarPorts, databaseUrl: () => databaseUrl }
}

/** Stops everything and exits, once: further signals change nothing, since every step has a deadline. */
function end(code: number): Promise<void> {
  ending ??= (async () => {
    await tree?.stop()
    farewell?.()
    process.exit(code)
  })()
  return ending
}
