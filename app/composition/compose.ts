// Composes the service around one database and one object store, for any runtime. The caller supplies the background work and
// serves the returned application.
import { fileWriting, pipelineWriting } from '../access/guard.ts'
import { attemptTokenKey } from '../attempt-access/store/token-key.ts'
import { makeTokens } from '../attempt-access/tokens.ts'
import { attentionRoutes } from '../attention/routes.ts'
import { makeAttentionService } from '../attention/service.ts'
import { auditRoutes } from '../audit/routes.ts'
import { makeAuditService, noAudit } from '../audit/service.ts'
import { makeMergeService } from '../branches/merges.ts'
import { branchRoutes, tagRoutes } from '../branches/routes.ts'
import { makeBranchService } from '../branches/service.ts'
import { makeTagService } from '../branches/tags.ts'
import { diffRoutes } from '../diff/routes.ts'
import { fileRoutes } from '../files/routes.ts'
import { ping } from '../health/service.ts'
import { commitRoutes, tableHistoryRoutes } from '../history/routes.ts'
import { makeHistoryService } from '../history/service.ts'
import { inspectorRoutes } from '../inspector/routes.ts'
import { type AbandonedUpload, makeArchive, makeClearUp } from '../landing-zones/effects.ts'
import { landingZoneRoutes } from '../landing-zones/routes.ts'
import { lineageRoutes } from '../lineage/routes.ts'
import { makeLineageService } from '../lineage/service.ts'
import { namespaceRoutes } from '../namespaces/routes.ts'
import type { PipelineDeleted } from '../pipelines/deletion.ts'
import { pipelineRoutes, previewRoutes, versionRoutes } from '../pipelines/routes.ts'
import { makePlugins } from '../plugins/plugins.ts'
import { qualityTestRoutes } from '../quality-tests/routes.ts'
import { queryRoutes, schemaRoutes } from '../query/routes.ts'
import { replicaRoutes } from '../replicas/routes.ts'
import { makeReplicaService } from '../replicas/service.ts'
import { retentionRoutes } from '../retention/routes.ts'
import { makeRetentionService } from '../retention/service.ts'
import { runRoutes } from '../runs/routes.ts'
import type { RunService } from '../runs/service.ts'
import { s3Routes } from '../s3/routes.ts'
import { scheduleRoutes } from '../schedules/routes.ts'
import { makeScheduleService } from '../schedules/service.ts'
import { sharingRoutes } from '../sharing/routes.ts'
import { makeSharingService } from '../sharing/service.ts'
import { tableRoutes } from '../tables/routes.ts'
import { triggerRoutes } from '../triggers/routes.ts'
import type { TriggerService } from '../triggers/service.ts'
import { makeLakeReader } from '../versions/lake-reader.ts'
import { makeMetadataFiles } from '../versions/metadata-files.ts'
import { makeRestores } from '../versions/restores.ts'
import { webhookRoutes } from '../webhooks/routes.ts'
import { makeEdition } from './edition.ts'
import { makeLakeAccess } from './lake-access.ts'
import type { ServiceParts } from './parts.ts'
import { makePipelineServices, type PipelineServices } from './pipelines.ts'
import { makeDiffs, makeReaders } from './readers.ts'
import { buildApp } from './server.ts'
import { makeShortages, makeSidecars, watchEngineMemory } from './sidecars.ts'
import { makeStreams } from './streams.ts'

