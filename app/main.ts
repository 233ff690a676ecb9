// Entry of the API process: reads the environment, puts the parts together, serves, and ends in order.

import { migrate, openDatabase } from '../drizzle/client.ts'
import type { FromWorker, ToDispatcher, ToScheduler, ToTriggers } from '../workers/channel.ts'
import { assertNever } from '../workers/channel.ts'
import { startLoop } from '../workers/loop.ts'
import { performDue } from '../workers/outbox.ts'
import { startReaper } from '../workers/reaper-host.ts'
import { superviseWorker } from '../workers/supervise.ts'
import { auditRoutes } from './audit/routes.ts'
import { makeAuditService, noAudit } from './audit/service.ts'
import { headOfMain } from './catalog/branches.ts'
import { makeCatalog } from './catalog/catalog.ts'
import { LAKE_FILE_BYTES_MAX } from './catalog/gateway.ts'
import { makeTokens } from './catalog/tokens.ts'
import { systemClock as clock } from './clock.ts'
import { type Config, ConfigError, parseConfig } from './config.ts'
import { fileRoutes } from './files/routes.ts'
import { makeFileService } from './files/service.ts'
import { weakest } from './health/service.ts'
import { newId } from './ids.ts'
import { makeInspectorFeeds } from './inspector/feed.ts'
import { inspectorRoutes } from './inspector/routes.ts'
import { makeInspectorService } from './inspector/service.ts'
import { makeArchive } from './landing-zones/archive.ts'
import { landingZoneRoutes } from './landing-zones/routes.ts'
import { makeLandingZoneService } from './landing-zones/service.ts'
import { limits } from './limits.ts'
import { makeLog } from './log.ts'
import { makeMetrics } from './metrics.ts'
import { namespaceRoutes } from './namespaces/routes.ts'
import { makeNamespaceService } from './namespaces/service.ts'
import { openObjectStore } from './objects/open.ts'
import { StoreUnavailable } from './objects/port.ts'
import type { PipelineDeleted } from './pipelines/deletion.ts'
import { makePreviewService } from './pipelines/preview.ts'
import { previewRoutes } from './pipelines/preview-routes.ts'
import { pipelineRoutes } from './pipelines/routes.ts'
import { makePipelineService } from './pipelines/service.ts'
import { qualityTestRoutes } from './quality-tests/routes.ts'
import { makeQualityTestService } from './quality-tests/service.ts'
import { queryRoutes, schemaRoutes } from './query/routes.ts'
import { makeQueryService } from './query/service.ts'
import { retentionRoutes } from './retention/routes.ts'
import { makeRetentionService } from './retention/service.ts'
import { queryAt, runnerAt } from './rpc/clients.ts'
import { makePool } from './rpc/pool.ts'
import { makeRunnerPort } from './rpc/runner-port.ts'
import { makeRunFeeds } from './runs/feed.ts'
import { makeNotices, type Notices, RUN_CHANGED } from './runs/notices.ts'
import { countActiveRuns } from './runs/queries.ts'
import { runRoutes } from './runs/routes.ts'
import { makeRunService, type RunService } from './runs/service.ts'
import { scheduleRoutes } from './schedules/routes.ts'
import { makeScheduleService } from './schedules/service.ts'
import { buildApp } from './server.ts'
import { tableRoutes } from './tables/routes.ts'
import { makeTableService } from './tables/service.ts'
import { triggerRoutes } from './triggers/routes.ts'
import { makeTriggerService } from './triggers/service.ts'
import { webhookRoutes } from './webhooks/routes.ts'
import { makeWebhookService } from './webhooks/service.ts'

