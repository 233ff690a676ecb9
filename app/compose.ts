// Composes the service around one database and one object store, for any runtime. The caller supplies the background work and
// serves the returned application.
import type { Database } from '../drizzle/client.ts'
import { makeDiskFloor } from '../lake/disk-floor.ts'
import { makeCodeVisibility, type Reader } from './access/code-visibility.ts'
import { fileWriting } from './access/guard.ts'
import { makeEnforcement, makeResources, makeSharing } from './access/service.ts'
import { auditRoutes } from './audit/routes.ts'
import { makeAuditService, noAudit } from './audit/service.ts'
import { type MergeService, makeMergeService } from './branches/merges.ts'
import { branchRoutes, mergerOf, tagRoutes } from './branches/routes.ts'
import { makeBranchService } from './branches/service.ts'
import { makeTagService } from './branches/tags.ts'
import { makeCatalog } from './catalog/catalog.ts'
import { makeLakeReader } from './catalog/lake-reader.ts'
import { type MetadataFiles, makeMetadataFiles } from './catalog/metadata-files.ts'
import { makeRestores, type RestoreDeps, type Restores } from './catalog/restores.ts'
import { attemptTokenKey } from './catalog/store/token-key.ts'
import { makeTokens, type Tokens } from './catalog/tokens.ts'
import { makeVending } from './catalog/vending.ts'
import { tableIn, type View, viewOf } from './catalog/views.ts'
import type { Background } from './core/background.ts'
import type { Clock } from './core/clock.ts'
import type { Config } from './core/config.ts'
import type { NewId } from './core/ids.ts'
import type { Log } from './core/log.ts'
import type { Metrics } from './core/metrics.ts'
import { makeBuckets, makeFailures, PROXY_WEBHOOK_FAILURES_FACTOR } from './core/rate-limit.ts'
import { makeStreamSlots } from './core/stream-slots.ts'
import { diffRoutes } from './diff/routes.ts'
import { makeDiffService } from './diff/service.ts'
import { makeTableDiffs } from './diff/table-diff.ts'
import { fileRoutes } from './files/routes.ts'
import { makeFileService } from './files/service.ts'
import { ping, type Readiness, weakest } from './health/service.ts'
import { commitRoutes, tableHistoryRoutes } from './history/routes.ts'
import { makeHistoryService } from './history/service.ts'
import { makeInspectorFeeds } from './inspector/feed.ts'
import { inspectorRoutes } from './inspector/routes.ts'
import { makeInspectorService } from './inspector/service.ts'
import { type AbandonedUpload, makeArchive, makeClearUp } from './landing-zones/effects.ts'
import { landingZoneRoutes } from './landing-zones/routes.ts'
import { makeLandingZoneService } from './landing-zones/service.ts'
import { makeLicensing } from './licensing/service.ts'
import { lineageRoutes } from './lineage/routes.ts'
import { makeLineageService } from './lineage/service.ts'
import { namespaceRoutes } from './namespaces/routes.ts'
import { makeNamespaceService } from './namespaces/service.ts'
import type { ObjectStore } from './objects/port.ts'
import { withCycles } from './pipelines/cycles.ts'
import type { PipelineDeleted } from './pipelines/deletion.ts'
import { makePreviewService } from './pipelines/preview.ts'
import { pipelineRoutes, previewRoutes, versionRoutes } from './pipelines/routes.ts'
import { makePipelineService } from './pipelines/service.ts'
import { makeSourceReferences } from './pipelines/source-references.ts'
import { makePlugins, type Plugins } from './plugins/plugins.ts'
import { makeGate } from './quality-tests/gate.ts'
import { qualityTestRoutes } from './quality-tests/routes.ts'
import { makeQualityTestService } from './quality-tests/service.ts'
import { makeEngineRows } from './query/engine-rows.ts'
import { queryRoutes, schemaRoutes } from './query/routes.ts'
import { makeQueryService, type QueryService } from './query/service.ts'
import { retentionRoutes } from './retention/routes.ts'
import { makeRetentionService } from './retention/service.ts'
import { queryAt, runnerAt, type SidecarAccess } from './rpc/clients.ts'
import { makePool } from './rpc/pool.ts'
import { makeRunnerPort } from './rpc/runner-port.ts'
import { makeRunFeeds } from './runs/feed.ts'
import { runRoutes } from './runs/routes.ts'
import { listen, makeNotices, makeRunService, type Notices, type RunService } from './runs/service.ts'
import { makeCredentials, REGION } from './s3/credentials.ts'
import { s3Routes } from './s3/routes.ts'
import { makeS3Service } from './s3/service.ts'
import { scheduleRoutes } from './schedules/routes.ts'
import { makeScheduleService } from './schedules/service.ts'
import { buildApp } from './server.ts'
import { sharingRoutes } from './sharing/routes.ts'
import { makeSharingService } from './sharing/service.ts'
import { tableRoutes } from './tables/routes.ts'
import { makeTableService } from './tables/service.ts'
import { triggerRoutes } from './triggers/routes.ts'
import { makeTriggerService } from './triggers/service.ts'
import { webhookRoutes } from './webhooks/routes.ts'
import { makeWebhookService } from './webhooks/service.ts'

