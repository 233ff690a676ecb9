import { shareOf } from '../core/shares.ts'
import { makeInspectorFeeds } from '../inspector/feed.ts'
import { makeInspectorService } from '../inspector/service.ts'
import { makeRunFeeds } from '../runs/feed.ts'
import { listen, type RunService } from '../runs/service.ts'
import { makeStreamSlots } from '../wire/stream-slots.ts'
import type { ServiceParts } from './parts.ts'
import type { Sidecars } from './sidecars.ts'

/** Open event streams of the inspector in one process. */
const INSPECTOR_STREAMS = 1_000

/** Event streams; announcements of all replicas wake them. */
export async function makeStreams(
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
    makeStreamSlots({
      streamsPerProcess: INSPECTOR_STREAMS,
      streamsPerClient: Math.min(config.streamsPerClient, shareOf(INSPECTOR_STREAMS)),
    }),
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
