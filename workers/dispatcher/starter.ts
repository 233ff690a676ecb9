// Starts waiting runs, at most as many at a time as runners have free slots.

import { limits } from '../../app/core/limits.ts'
import type { Log } from '../../app/core/log.ts'
import {
  type Notices,
  notePlacements,
  type OpenAttempt,
  type RunCompleted,
  type RunnerSlot,
  startWaiting,
} from '../../app/runs/service.ts'
import type { Sql } from '../../drizzle/client.ts'
import { hasMet } from '../../drizzle/errors.ts'
import { recordSpan } from '../../ground/telemetry/spans.ts'
import { startLoop } from '../threads/loop.ts'
import type { Follower } from './follower.ts'
import type { Runners } from './runners.ts'

/** Minimum for the batch limit: in smaller batches the cost of a transaction outweighs its runs. */
const START_BATCH = 16
/** Interval of the search for runs that no runner can take. A request of such a run searches at once. */
const NOTE_MS = 10_000

interface StarterDeps {
  /** The connection for starts of runs. */
  starts: Sql
  runners: Runners
  follower: Follower
  notices: Notices
  replica: string
  /** Whether a submission contains the landing files of its attempt; otherwise the runner requests them. */
  includesInputs: boolean
  /** Runs of one namespace that execute at once; null: no limit. */
  namespaceLimit: number | null
  log: Log
  sweepMs: number
  /** Called with runs that ended instead of starting. */
  onEnded(completed: RunCompleted[], events: number): void
}

interface Starter {
  nudge(): void
  /** Call when a runner may have a free slot. Starts runs that wait for a slot. */
  slotFreed(): void
  stop(): Promise<void>
}

/** The unique indexes that allow one open attempt and one running run per pipeline. */
const RACED_INDEXES = ['run_attempt_one_open', 'run_one_running']

export function startStarter(deps: StarterDeps): Starter {
  const { runners, follower, notices, log, sweepMs } = deps
  /** True if runs may be waiting because no runner had a free slot. */
  let lacksSlots = false
  /** True if a run was requested since the last tick. */
  let isRequested = false

  const starting = startLoop({
    everyMs: sweepMs,
    onError: (error) => log.error('starting waiting runs failed: retrying', { error }),
    async tick() {
      const hadRequest = isRequested
      isRequested = false
      const batchLimit = startedAtOnce(follower.count())
      const slots = runners.acquireSlots(batchLimit)
      lacksSlots = slots.length === 0
      if (lacksSlots) return false
      const { isFull, endedAny, startedAny } = await startAt(deps, slots)
      lacksSlots = isFull && slots.length < batchLimit
      if (hadRequest && !startedAny) noting.nudge()
      // A run that ended at once lets the next run of its pipeline start.
      return isFull || endedAny
    },
  })

  // A probe of a runner that hangs must not delay starts at other runners.
  const probing = startLoop({
    everyMs: sweepMs / 2,
    onError: (error) => log.error('probing runners for free slots failed: retrying', { error }),
    async tick() {
      const found = await Promise.all([runners.probe(), runners.describe()])
      if (found.includes(true)) starting.nudge()
      return false
    },
  })

  const noting = startLoop({
    everyMs: NOTE_MS,
    onError: (error) => log.error('noting runs that no runner can take failed: retrying', { error }),
    async tick() {
      const offers = runners.offers()
      // Before the first description, nothing is known about the runners.
      if (offers.length > 0) notices.changed(await notePlacements(deps.starts, offers))
      return false
    },
  })

  return {
    nudge() {
      isRequested = true
      starting.nudge()
    },
    slotFreed() {
      if (lacksSlots || runners.differ()) starting.nudge()
    },
    async stop() {
      await Promise.all([starting.stop(), probing.stop(), noting.stop()])
    },
  }
}

/** Starts runs in these slots. Unused slots are released. */
async function startAt(
  { starts, runners, follower, notices, replica, includesInputs, namespaceLimit, onEnded }: StarterDeps,
  slots: readonly RunnerSlot[],
): Promise<{ isFull: boolean; endedAny: boolean; startedAny: boolean }> {
  const unusedUrls = slots.map(({ url }) => url)
  try {
    const { attempts, completed, events, isFull } = await startWaiting(starts, slots, replica, {
      includesInputs,
      namespaceLimit,
    })
    notices.changed(completed.map((run) => run.run_id))
    notices.completed(completed)
    onEnded(completed, events)
    for (const attempt of attempts) {
      unusedUrls.splice(unusedUrls.indexOf(attempt.runnerUrl), 1)
      follower.follow(attempt, { hasSlot: true })
      if (attempt.attempt === 1) recordQueue(attempt)
    }
    return { isFull, endedAny: completed.length > 0, startedAny: attempts.length > 0 }
  } catch (error) {
    // Another replica has started a run of one of these pipelines; the next tick sees that run.
    if (hasMet(error, RACED_INDEXES)) return { isFull: true, endedAny: false, startedAny: false }
    throw error
  } finally {
    for (const url of unusedUrls) runners.release(url)
  }
}

/** The span from the request of a run to the start of its first attempt. */
function recordQueue({
  runId,
  traceparent: parent,
  createdAt: startedAt,
  runStartedAt: endedAt,
}: OpenAttempt) {
  recordSpan({ name: 'queue', attributes: { 'sluice.run_id': runId }, parent, startedAt, endedAt })
}

/**
 * The batch limit of one transaction: the number of runs under way. If a batch took all waiting runs, their callers would
 * return together with new requests. Requests, starts and ends would then alternate instead of overlapping.
 */
const startedAtOnce = (underWay: number) => Math.min(limits.dispatchBatch, Math.max(START_BATCH, underWay))
