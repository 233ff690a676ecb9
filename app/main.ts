// Entry of the API process: reads the environment, starts threads and server around the service, and ends in order.

import { migrate, openDatabase } from '../drizzle/client.ts'
import { startLoop } from '../workers/loop.ts'
import { performDue } from '../workers/outbox.ts'
import { startThreads } from '../workers/threads.ts'
import { LAKE_FILE_BYTES_MAX } from './catalog/gateway.ts'
import { systemClock as clock } from './clock.ts'
import { composeService } from './compose.ts'
import { type Config, ConfigError, parseConfig } from './config.ts'
import { newId } from './ids.ts'
import { limits } from './limits.ts'
import { makeLog } from './log.ts'
import { makeMetrics } from './metrics.ts'
import { openObjectStore } from './objects/open.ts'
import { StoreUnavailable } from './objects/port.ts'

/** sysexits.h: the environment is wrong, and starting again would not mend it. */
const EX_CONFIG = 78
/** Something the environment names cannot be used now. */
const EX_UNAVAILABLE = 69
/** Requests under way at the end may take this long. */
const DRAIN_MS = 3_000
/** The largest any route takes; each counts against its own limit as it reads. */
const MAX_BODY_BYTES = LAKE_FILE_BYTES_MAX

async function start(config: Config) {
  const log = makeLog('api', config.logFormat)
  const metrics = makeMetrics()
  await migrate(config.databaseUrl)
  const database = openDatabase(config.databaseUrl, {
    connections: 10,
    rawConnections: 12,
    application: 'sluice api',
    settings: { statement_timeout: 60_000, idle_in_transaction_session_timeout: 60_000 },
  })
  const { sql } = database
  const objects = await openObjectStore(config.store)
  const threads = startThreads({ config, processId: newId(), sql, objects, log, metrics })
  const service = await composeService({
    config,
    log,
    metrics,
    clock,
    newId,
    database,
    objects,
    background: threads,
  })
  const effects = startLoop({
    everyMs: limits.sweepMs,
    onError: (error) => log.error('performing effects failed', { error }),
    tick: () =>
      performDue(sql, service.effects, (kind, error) =>
        log.warn(`effect ${kind} failed; it is tried again`, { error }),
      ),
  })
  const server = Bun.serve({
    hostname: config.host,
    port: config.port,
    fetch(request, server) {
      // The one answer that may be long in coming: it waits for the reaper.
      if (request.method === 'POST' && request.url.endsWith('/retention/run')) server.timeout(request, 0)
      return service.app.fetch(request, { address: server.requestIP(request)?.address ?? null })
    },
    // Longer than the heartbeat of event streams.
    idleTimeout: 120,
    maxRequestBodySize: MAX_BODY_BYTES,
  })
  log.info(`listening on ${server.url.origin}`)

  return {
    restartWorkers: threads.restart,
    async stop() {
      service.endStreams()
      await Promise.race([server.stop(), pause(DRAIN_MS)])
      await Promise.all([threads.stop(), effects.stop()])
      await server.stop(true)
      await service.stop()
      await Promise.all([database.close(), objects.close()])
    },
  }
}

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))

try {
  const config = parseConfig(process.env, process.cwd())
  const running = await start(config)
  let isEnding = false
  const end = () => {
    if (isEnding) return
    isEnding = true
    void running.stop().then(() => process.exit(0))
  }
  process.on('SIGTERM', end)
  process.on('SIGINT', end)
  process.on('SIGUSR2', () => running.restartWorkers())
  // The supervisor holds our stdin: it ends when the supervisor does, however that ends.
  if (process.env.SUPERVISED === '1') process.stdin.once('end', end).resume()
} catch (error) {
  const code =
    error instanceof ConfigError ? EX_CONFIG : error instanceof StoreUnavailable ? EX_UNAVAILABLE : 1
  const lines =
    error instanceof ConfigError ? error.problems : [error instanceof Error ? error.message : String(error)]
  for (const line of lines) process.stderr.write(`${line}\n`)
  process.exit(code)
}
