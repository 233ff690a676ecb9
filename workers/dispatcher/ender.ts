// Stores the outcomes and lines of attempts, in batches, and ends the runs that are done.

import { setTimeout as sleep } from 'node:timers/promises'
import type { Log } from '../../app/core/log.ts'
import type { Outcome } from '../../app/runs/outcome.ts'
import { type Applied, applyOutcomes, type LogLine, type RunCompleted } from '../../app/runs/service.ts'
import type { Sql } from '../../drizzle/client.ts'
import { isPassing } from '../../drizzle/errors.ts'
import { startLoop } from '../threads/loop.ts'
import { type Batch, makeOutcomeQueue } from './outcome-queue.ts'

export interface EnderDeps {
  /** Where runs are moved on. */
  moves: Sql
  log: Log
  sweepMs: number
  /** Runs have ended, and so many of the successes are heard by triggers. */
  onEnded(completed: RunCompleted[], events: number): void
  /** A run that waits may start now. */
  onFreed(): void
  /** These attempts were accepted after their runs had moved on. */
  onUnwanted(attempts: Applied['unwanted']): Promise<void>
}

export type Ender = ReturnType<typeof startEnder>

/** Lines and phases that come within this time share a transaction; the next outcome takes them along. */
const TELL_WITHIN_MS = 25

/** Our timer may be a little ahead of the database's clock. */
const TIMER_MS = 5

export function startEnder({ moves, log, sweepMs, onEnded, onFreed, onUnwanted }: EnderDeps) {
  const queue = makeOutcomeQueue()
  /** A run was requested while outcomes were being stored: what that has seen of the queue may be old. */
  let isRequestedMeanwhile = false

  const loop = startLoop({
    everyMs: sweepMs,
    onError: (error) => log.error('ending runs failed', { error }),
    async tick() {
      if (queue.isEmpty()) return false
      const batch = await nextBatch()
      try {
        await apply(batch)
      } catch (error) {
        queue.putBack(batch)
        // The database is away: all of it again, in the same order.
        if (isPassing(error)) throw error
        log.warn('a batch of outcomes failed; applying them one by one', { error })
        await applyEach()
      }
      return !queue.isEmpty()
    },
  })

  /** Somebody waits to see a run running. Where many do, an attempt that is over at once is better moved only once. */
  async function nextBatch(): Promise<Batch> {
    const accepted = queue.takeAccepted()
    if (accepted.outcomes.length > 0) return accepted
    // What comes on this turn of the event loop goes with it.
    await new Promise(setImmediate)
    return queue.take()
  }

  async function apply(batch: Batch) {
    isRequestedMeanwhile = false
    const applied = await applyOutcomes(moves, batch.outcomes, batch.lines)
    const { completed, events, unwanted, freed, isAwaited, nextStartMs } = applied
    queue.settle(batch)
    onEnded(completed, events)
    if (nextStartMs !== null) void sleep(nextStartMs === 0 ? 0 : nextStartMs + TIMER_MS).then(onFreed)
    if (freed.length > 0 && (isAwaited || isRequestedMeanwhile)) onFreed()
    if (unwanted.length > 0) await onUnwanted(unwanted)
  }

  /** One bad run must not keep the others: what cannot be stored even alone fails its run, and at last is left out. */
  async function applyEach() {
    for (const batch of queue.singly()) {
      try {
        await apply(batch)
      } catch (error) {
        if (isPassing(error)) {
          queue.putBack(batch)
          throw error
        }
        giveUp(batch, error)
      }
    }
  }

  function giveUp(batch: Batch, error: unknown) {
    queue.settle(batch)
    const [outcome] = batch.outcomes
    log.error(outcome ? `run ${outcome.runId} cannot be moved` : 'a log line cannot be stored', { error })
    if (outcome === undefined || outcome.kind === 'failed') return
    const { runId, attempt } = outcome
    queue.putBack({
      outcomes: [{ runId, attempt, kind: 'failed', error: 'its result could not be stored' }],
      lines: [],
    })
  }

  return {
    /** An attempt has come to this. */
    report(outcome: Outcome) {
      queue.add(outcome)
      if (outcome.kind === 'entered') loop.nudgeWithin(TELL_WITHIN_MS)
      else loop.nudge()
    },
    /** A line of a run's log. */
    tell(line: LogLine) {
      queue.tell(line)
      loop.nudgeWithin(TELL_WITHIN_MS)
    },
    /** Resolves when every line told so far is stored. */
    stored: queue.stored,
    /** Whether outcomes of the run wait to be stored. */
    has: queue.has,
    /** A run was requested. */
    requested() {
      isRequestedMeanwhile = true
    },
    /** Stores what there is; outcomes that cannot be stored now are left to the next replica. */
    async stop() {
      await loop.stop()
      while (!queue.isEmpty())
        await apply(queue.take()).catch((error) =>
          log.warn('some outcomes are left to the next replica', { error }),
        )
    },
  }
}
