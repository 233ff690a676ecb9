import { makeFileService } from '../files/service.ts'
import { makeLandingZoneService } from '../landing-zones/service.ts'
import { makeNamespaceService } from '../namespaces/service.ts'
import { withCycles } from '../pipelines/cycles.ts'
import { makePipelineService } from '../pipelines/service.ts'
import { makeSourceReferences } from '../pipelines/source-references.ts'
import { makeNotices, makeRunService, type Notices, type RunService } from '../runs/service.ts'
import { makeTriggerService } from '../triggers/service.ts'
import type { Restores } from '../versions/restores.ts'
import { makeWebhookService } from '../webhooks/service.ts'
import { makeBuckets, makeFailures, PROXY_WEBHOOK_FAILURES_FACTOR } from '../wire/rate-limit.ts'
import type { ServiceParts } from './parts.ts'
import type { Sidecars } from './sidecars.ts'

/** Calls of one webhook: per second, and the burst. */
const WEBHOOK_CALLS_PER_SECOND = 50
const WEBHOOK_CALLS_BURST = 500

export type PipelineServices = ReturnType<typeof makePipelineServices>

/** Services for pipelines, their resources, and the causes of their runs. */
export function makePipelineServices(parts: ServiceParts, { runner }: Sidecars, { restore }: Restores) {
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
    runnable: (...named) => pipelines.runnable(...named),
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
    files: makeFileService({
      sql,
      objects,
      takesFiles: namespaces.takesFiles,
      fileWritten: pipelines.fileWritten,
    }),
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
