// The evaluator turns recorded events and due times into runs, on the leader. The machines make every decision.

import { LAST_ID, type NewId, type TriggerId } from '../app/core/ids.ts'
import { limits } from '../app/core/limits.ts'
import type { Log } from '../app/core/log.ts'
import {
  type DuePosition,
  type DueTrigger,
  dueTriggers,
  endCooldowns,
  fireDue,
  lookAhead,
  type Outlook,
  skipDue,
} from '../app/triggers/due.ts'
import { consumeEvents, skipListener, waitingEvents } from '../app/triggers/events.ts'
import { logNotes, type Note } from '../app/triggers/notes.ts'
import type { Fenced, Sql } from '../drizzle/client.ts'
import { isPassing } from '../drizzle/errors.ts'
import type { FromWorker } from './messages/channel.ts'
import { startLoop } from './threads/loop.ts'

/** Interval of the sweep that finds dependencies whose notice was lost. */
const DEPENDENCY_SWEEP_MS = 30_000

export interface EvaluatorDeps {
  /** For reads only. */
  sql: Sql
  write: Fenced
  newId: NewId
  log: Log
  post(message: FromWorker): void
}

/** The result of one tick. */
interface Ticked {
  runs: number
  /** True if more than one batch waits. */
  hasMore: boolean
}

/** The ticks, without timers. Two replicas may run the same tick at once; one of them then finds no work. */
export class Evaluator {
  readonly #deps: EvaluatorDeps
  /** Events that could not be processed; `retryHeld` tries them again. */
  readonly #held = new Set<number>()
  /** All due times up to this time were checked. */
  #lookedAt: Date | null = null

  constructor(deps: EvaluatorDeps) {
    this.#deps = deps
  }

  #logResult({ runs, notes }: { runs: number; notes: readonly Note[] }) {
    const { post, log } = this.#deps
    if (runs > 0) post({ type: 'runsRequested', count: runs })
    logNotes(log, notes)
  }

  /** Processes one batch of events. Most hints are about successes without a listening trigger, which cost one query. */
  async consumeEvents(): Promise<Ticked> {
    const { sql, write, newId, log } = this.#deps
    const except = [...this.#held]
    if ((await waitingEvents(sql, except, 1)).length === 0) return NOTHING
    try {
      const consumed = await write((tx) => consumeEvents(tx, { newId, except }))
      if (consumed === null) return NOTHING
      this.#logResult(consumed)
      this.#hold(consumed.unhandled)
      return consumed
    } catch (error) {
      if (isPassing(error)) throw error
      log.warn('batch of events failed: processing them one by one', { error })
      return this.#consumeEach(await waitingEvents(sql, except, limits.eventBatch))
    }
  }

  async #consumeEach(ids: readonly number[]): Promise<Ticked> {
    let runs = 0
    for (const id of ids) runs += await this.#consumeAlone(id)
    return { runs, hasMore: ids.length === limits.eventBatch }
  }

  /** Processes one event. After a failure, processes it trigger by trigger, so that only the failing trigger is skipped. */
  async #consumeAlone(id: number): Promise<number> {
    const { write, newId } = this.#deps
    let runs = 0
    let triggersMax: number = limits.firingBatch
    for (;;) {
      try {
        const consumed = await write((tx) => consumeEvents(tx, { newId, only: id, triggersMax }))
        if (consumed === null) return runs
        this.#logResult(consumed)
        runs += consumed.runs
        this.#hold(consumed.unhandled)
        if (!consumed.hasMore || consumed.unhandled.length > 0) return runs
      } catch (error) {
        if (isPassing(error)) throw error
        if (triggersMax > 1) {
          triggersMax = 1
          continue
        }
        if (!(await this.#skip(id, error))) return runs
      }
    }
  }

  /** Skips the trigger that could not be fired. False: the event has no trigger left to try. */
  async #skip(id: number, error: unknown): Promise<boolean> {
    const { write, log } = this.#deps
    try {
      const triggerId = await write((tx) => skipListener(tx, id))
      if (triggerId === null) log.error(`event ${id} failed: no trigger is left to skip`, { error })
      else log.error(`trigger ${triggerId} skipped for event ${id}: it cannot be fired`, { error })
      return triggerId !== null
    } catch (skipError) {
      if (isPassing(skipError)) throw skipError
      log.error(`event ${id} neither fired nor skipped: retrying with the next sweep`, { error: skipError })
      this.#hold([id])
      return false
    }
  }

  #hold(ids: readonly number[]) {
    for (const id of ids) if (this.#held.size < HELD_MAX) this.#held.add(id)
  }

  /** The cause of their failures may be gone by now. */
  async retryHeld(): Promise<Ticked> {
    const ids = [...this.#held]
    this.#held.clear()
    return this.#consumeEach(ids)
  }

  /** Fires triggers that became due since the last call, and ends expired cooldowns. */
  async evaluateTime(): Promise<Ticked & Outlook> {
    const { sql, write } = this.#deps
    const outlook = await lookAhead(sql)
    const runs = await this.#fireReady(
      this.#lookedAt === null ? null : new Date(this.#lookedAt.getTime() - LATE_MS),
    )
    this.#lookedAt = outlook.now
    const ended = outlook.hasCooled ? await write((tx) => endCooldowns(tx, limits.dueBatch)) : null
    return { ...outlook, runs, hasMore: ended?.hasMore ?? false }
  }

  /** Fires all due triggers, also those that a lost event or a failed firing has left. */
  async sweepDue(): Promise<Ticked> {
    return { runs: await this.#fireReady(null), hasMore: false }
  }

  /**
   * Fires ready triggers that became due after `since`; null: all due ones. A waiting cron_dependency is checked once here, and
   * then after each event.
   */
  async #fireReady(since: Date | null): Promise<number> {
    let runs = 0
    let position: DuePosition | null = since && { dueAt: since, id: LAST_ID as TriggerId }
    for (;;) {
      const due: DueTrigger[] = await dueTriggers(this.#deps.sql, position, limits.dueBatch)
      runs += await this.#fire(due.filter(({ isReady }) => isReady).map(({ id }) => id))
      position = due.at(-1) ?? null
      if (due.length < limits.dueBatch) return runs
    }
  }

  /** Returns the number of requested runs. */
  async #fire(ids: readonly TriggerId[]): Promise<number> {
    if (ids.length === 0) return 0
    const { write, newId, log } = this.#deps
    try {
      const due = await write((tx) => fireDue(tx, ids, { newId }))
      if (due !== null) this.#logResult(due)
      return due?.runs ?? 0
    } catch (error) {
      if (isPassing(error)) throw error
      const [only] = ids
      if (only !== undefined && ids.length === 1) {
        log.error(`due trigger ${only} postponed: it cannot be fired`, { error })
        await write((tx) => skipDue(tx, only))
        return 0
      }
      log.warn('batch of due triggers failed: firing them one by one', { count: ids.length, error })
      let runs = 0
      for (const id of ids) runs += await this.#fire([id])
      return runs
    }
  }
}

