// Starts waiting runs, at most as many at a time as runners have free slots.

import { limits } from '../../app/core/limits.ts'
import type { Log } from '../../app/core/log.ts'
import { type Notices, type RunCompleted, startWaiting } from '../../app/runs/service.ts'
import type { Sql } from '../../drizzle/client.ts'
import { hasMet } from '../../drizzle/errors.ts'
import { startLoop } from '../threads/loop.ts'
import type { Follower } from './follower.ts'
import type { Runners } from './runners.ts'

/** Minimum for the batch limit: in smaller batches the cost of a transaction outweighs its runs. */
const START_BATCH = 16

export interface StarterDeps {
  /** The connection for starts of runs. */
  starts: Sql
  runners: Runners
  follower: Follower
  notices: Notices
  replica: string
  /** Whether a submission contains the landing files of its attempt; otherwise the runner requests them. */
  includesInputs: boolean
  log: Log
  sweepMs: number
  /** Called with runs that ended instead of starting. */
  onEnded(completed: RunCompleted[], events: number): void
}

export interface Starter {
  nudge(): void
  /** Call when a runner may have a free slot. Starts runs that wait for a slot. */
  slotFreed(): void
  stop(): Promise<void>
}

/** The unique indexes that allow one open attempt and one running run per pipeline. */
const RACED_INDEXES = ['run_attempt_one_open', 'run_one_running']

export function startStarter(deps: StarterDeps): Starter {
  const { runners, follower, log, sweepMs } = deps
  /** True if runs may be waiting because no runner had a free slot. */
  let lacksSlots = false

  const starting = startLoop({
    everyMs: sweepMs,
    onError: (error) => log.error('starting waiting runs failed: retrying', { error }),
    async tick() {
      const batchLimit = startedAtOnce(follower.count())
      const slotUrls = runners.acquireSlots(batchLimit)
      lacksSlots = slotUrls.length === 0
      if (lacksSlots) return false
      const { isFull, endedAny } = await startAt(deps, slotUrls)
      lacksSlots = isFull && slotUrls.length < batchLimit
      // A run that ended at once lets the next run of its pipeline start.
      return isFull || endedAny
    },
  })

  // A probe of a runner that hangs must not delay starts at other runners.
  const probing = startLoop({
    everyMs: sweepMs / 2,
    onError: (error) => log.error('probing runners for free slots failed: retrying', { error }),
    async tick() {
      if (await runners.probe()) starting.nudge()
      return false
    },
  })

  return {
    nudge: starting.nudge,
    slotFreed() {
      if (lacksSlots) starting.nudge()
    },
    async stop() {
      await Promise.all([starting.stop(), probing.stop()])
    },
  }
}

/** Starts runs in these slots. Unused slots are released. */
async function startAt(
  { starts, runners, follower, notices, replica, includesInputs, onEnded }: StarterDeps,
  slotUrls: readonly string[],
): Promise<{ isFull: boolean; endedAny: boolean }> {
  const unusedUrls = [...slotUrls]
  try {
    const { attempts, completed, events, isFull } = await startWaiting(
      starts,
      slotUrls,
      replica,
      includesInputs,
    )
    notices.changed(completed.map((run) => run.run_id))
    notices.completed(completed)
    onEnded(completed, events)
    for (const attempt of attempts) {
      unusedUrls.splice(unusedUrls.indexOf(attempt.runnerUrl), 1)
      follower.follow(attempt, { hasSlot: true })
    }
    return { isFull, endedAny: completed.length > 0 }
  } catch (error) {
    // Another replica has started a run of one of these pipelines; the next tick sees that run.
    if (hasMet(error, RACED_INDEXES)) return { isFull: true, endedAny: false }
    throw error
  } finally {
    for (const url of unusedUrls) runners.release(url)
  }
}

/**
 * The batch limit of one transaction: the number of runs under way. If a batch took all waiting runs, their callers would
 * return together with new requests. Requests, starts and ends would then alternate instead of overlapping.
 */
const startedAtOnce = (underWay: number) => Math.min(limits.dispatchBatch, Math.max(START_BATCH, underWay))
