// Stores the outcomes and lines of attempts, in batches, and ends the runs that are done.

import { setTimeout as sleep } from 'node:timers/promises'
import type { Clock } from '../../app/core/clock.ts'
import type { Log } from '../../app/core/log.ts'
import type { Outcome } from '../../app/runs/outcome.ts'
import { type Applied, applyOutcomes, type LogLine, type RunCompleted } from '../../app/runs/service.ts'
import type { Sql } from '../../drizzle/client.ts'
import { isPassing } from '../../drizzle/errors.ts'
import { recordSpan } from '../../ground/telemetry/spans.ts'
import { startLoop } from '../threads/loop.ts'
import { type Batch, makeOutcomeQueue } from './outcome-queue.ts'

interface EnderDeps {
  /** The connection for transitions of runs. */
  moves: Sql
  clock: Clock
  log: Log
  sweepMs: number
  /** Called when runs have ended. `events`: the number of successes that a trigger listens for. */
  onEnded(completed: RunCompleted[], events: number): void
  /** Called when a waiting run may start now. */
  onFreed(): void
  /** Called with attempts that a runner accepted although their runs no longer need them. */
  onUnwanted(attempts: Applied['unwanted']): Promise<void>
}

export type Ender = ReturnType<typeof startEnder>

/**
 * Lines and phases within this time share a transaction. An earlier outcome includes them in its transaction, so a short run
 * stores them with its end.
 */
const STORE_WITHIN_MS = 100

/** A span for each tested attempt of the batch: the transaction judges the tests and merges the branch. */
function recordMerges({ outcomes }: Batch, { startedAt, endedAt }: { startedAt: Date; endedAt: Date }) {
  for (const outcome of outcomes) {
    if (outcome.kind !== 'executed' || !outcome.traceparent) continue
    const attributes = { 'sluice.run_id': outcome.runId, 'sluice.batch': outcomes.length }
    recordSpan({ name: 'merge', attributes, parent: outcome.traceparent, startedAt, endedAt })
  }
}

/** Margin, because the timer of this process may be slightly ahead of the database's clock. */
const TIMER_MS = 5

export function startEnder({ moves, clock, log, sweepMs, onEnded, onFreed, onUnwanted }: EnderDeps) {
  const queue = makeOutcomeQueue()
  /** A run was requested while a transaction stored outcomes: its view of waiting runs may be stale. */
  let isRequestedMeanwhile = false

  const loop = startLoop({
    everyMs: sweepMs,
    onError: (error) => log.error('run outcomes not stored: retrying', { retryMs: sweepMs, error }),
    async tick() {
      if (queue.isEmpty()) return false
      const batch = await nextBatch()
      try {
        await apply(batch)
      } catch (error) {
        queue.putBack(batch)
        // The database is unavailable: retry the whole batch in the same order.
        if (isPassing(error)) throw error
        log.warn('batch of run outcomes not stored: retrying one by one', {
          outcomes: batch.outcomes.length,
          lines: batch.lines.length,
          error,
        })
        await applyEach()
      }
      return !queue.isEmpty()
    },
  })

  /**
   * Few outcomes: store acceptances first, because a client may wait to see its run running. Many outcomes: store all news of
   * an attempt together, because one transition of its run is cheaper than two.
   */
  async function nextBatch(): Promise<Batch> {
    const accepted = queue.drainAccepted()
    if (accepted.outcomes.length > 0) return accepted
    // Outcomes that arrive in this turn of the event loop join the batch.
    await new Promise(setImmediate)
    return queue.drain()
  }

  async function apply(batch: Batch) {
    isRequestedMeanwhile = false
    const startedAt = clock.now()
    const applied = await applyOutcomes(moves, batch.outcomes, batch.lines)
    recordMerges(batch, { startedAt, endedAt: clock.now() })
    const { completed, events, unwanted, freed, isAwaited, nextStartMs } = applied
    queue.settle(batch)
    onEnded(completed, events)
    if (nextStartMs !== null) void sleep(nextStartMs === 0 ? 0 : nextStartMs + TIMER_MS).then(onFreed)
    if (freed.length > 0 && (isAwaited || isRequestedMeanwhile)) onFreed()
    if (unwanted.length > 0) await onUnwanted(unwanted)
  }

  /**
   * One bad outcome must not block the others. An outcome that cannot be stored alone fails its run. If storing that failure
   * fails as well, the outcome is dropped.
   */
  async function applyEach() {
    for (const batch of queue.singly()) {
      try {
        await apply(batch)
      } catch (error) {
        if (isPassing(error)) {
          queue.putBack(batch)
          throw error
        }
        abandon(batch, error)
      }
    }
  }

  function abandon(batch: Batch, error: unknown) {
    queue.settle(batch)
    const [outcome] = batch.outcomes
    if (outcome === undefined) {
      log.error('run log line dropped: it cannot be stored', { run_id: batch.lines[0]?.runId, error })
      return
    }
    const { runId, attempt, kind } = outcome
    log.error('run outcome dropped: it cannot be stored', { run_id: runId, attempt, kind, error })
    if (kind === 'failed') return
    queue.putBack({
      outcomes: [
        {
          runId,
          attempt,
          kind: 'failed',
          error: 'the result of the attempt could not be stored: see the service log',
        },
      ],
      lines: [],
    })
  }

  return {
    /** Queues an outcome of an attempt. */
    report(outcome: Outcome) {
      queue.add(outcome)
      if (outcome.kind === 'entered') loop.nudgeWithin(STORE_WITHIN_MS)
      else loop.nudge()
    },
    /** Queues a line of a run's log. */
    appendLine(line: LogLine) {
      queue.appendLine(line)
      loop.nudgeWithin(STORE_WITHIN_MS)
    },
    /** Resolves when every line queued so far is stored. */
    stored: queue.stored,
    /** Whether the queue contains outcomes of the run. */
    has: queue.has,
    /** Notes that a run was requested. */
    requested() {
      isRequestedMeanwhile = true
    },
    /** Stores the queued outcomes. The next replica recovers outcomes that cannot be stored now. */
    async stop() {
      await loop.stop()
      while (!queue.isEmpty())
        await apply(queue.drain()).catch((error) =>
          log.warn('run outcomes not stored before the stop: another replica recovers them', { error }),
        )
    },
  }
}