const NOTHING: Ticked = { runs: 0, hasMore: false }
const HELD_MAX = 1_000
/** A due time may become visible this long after it was computed, because its transaction commits later. */
const LATE_MS = 5_000

interface TriggersDeps extends EvaluatorDeps {
  isLeading(): boolean
}

interface Triggers {
  /** Call after an event was recorded, to process events now. */
  nudge(): void
  /** Call when this replica becomes the leader, to check everything. */
  led(): void
  /** Resolves after the ticks under way have ended. */
  stop(): Promise<void>
}

/** Runs the evaluator on timers. Processes events after each hint, and every second in case a hint was lost. */
export function startTriggers({ isLeading, ...deps }: TriggersDeps): Triggers {
  const { log } = deps
  const evaluator = new Evaluator(deps)

  const consuming = startLoop({
    // The loop `timing` nudges this loop when events wait.
    everyMs: DEPENDENCY_SWEEP_MS,
    onError: (error) => log.error('processing trigger events failed: retrying', { error }),
    tick: async () => isLeading() && (await evaluator.consumeEvents()).hasMore,
  })

  const timing = startLoop({
    everyMs: limits.sweepMs,
    onError: (error) => log.error('firing due triggers failed: retrying', { error }),
    async tick() {
      if (!isLeading()) return false
      const { hasEvents, nextDueMs, hasMore } = await evaluator.evaluateTime()
      if (hasEvents) consuming.nudge()
      if (nextDueMs !== null && nextDueMs < limits.sweepMs) timing.nudgeWithin(Math.ceil(nextDueMs) + 1)
      return hasMore
    },
  })

  const sweeping = startLoop({
    everyMs: DEPENDENCY_SWEEP_MS,
    onError: (error) => log.error('sweep of due triggers failed: retrying', { error }),
    async tick() {
      if (!isLeading()) return false
      await evaluator.sweepDue()
      await evaluator.retryHeld()
      return false
    },
  })

  return {
    nudge: consuming.nudge,
    led() {
      for (const loop of [consuming, timing, sweeping]) loop.nudge()
    },
    async stop() {
      await Promise.all([consuming.stop(), timing.stop(), sweeping.stop()])
    },
  }
}
