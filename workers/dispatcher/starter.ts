// Starts runs that wait, as many at a time as runners have places.

import { limits } from '../../app/core/limits.ts'
import type { Log } from '../../app/core/log.ts'
import { type Notices, type RunCompleted, startWaiting } from '../../app/runs/service.ts'
import type { Sql } from '../../drizzle/client.ts'
import { hasMet } from '../../drizzle/errors.ts'
import { startLoop } from '../threads/loop.ts'
import type { Follower } from './follower.ts'
import type { Runners } from './runners.ts'

/** Runs one transaction starts even when fewer are under way: with less, what a transaction costs outweighs its runs. */
const START_BATCH = 16

export interface StarterDeps {
  /** Where runs are started. */
  starts: Sql
  runners: Runners
  follower: Follower
  notices: Notices
  replica: string
  /** Whether attempts are told their landing files; else their runner asks. */
  tellsInputs: boolean
  log: Log
  sweepMs: number
  /** Runs have ended instead of being started. */
  onEnded(completed: RunCompleted[], events: number): void
}

export interface Starter {
  nudge(): void
  /** A runner may have a place: starts what waits for one. */
  placeFree(): void
  stop(): Promise<void>
}

/** The indexes that let only one run of a pipeline have its turn at a time. */
const TURNS = ['run_attempt_one_open', 'run_one_running']

export function startStarter(deps: StarterDeps): Starter {
  const { runners, follower, log, sweepMs } = deps
  const failed = (what: string) => (error: unknown) => log.error(`${what} failed`, { error })
  /** Something may wait for a place. */
  let lacksPlaces = false

  const starting = startLoop({
    everyMs: sweepMs,
    onError: failed('starting runs'),
    async tick() {
      const most = startedAtOnce(follower.count())
      const places = runners.takePlaces(most)
      lacksPlaces = places.length === 0
      if (lacksPlaces) return false
      const { isFull, endedAny } = await startAt(deps, places)
      lacksPlaces = isFull && places.length < most
      // A run that ended at once leaves its pipeline's turn to the next.
      return isFull || endedAny
    },
  })

  // Asking a runner that hangs must not keep the others waiting.
  const probing = startLoop({
    everyMs: sweepMs / 2,
    onError: failed('asking runners'),
    async tick() {
      if (await runners.probe()) starting.nudge()
      return false
    },
  })

  return {
    nudge: starting.nudge,
    placeFree() {
      if (lacksPlaces) starting.nudge()
    },
    async stop() {
      await Promise.all([starting.stop(), probing.stop()])
    },
  }
}

/** Starts runs at these places, which are given back when no run takes them. */
async function startAt(
  { starts, runners, follower, notices, replica, tellsInputs, onEnded }: StarterDeps,
  places: readonly string[],
): Promise<{ isFull: boolean; endedAny: boolean }> {
  const left = [...places]
  try {
    const { attempts, completed, events, isFull } = await startWaiting(starts, places, replica, tellsInputs)
    notices.changed(completed.map((run) => run.run_id))
    notices.completed(completed)
    onEnded(completed, events)
    for (const attempt of attempts) {
      left.splice(left.indexOf(attempt.runnerUrl), 1)
      follower.follow(attempt, { hasPlace: true })
    }
    return { isFull, endedAny: completed.length > 0 }
  } catch (error) {
    // Another replica has started a run of one of these pipelines meanwhile: the next look sees it.
    if (hasMet(error, TURNS)) return { isFull: true, endedAny: false }
    throw error
  } finally {
    for (const url of left) runners.give(url)
  }
}

/**
 * How many runs one transaction starts while so many are under way: no more than those. If it were all that wait, the
 * callers of one batch would come again together, and requests, starts and ends would take turns where they could go on
 * side by side.
 */
const startedAtOnce = (underWay: number) => Math.min(limits.dispatchBatch, Math.max(START_BATCH, underWay))