const UPKEEP_MS = 1_000

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
  const readers = makeReaders(parts, { sidecars, tokens, lake, pipelines })
  const streams = await makeStreams(parts, { runs, sidecars })
  const resources = ownership?.resources
  const merges = makeMergeService({ sql, newId, gate: readers.gate, pipelines, resources })
  const { s3, catalog } = makeLakeAccess(parts, {
    tokenKey,
    tokens,
    files,
    edition: { ownership, codeVisibility },
    services,
    merges,
    queries: readers.queries,
  })
  const audit = config.audit ? makeAuditService({ sql, lists: patient.sql, clock, newId, log }) : noAudit
  const archive = makeArchive({ sql, objects })
  const clearUpUpload = makeClearUp({ sql, objects })
  const upkeep = startUpkeep(parts, runs, services.triggers)
  const memory = watchEngineMemory(parts, sidecars)
  const history = makeHistoryService({ sql, lists: patient.sql, restores })
  const diffs = makeDiffs(parts, { lake, queries: readers.queries, pipelines })

  let isLeaving = false
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
    isLeaving: () => isLeaving,
    api: [
      auditRoutes(audit),
      namespaceRoutes(services.namespaces),
      pipelineRoutes(pipelines),
      versionRoutes(pipelines),
      previewRoutes(readers.previews),
      qualityTestRoutes(readers.tests),
      triggerRoutes(services.triggers, { ...config, mayWrite: pipelineWriting(ownership?.resources) }),
      scheduleRoutes(makeScheduleService({ db, clock, newId })),
      fileRoutes(services.files, fileWriting(ownership?.resources)),
      landingZoneRoutes(services.zones, readers.detection),
      branchRoutes(makeBranchService({ sql }), merges),
      tagRoutes(makeTagService({ sql })),
      diffRoutes(diffs),
      commitRoutes(history),
      tableHistoryRoutes(history),
      runRoutes(runs, streams.runs),
      queryRoutes(readers.queries),
      schemaRoutes(readers.queries),
      tableRoutes(readers.tables),
      attentionRoutes(makeAttentionService({ sql: patient.sql })),
      lineageRoutes(makeLineageService({ sql: patient.sql, log, references })),
      inspectorRoutes(streams.inspector, streams.inspectorFeeds),
      replicaRoutes(makeReplicaService({ sql, runnerUrls: config.runnerUrls ?? [] })),
      retentionRoutes(makeRetentionService({ db, reaper: background.reaper })),
      sharingRoutes(ownership === undefined ? null : makeSharingService(ownership)),
    ],
    ownCredential: [webhookRoutes(services.webhooks)],
    s3,
    endpointOf: (request) => s3.endpointOf(catalog.endpointOf(request)),
    foreign: [catalog.userRoutes, s3Routes(s3)],
    internal: [catalog.routes, catalog.objectRoutes],
  })

  return {
    app,
    effects: effectsOf({ pipelines, archive, clearUpUpload }),
    /** Makes this replica not ready. Requests are still answered. */
    leave() {
      isLeaving = true
    },
    /** Ends open event streams; requests are still answered. */
    endStreams() {
      clearInterval(upkeep)
      clearInterval(memory)
      licensing?.stop()
      streams.stop()
    },
    /** Resolves when all entries of the audit log are written. */
    stop: () => audit.stop(),
  }
}

/** Handlers of effects. Each effect runs after the commit of its transaction, at least once. */
const effectsOf = ({ pipelines, archive, clearUpUpload }: EffectParts) => ({
  pipelineDeleted: (payload: unknown) => pipelines.finishDeletion(payload as PipelineDeleted),
  archivedInputs: (payload: unknown) => archive.moveInputs(payload as { runId: string }),
  abandonedUpload: (payload: unknown) => clearUpUpload(payload as AbandonedUpload),
  movedObject: (payload: unknown) => archive.removeMoved(payload as { key: string; versionId: string }),
})

interface EffectParts {
  pipelines: Pick<PipelineServices['pipelines'], 'finishDeletion'>
  archive: ReturnType<typeof makeArchive>
  clearUpUpload: ReturnType<typeof makeClearUp>
}

function startUpkeep({ log, metrics }: ServiceParts, runs: RunService, triggers: TriggerService) {
  return setInterval(async () => {
    // While the database is unreachable, the gauges keep their last values.
    const counts = await runs.countActive().catch(() => null)
    if (counts !== null) {
      metrics.activeRuns.set(counts.active)
      metrics.runsInReview.set(counts.inReview)
      metrics.unplacedRuns.set(counts.unplaced)
      metrics.queueAge.set(counts.queueSeconds)
    }
    const lag = await triggers.lagSeconds().catch(() => null)
    if (lag !== null) metrics.triggerLag.set(lag)
    await runs
      .foldTotal()
      .catch((error) => log.warn('rows of table run_total not merged: retrying in 1 s', { error }))
  }, UPKEEP_MS)
}