/** Calls of one webhook: per second, and the burst. */
const WEBHOOK_CALLS_PER_SECOND = 50
const WEBHOOK_CALLS_BURST = 500
/** Lifetime of a token that reads main; longer than any preview or test that uses the token. */
const READ_TOKEN_MS = 120_000
/** Open event streams of the inspector in one process. */
const INSPECTOR_STREAMS = 1_000

const UPKEEP_MS = 1_000

export interface ServiceParts {
  config: Config
  log: Log
  metrics: Metrics
  clock: Clock
  newId: NewId
  database: Pick<Database, 'db' | 'sql' | 'session'>
  /** Connections for slow statements, so that short requests do not wait behind them. */
  patient: Pick<Database, 'db' | 'sql'>
  objects: ObjectStore
  background: Background
}

export type Service = Awaited<ReturnType<typeof composeService>>

/** Composes the whole service. The service answers requests as soon as this promise resolves. */
export async function composeService(parts: ServiceParts) {
  const { config, log, metrics, clock, newId, patient, objects, background } = parts
  const { db, sql } = parts.database
  const tokenKey = await attemptTokenKey(sql)
  const tokens = makeTokens(tokenKey, config.lakeRoot)
  const sidecars = makeSidecars(parts)
  const plugins = makePlugins(config.plugins, { sql, log, clock, observe: metrics.rpcEnded })
  const { ownership, licensing, codeVisibility } = makeEdition(parts, plugins)
  const files = makeMetadataFiles({ objects, newId })
  const lake = { files, reader: makeLakeReader(objects) }
  const restores = makeRestores({ db, objects, ...lake, clock, newId })
  const services = makePipelineServices(parts, sidecars, restores)
  const { runs, pipelines, references } = services
  const readers = makeReaders(parts, { sidecars, tokens, pipelines })
  const streams = await makeStreams(parts, { runs, sidecars })
  const merges = makeMergeService({ sql, newId, gate: readers.gate, resources: ownership?.resources })
  const edition = { ownership, codeVisibility }
  const { s3, catalog } = makeLakeAccess(parts, { tokenKey, tokens, files, edition, services, merges })
  const audit = config.audit ? makeAuditService({ sql, lists: patient.sql, clock, newId, log }) : noAudit
  const archive = makeArchive({ sql, objects })
  const clearUpUpload = makeClearUp({ sql, objects })
  const upkeep = startUpkeep(parts, runs)
  const history = makeHistoryService({ sql, lists: patient.sql, restores })
  const diffs = makeDiffs(parts, { lake, queries: readers.queries, pipelines })

  const app = buildApp({
    config,
    log,
    ownership,
    licensing,
    plugins,
    audit,
    clock,
    newId,
    metrics,
    readiness: {
      postgres: () => ping(sql),
      s3: () => objects.ping(),
      runner: config.runnerUrls === null ? null : sidecars.runners.check,
      query: sidecars.queries === null ? null : sidecars.queries.check,
      ...plugins.checks,
    },
    shortages: makeShortages(parts, sidecars),
    describePython: sidecars.describePython,
    api: [
      auditRoutes(audit),
      namespaceRoutes(services.namespaces),
      pipelineRoutes(pipelines),
      versionRoutes(pipelines),
      previewRoutes(readers.previews),
      qualityTestRoutes(readers.tests),
      triggerRoutes(services.triggers, config),
      scheduleRoutes(makeScheduleService({ db, clock, newId })),
      fileRoutes(services.files, fileWriting(ownership?.resources)),
      landingZoneRoutes(services.zones),
      branchRoutes(makeBranchService({ sql }), merges),
      tagRoutes(makeTagService({ sql })),
      diffRoutes(diffs),
      commitRoutes(history),
      tableHistoryRoutes(history),
      runRoutes(runs, streams.runs),
      queryRoutes(readers.queries),
      schemaRoutes(readers.queries),
      tableRoutes(readers.tables),
      lineageRoutes(makeLineageService({ sql: patient.sql, log, references })),
      inspectorRoutes(streams.inspector, streams.inspectorFeeds),
      retentionRoutes(makeRetentionService({ db, reaper: background.reaper })),
      sharingRoutes(ownership === undefined ? null : makeSharingService(ownership)),
    ],
    ownCredential: [webhookRoutes(services.webhooks)],
    s3,
    foreign: [catalog.userRoutes, s3Routes(s3)],
    internal: [catalog.routes, catalog.objectRoutes],
  })

  return {
    app,
    /** Handlers of effects. Each effect runs after the commit of its transaction, at least once. */
    effects: {
      pipelineDeleted: (payload: unknown) => pipelines.finishDeletion(payload as PipelineDeleted),
      archivedInputs: (payload: unknown) => archive.moveInputs(payload as { runId: string }),
      abandonedUpload: (payload: unknown) => clearUpUpload(payload as AbandonedUpload),
      movedObject: (payload: unknown) => archive.removeMoved(payload as { key: string; versionId: string }),
    },
    /** Ends open event streams; requests are still answered. */
    endStreams() {
      clearInterval(upkeep)
      licensing?.stop()
      streams.stop()
    },
    /** Resolves when all entries of the audit log are written. */
    stop: () => audit.stop(),
  }
}

