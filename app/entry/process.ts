// The life of an API process on any runtime: read the environment, compose the service, answer requests, stop in order. The
// entry files supply the HTTP server and the background work.
import process from 'node:process'
import { type Database, migrate, openDatabase, type Sql, UnknownHistory } from '../../drizzle/client.ts'
import { endInOrder, endWithParent } from '../../ground/process/lifeline.ts'
import { startTracing } from '../../ground/telemetry/spans.ts'
import { composeService, type Service } from '../composition/compose.ts'
import type { App } from '../composition/server.ts'
import { KEY_LENGTH_MIN } from '../config/access-settings.ts'
import { type Config, ConfigError, parseConfig } from '../config/config.ts'
import type { ProcessBackground } from '../core/background.ts'
import { systemClock as clock } from '../core/clock.ts'
import { newId } from '../core/ids.ts'
import { batchLines, type Log, makeLog } from '../core/log.ts'
import { type Metrics, makeMetrics } from '../core/metrics.ts'
import { openObjectStore } from '../objects/open.ts'
import { type ObjectStore, StoreUnavailable } from '../objects/port.ts'
import { requireLakeRoot } from '../versions/lake-root.ts'
import { withCheckout } from './checkout.ts'

/** Time of a slow statement: lists, lineage, the audit log. */
const PATIENT_STATEMENT_MS = 30_000
/** Pause inside a transaction, for example while its objects are moved. */
const IDLE_IN_TRANSACTION_MS = 60_000

/** An idle connection is closed after this time, which is longer than the heartbeat of event streams. */
export const IDLE_SECONDS = 120
/** Time for the headers of a request. A slow sender must not hold a connection. */
export const HEADERS_SECONDS = 10

/** sysexits.h: the environment is invalid, so a restart would not help. */
const EX_CONFIG = 78
/** sysexits.h: a dependency that the environment names is unavailable. */
const EX_UNAVAILABLE = 69
/** Time for open requests at the end of the process. */
const DRAIN_MS = 3_000

type Env = Record<string, string | undefined>

interface ProcessParts {
  env: Env
  /** Resolves when the server accepts requests. */
  serve(app: App, address: { host: string; port: number }): Promise<Serving>
  makeBackground(parts: BackgroundParts): ProcessBackground
  /** Performs effects from the outbox until it is stopped. */
  startEffects(sql: Sql, effects: Service['effects'], log: Log): { stop(): Promise<void> }
}

export interface Serving {
  /** Accepts no more requests; resolves when the open requests are answered. */
  drain(): Promise<unknown>
  /** Closes all connections. */
  close(): Promise<unknown>
}

interface BackgroundParts {
  config: Config
  processId: string
  sql: Sql
  objects: ObjectStore
  log: Log
  metrics: Metrics
}

/** Runs until a signal or the end of the supervisor ends the process. */
export async function runProcess(parts: ProcessParts): Promise<void> {
  try {
    const config = withCheckout(parseConfig(parts.env, process.cwd()))
    if (config.isOpenToNetwork) process.stderr.write(openWarning(config.host))
    if (config.isWeakKey) process.stderr.write(WEAK_KEY_WARNING)
    // A process whose parent ends during the start exits without an orderly stop, because a dependency may never answer.
    endWithParent(parts.env, () => {})
    const running = await start(config, parts)
    endInOrder(parts.env, () => running.stop())
    process.on('SIGUSR2', () => running.restartWorkers())
  } catch (error) {
    fail(error)
  }
}

async function start(config: Config, { serve, makeBackground, startEffects }: ProcessParts) {
  const lines = batchLines((text) => process.stdout.write(text))
  process.on('exit', lines.flush)
  const log = makeLog('api', config.logFormat, lines.write)
  const metrics = makeMetrics()
  const stopTelemetry = await startTelemetry(config, metrics)
  const { database, patient } = await openMigrated(config)
  const { sql } = database
  const objects = await openObjectStore(config.store)
  await requireLakeRoot(sql, config.lakeRoot)
  const background = makeBackground({ config, processId: newId(), sql, objects, log, metrics })
  const service = await composeService({
    config,
    log,
    metrics,
    clock,
    newId,
    database,
    patient,
    objects,
    background,
  })
  const effects = startEffects(sql, service.effects, log)
  const server = await serve(service.app, config)
  log.info(
    `listening on http://${config.host.includes(':') ? `[${config.host}]` : config.host}:${config.port}`,
  )
  // The workers start last: four starting threads would compete with the start of the API.
  background.start()

  return {
    restartWorkers: background.restart,
    async stop() {
      // Streams continue meanwhile, because their clients would come back to this replica.
      service.leave()
      await pause(config.stopDelayMs)
      service.endStreams()
      await Promise.race([server.drain(), pause(DRAIN_MS)])
      await Promise.all([background.stop(), effects.stop()])
      await server.close()
      await service.stop()
      await Promise.all([database.close(), patient.close(), objects.close(), stopTelemetry()])
    },
  }
}

/** Sends spans and metrics where the environment says so. Returns a function that sends the last ones. */
async function startTelemetry({ tracing, metricsExport }: Config, metrics: Metrics) {
  const stopTracing = await startTracing(tracing, 'api')
  if (metricsExport === null) return stopTracing
  // The packages are loaded only with a collector.
  const { exportMetrics } = await import('../core/otlp-metrics.ts')
  const stopMetrics = exportMetrics(metricsExport, metrics.objects, clock)
  return async () => void (await Promise.all([stopTracing(), stopMetrics()]))
}

const WEAK_KEY_WARNING = `WARNING: PLATFORM_API_KEY has fewer than ${KEY_LENGTH_MIN} characters and can be guessed: set a longer key.\n`

function openWarning(host: string) {
  const frame = '!'.repeat(100)
  return [
    frame,
    `WARNING: no authentication: every client that reaches ${host} can read, change and delete all data.`,
    'Set PLATFORM_API_KEY, or restrict access with a proxy or a firewall (ALLOW_OPEN=true confirms that).',
    frame,
    '',
  ].join('\n')
}

async function openMigrated(config: Config): Promise<{ database: Database; patient: Database }> {
  await migrate(config.databaseUrl)
  const open = (connections: number, rawConnections: number, statementMs: number) =>
    openDatabase(config.databaseUrl, {
      connections,
      rawConnections,
      application: 'sluice api',
      settings: {
        statement_timeout: statementMs,
        idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_MS,
      },
    })
  return {
    database: open(4, 6, config.databaseTimeoutMs),
    patient: open(1, 3, Math.max(config.databaseTimeoutMs, PATIENT_STATEMENT_MS)),
  }
}

/** Prints the error and ends a process that could not start. */
export function fail(error: unknown): never {
  const code =
    error instanceof ConfigError
      ? EX_CONFIG
      : error instanceof StoreUnavailable || error instanceof UnknownHistory
        ? EX_UNAVAILABLE
        : 1
  const lines =
    error instanceof ConfigError ? error.problems : [error instanceof Error ? error.message : String(error)]
  for (const line of lines) process.stderr.write(`${line}\n`)
  process.exit(code)
}

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))