/** sysexits.h: the environment is wrong, and starting again would not mend it. */
const EX_CONFIG = 78
/** Something the environment names cannot be used now. */
const EX_UNAVAILABLE = 69
const GAUGE_MS = 1_000
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
  const { db, sql } = database
  const objects = await openObjectStore(config.store)
  const tokens = makeTokens(await tokenSecret())
  const runners = makePool(
    'runner',
    (config.runnerUrls ?? []).map((url) => runnerAt(url, metrics.rpcEnded)),
  )

  const runner = makeRunnerPort(runners)

  const thread = { processId: newId(), databaseUrl: config.databaseUrl, logFormat: config.logFormat }
  const dispatcher = superviseWorker<ToDispatcher>({
    name: 'dispatcher',
    path: new URL('../workers/dispatcher.worker.ts', import.meta.url),
    startMessage: {
      type: 'start',
      settings: {
        ...thread,
        runnerUrls: config.runnerUrls ?? [],
        publicUrl: config.publicUrl,
      },
    },
    log,
    onMessage: heardFrom('dispatcher'),
    onRestart: (reason) => metrics.workerRestarts.inc({ worker: 'dispatcher', reason }),
  })
  let evaluatesHere = false
  const evaluator = superviseWorker<ToTriggers>({
    name: 'triggers',
    path: new URL('../workers/triggers.worker.ts', import.meta.url),
    startMessage: { type: 'start', settings: thread },
    log,
    onMessage(message) {
      if (message.type === 'led') evaluatesHere = message.isLeading
      heardFrom('triggers')(message)
    },
    onRestart(reason) {
      evaluatesHere = false
      metrics.workerRestarts.inc({ worker: 'triggers', reason })
    },
  })
  const scheduler = superviseWorker<ToScheduler>({
    name: 'scheduler',
    path: new URL('../workers/scheduler.worker.ts', import.meta.url),
    startMessage: { type: 'start', settings: thread },
    log,
    onMessage: heardFrom('scheduler'),
    onRestart: (reason) => metrics.workerRestarts.inc({ worker: 'scheduler', reason }),
  })

  const namespaces = makeNamespaceService({ db })
  const sent = makeNotices(sql, (error) => log.warn('a notice was lost', { error }))
  const notices: Notices = {
    ...sent,
    // Whoever ends runs announces them: by that they are counted.
    completed(ended) {
      for (const { status } of ended) metrics.runsEnded(status)
      sent.completed(ended)
    },
  }
  // Pipelines end their runs and runs read their pipelines: one of the two is known by name only until both are made.
  const runs: RunService = makeRunService({
    sql,
    newId,
    notices,
    runnable: (path) => pipelines.runnable(path),
    nudge: (about) => dispatcher.post({ type: 'nudge', about }),
  })
  const triggers = makeTriggerService({ sql, newId })
  const webhooks = makeWebhookService({
    sql,
    newId,
    nudge: () => dispatcher.post({ type: 'nudge', about: 'runRequested' }),
  })
  const pipelines = makePipelineService({
    db,
    sql,
    objects,
    newId,
    log,
    runs,
    triggers,
    requireNamespace: (name) => namespaces.requireExisting(name),
    validate: runner.validate,
  })
  const files = makeFileService({ objects, fileWritten: pipelines.fileWritten })
  const zones = makeLandingZoneService({
    db,
    objects,
    clock,
    newId,
    eventRecorded,
    requireNamespace: (name) => namespaces.requireExisting(name),
  })
  const tests = makeQualityTestService({
    objects,
    pipelines,
    runQualityTests: runner.runQualityTests,
    readMain: () => readMain(),
  })
  const previews = makePreviewService({
    db,
    objects,
    runners: makePool(
      'runner',
      (config.runnerUrls ?? []).map((url) => queryAt(url, metrics.rpcEnded)),
    ),
    readMain,
  })
  const catalog = makeCatalog({ sql, objects, tokens, clock, newId, log })
  const feeds = makeRunFeeds(runs)
  const inspector = makeInspectorService({
    sql,
    clock,
    runner: config.runnerUrls === null ? null : runners.check,
  })
  const inspectorFeeds = makeInspectorFeeds(inspector)
  const queryServices =
    config.queryUrls === null
      ? null
      : makePool(
          'query service',
          config.queryUrls.map((url) => queryAt(url, metrics.rpcEnded)),
        )
  const queries = makeQueryService({
    sql,
    tokens,
    clock,
    newId,
    publicUrl: config.publicUrl,
    services: queryServices,
  })
  const tables = makeTableService({ sql, objects, queries, metadataStore: config.metadataStore })

  const reaper = config.reaper
    ? startReaper({ sql, objects, settings: thread, log, onMessage: heardFrom('reaper') })
    : null
  const retention = makeRetentionService({ db, reaper })
  const archive = makeArchive({ sql, objects })
  const audit = config.audit ? makeAuditService({ sql, clock, newId, log }) : noAudit

  const app = buildApp({
    config,
    log,
    audit: audit.record,
    clock,
    newId,
    metrics,
    readiness: {
      postgres: () => sql`select 1`,
      s3: () => objects.ping(),
      runner: config.runnerUrls === null ? null : runners.check,
      query: queryServices === null ? null : queryServices.check,
    },
    describePython: async (signal) =>
      weakest(
        await runners.askAll(async (runner) => {
          const { sandbox, pythonVersion: version } = await runner.describeRunner({}, { signal })
          return { sandbox, version }
        }),
      ),
    api: [
      auditRoutes(audit),
      namespaceRoutes(namespaces),
      pipelineRoutes(pipelines),
      previewRoutes(previews),
      qualityTestRoutes(tests),
      triggerRoutes(triggers, config),
      scheduleRoutes(makeScheduleService({ sql, clock, newId })),
      fileRoutes(files),
      landingZoneRoutes(zones),
      runRoutes(runs, feeds),
      queryRoutes(queries),
      schemaRoutes(queries),
      tableRoutes(tables),
      inspectorRoutes(inspector, inspectorFeeds),
      retentionRoutes(retention),
    ],
    ownCredential: [webhookRoutes(webhooks)],
    internal: [catalog.routes, catalog.objectRoutes],
  })
  await sql.listen(
    RUN_CHANGED,
    (payload) => {
      for (const id of JSON.parse(payload)) {
        feeds.wake(id)
        inspectorFeeds.wakeRun(id)
      }
    },
    () => feeds.wakeAll(),
  )
  const effects = startLoop({
    everyMs: limits.sweepMs,
    onError: (error) => log.error('performing effects failed', { error }),
    tick: () =>
      performDue(
        sql,
        {
          pipelineDeleted: (payload) => pipelines.finishDeletion(payload as unknown as PipelineDeleted),
          archivedInputs: (payload) => archive.moveInputs(payload as { runId: string }),
          movedObject: (payload) => archive.removeMoved(payload as { key: string; versionId: string }),
        },
        (kind, error) => log.warn(`effect ${kind} failed; it is tried again`, { error }),
      ),
  })
  const gauges = setInterval(async () => {
    // While the database is away, what is known last says more than none.
    const active = await countActiveRuns(sql).catch(() => null)
    if (active !== null) metrics.activeRuns.set(active)
  }, GAUGE_MS)
  const server = Bun.serve({
    hostname: config.host,
    port: config.port,
    fetch(request, server) {
      // The one answer that may be long in coming: it waits for the reaper.
      if (request.method === 'POST' && request.url.endsWith('/retention/run')) server.timeout(request, 0)
      return app.fetch(request, { address: server.requestIP(request)?.address ?? null })
    },
    // Longer than the heartbeat of event streams.
    idleTimeout: 120,
    maxRequestBodySize: MAX_BODY_BYTES,
  })
  log.info(`listening on ${server.url.origin}`)

  /** An event that some trigger hears. The replica which evaluates may be another one. */
  function eventRecorded() {
    if (evaluatesHere) evaluator.post({ type: 'nudge', about: 'eventRecorded' })
    else notices.recorded()
  }

  function heardFrom(worker: string) {
    return (message: FromWorker) => heard(worker, message)
  }

  function heard(worker: string, message: FromWorker) {
    switch (message.type) {
      case 'runsEnded':
        if (evaluatesHere && message.status === 'success')
          evaluator.post({ type: 'nudge', about: 'eventRecorded' })
        return metrics.runsEnded(message.status, message.count)
      case 'rpcEnded':
        return metrics.rpcEnded(message)
      case 'ready':
        return log.info(`${worker} is ready`)
      case 'runsRequested':
        return dispatcher.post({ type: 'nudge', about: 'runRequested' })
      case 'ticked':
        metrics.schedulerTicks.inc()
        return metrics.schedulerRuns.inc(message.runsRequested)
      case 'alive':
      case 'led':
      case 'reaped':
      // Answered where the reaper's thread is started.
      case 'objectCall':
      case 'stopped':
        return
      default:
        return assertNever(message)
    }
  }

  /** Main as it is now, and the right to read it for a while; a preview also reads the landing files of its namespace. */
  async function readMain(also: { landing?: string } = {}) {
    const commit = await headOfMain(sql)
    const expiresAt = new Date(clock.now().getTime() + limits.readTokenMs)
    return {
      catalogUrl: `${config.publicUrl}/catalog`,
      objectsUrl: `${config.publicUrl}/lake/objects`,
      warehouse: 'sluice',
      token: tokens.read({ commit, expiresAt, ...also }),
    }
  }

  async function tokenSecret() {
    const [secret] = await sql<{ value: string }[]>`select value from secret where name = 'attempt_token'`
    if (secret === undefined) throw new Error('the database holds no key for attempt tokens')
    return secret.value
  }

  return {
    restartWorkers() {
      dispatcher.restart()
      evaluator.restart()
      scheduler.restart()
    },
    async stop() {
      clearInterval(gauges)
      feeds.stop()
      inspectorFeeds.stop()
      await Promise.race([server.stop(), pause(DRAIN_MS)])
      await Promise.all([
        dispatcher.stop(),
        evaluator.stop(),
        scheduler.stop(),
        reaper?.stop(),
        effects.stop(),
      ])
      await server.stop(true)
      await audit.stop()
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