/** The catalog, credentials for lake files, and the S3 endpoint that accepts them. */
function makeLakeAccess(
  { config, database: { sql }, objects, clock, newId, log }: ServiceParts,
  {
    tokenKey,
    tokens,
    files,
    edition: { ownership, codeVisibility },
    services: { namespaces },
    merges,
  }: {
    tokenKey: string
    tokens: Tokens
    files: MetadataFiles
    edition: Pick<ReturnType<typeof makeEdition>, 'ownership' | 'codeVisibility'>
    services: PipelineServices
    merges: MergeService
  },
) {
  const { lakeRoot, shownUrl, icebergMainWrites: writesMain } = config
  const credentials = makeCredentials(tokenKey, clock)
  const s3 = makeS3Service({
    config,
    objects,
    bucket: new URL(lakeRoot).host,
    credentials,
    maySee: async ({ table, view }, access) =>
      (await tableIn(sql, view, table, await access.visible())) !== null,
    mayWrite: async ({ table }, access) => {
      const resource = await ownership?.resources.table(table)
      return !!resource && access.may(resource, 'write')
    },
    clock,
    newId,
    log,
  })
  const catalog = makeCatalog({
    sql,
    objects,
    files,
    tokens,
    lakeRoot,
    vending: makeVending({ credentials, lakeRoot, region: REGION, writesMain, shownUrl }),
    clock,
    newId,
    log,
    codeVisibility,
    resources: ownership?.resources,
    namespaces,
    mergeToMain: writesMain
      ? (branch, message, request) => merges.merge(branch, message, mergerOf(request))
      : null,
  })
  return { s3, catalog }
}

type Sidecars = ReturnType<typeof makeSidecars>
type PipelineServices = ReturnType<typeof makePipelineServices>

/** Clients of the runners and query services in the configuration. */
function makeSidecars({ config, metrics }: ServiceParts) {
  const access: SidecarAccess = {
    token: config.sidecarToken,
    tokenUrls: config.sidecarTokenUrls,
    publicUrl: config.publicUrl,
  }
  const queryPool = (name: string, urls: string[]) =>
    makePool(
      name,
      urls.map((url) => queryAt(url, metrics.rpcEnded, access)),
    )
  const runnerUrls = config.runnerUrls ?? []
  const runners = makePool(
    'runner',
    runnerUrls.map((url) => runnerAt(url, metrics.rpcEnded, access)),
  )
  return {
    runners,
    runner: makeRunnerPort(runners),
    /** Clients of the same runners: runners answer previews through the interface of the query service. */
    previews: queryPool('runner', runnerUrls),
    queries: config.queryUrls === null ? null : queryPool('query service', config.queryUrls),
    describePython: async (signal: AbortSignal) =>
      weakest(
        await runners.callAll(async (runner) => {
          const { sandbox, pythonVersion: version } = await runner.describeRunner({}, { signal })
          return { sandbox, version }
        }),
      ),
  }
}

/** Parts of the Pro edition; undefined in the community edition. */
function makeEdition(
  { config, database: { db, sql }, objects, newId, clock, log }: ServiceParts,
  plugins: Plugins,
) {
  const { admins } = config.plugins
  const ownership =
    config.edition === 'pro'
      ? {
          resources: makeResources({ sql, objects }),
          enforcement: plugins.enforcementOr(makeEnforcement({ sql })),
          sharing: plugins.sharingOr(makeSharing({ db, newId })),
        }
      : undefined
  const { license } = config
  return {
    ownership,
    licensing: license === null ? undefined : makeLicensing({ license, sql, clock, log, admins }),
    codeVisibility: ownership && makeCodeVisibility({ sql, ...ownership, admins }),
  }
}

/** Services for pipelines, their resources, and the causes of their runs. */
function makePipelineServices(parts: ServiceParts, { runner }: Sidecars, { restore }: Restores) {
  const { config, log, clock, newId, patient, objects, background } = parts
  const { db, sql, session } = parts.database
  const namespaces = makeNamespaceService({ db })
  const requireNamespace = (name: string) => namespaces.requireExisting(name)
  const notices = makeCountedNotices(parts)
  // The run service and the pipeline service call each other, so `runnable` reads `pipelines` lazily.
  const runs: RunService = makeRunService({
    sql,
    lists: patient.sql,
    requests: session('requests'),
    newId,
    notices,
    hasFourEyes: config.edition === 'pro',
    runnable: (path, isDraft) => pipelines.runnable(path, isDraft),
    nudge: (about) => background.nudge(about),
  })
  const triggers = makeTriggerService({ sql, newId })
  const references = makeSourceReferences({ db, objects })
  const pipelines = makePipelineService({
    restore,
    db,
    sql,
    objects,
    newId,
    log,
    runs,
    triggers,
    requireNamespace,
    validate: withCycles(runner.validate, references),
  })
  return {
    namespaces,
    runs,
    triggers,
    references,
    pipelines,
    webhooks: makeWebhookService({
      sql: session('webhooks'),
      newId,
      nudge: () => background.nudge('runRequested'),
      calls: makeBuckets({ perSecond: WEBHOOK_CALLS_PER_SECOND, burst: WEBHOOK_CALLS_BURST }, { clock }),
      failures: makeFailures(config, clock, PROXY_WEBHOOK_FAILURES_FACTOR),
    }),
    files: makeFileService({ sql, objects, fileWritten: pipelines.fileWritten }),
    zones: makeLandingZoneService({
      db,
      removals: patient.db,
      sql,
      objects,
      clock,
      newId,
      /** Called for an event that some trigger consumes. When another replica evaluates triggers, a notice wakes it. */
      eventRecorded() {
        if (!background.eventRecorded()) notices.recorded()
      },
      requireNamespace,
    }),
  }
}

/** Notices to other replicas. They also count ended runs, because this process announces every run that it ends. */
function makeCountedNotices({ database: { sql }, log, metrics }: ServiceParts): Notices {
  const sent = makeNotices(sql, (error) =>
    log.warn('announcement of changed runs not sent: log streams and triggers react at their next sweep', {
      error,
    }),
  )
  return {
    ...sent,
    completed(ended) {
      for (const { status } of ended) metrics.runsEnded(status)
      sent.completed(ended)
    },
  }
}

/** The view that a runner reads: main or a branch, and landing files of a namespace. A null reader sees everything. */
interface ReadLake {
  branch?: string
  landing?: string
  reader: Reader | null
}

/** Compares states of the lake. */
const makeDiffs = (
  { database: { sql }, clock }: ServiceParts,
  {
    lake,
    queries,
    pipelines,
  }: {
    lake: Pick<RestoreDeps, 'files' | 'reader'>
    queries: QueryService
    pipelines: PipelineServices['pipelines']
  },
) =>
  makeDiffService({
    sql,
    queries,
    tableDiffs: makeTableDiffs({ ...lake, queries, clock }),
    uniqueKeyOf: (table) => pipelines.uniqueKeyOf(table),
  })

/** Services that read data through an engine. */
function makeReaders(
  { config, database: { db, sql }, objects, metrics, clock, newId }: ServiceParts,
  {
    sidecars,
    tokens,
    pipelines,
  }: { sidecars: Sidecars; tokens: Tokens; pipelines: PipelineServices['pipelines'] },
) {
  const { answerBytesMax, metadataStore, publicUrl, lakeRoot } = config
  const engineRows = makeEngineRows()
  /**
   * Addresses and a token to read main or a branch. `landing` is the namespace of a preview, whose landing files the token also
   * opens.
   */
  const readLake = async ({ branch: name, landing, reader }: ReadLake) =>
    accessTo(await viewOf(sql, { branch: name }), { landing, reader })

  function accessTo({ commit, branch }: View, { landing, reader }: Pick<ReadLake, 'landing' | 'reader'>) {
    const expiresAt = new Date(clock.now().getTime() + READ_TOKEN_MS)
    return {
      catalogUrl: `${publicUrl}/catalog`,
      objectsUrl: `${publicUrl}/lake/objects`,
      warehouse: 'sluice',
      catalogId: tokens.catalogId,
      lakeRoot,
      token: tokens.read({
        commit,
        branch: branch ?? undefined,
        expiresAt,
        landing,
        reader: reader ?? undefined,
      }),
    }
  }
  const queries = makeQueryService({
    sql,
    tokens,
    clock,
    newId,
    publicUrl,
    services: sidecars.queries,
    answerBytesMax,
    metrics,
    engineRows,
  })
  return {
    queries,
    tables: makeTableService({ sql, objects, queries, metadataStore }),
    tests: makeQualityTestService({
      objects,
      pipelines,
      runQualityTests: sidecars.runner.runQualityTests,
      readLake,
    }),
    gate: makeGate({
      pipelines,
      runQualityTests: sidecars.runner.runQualityTests,
      readMerged: async (view, { reader }) => accessTo(view, { reader }),
    }),
    previews: makePreviewService({
      db,
      objects,
      runners: sidecars.previews,
      readLake,
      answerBytesMax,
      engineRows,
    }),
  }
}

/** Event streams; announcements of all replicas wake them. */
async function makeStreams(
  { config, database: { sql }, patient, clock }: ServiceParts,
  { runs, sidecars }: { runs: RunService; sidecars: Sidecars },
) {
  const feeds = makeRunFeeds(runs, makeStreamSlots(config))
  const inspector = makeInspectorService({
    sql: patient.sql,
    clock,
    disclosesOtherRuns: config.edition === 'community',
    runner: config.runnerUrls === null ? null : sidecars.runners.check,
  })
  const inspectorFeeds = makeInspectorFeeds(
    inspector,
    makeStreamSlots({ ...config, streamsPerProcess: INSPECTOR_STREAMS }),
  )
  await listen(
    sql,
    (announcement) => {
      if (!('changed' in announcement)) return
      for (const id of announcement.changed) {
        feeds.wake(id)
        inspectorFeeds.wakeRun(id)
      }
    },
    () => feeds.wakeAll(),
  )
  return {
    runs: feeds,
    inspector,
    inspectorFeeds,
    stop() {
      feeds.stop()
      inspectorFeeds.stop()
    },
  }
}

/** Reports why healthy parts start no new work, such as a lack of disk space. */
function makeShortages({ config: { store } }: ServiceParts, { runners }: Sidecars) {
  const storeFloor = store.kind === 'disk' ? makeDiskFloor(store.root, store.floorBytes ?? null) : null
  return async (): Promise<Readiness['details']> => {
    const [runs, files] = [runners.waitsFor(), await storeFloor?.shortage()]
    return {
      ...(runs !== null && { runner: `runs wait: ${runs}` }),
      ...(files && { s3: `uploads are refused: ${files}` }),
    }
  }
}

function startUpkeep({ log, metrics }: ServiceParts, runs: RunService) {
  return setInterval(async () => {
    // While the database is unreachable, the gauges keep their last values.
    const counts = await runs.countActive().catch(() => null)
    if (counts !== null) {
      metrics.activeRuns.set(counts.active)
      metrics.runsInReview.set(counts.inReview)
    }
    await runs
      .foldTotal()
      .catch((error) => log.warn('rows of table run_total not merged: retrying in 1 s', { error }))
  }, UPKEEP_MS)
}
