// The evaluator: turns recorded events and due times into runs, on the one replica that leads. It decides nothing: machines do.

import { LAST_ID, type NewId, type TriggerId } from '../app/core/ids.ts'
import { limits } from '../app/core/limits.ts'
import type { Log } from '../app/core/log.ts'
import {
  type DuePlace,
  type DueTrigger,
  dueTriggers,
  endCooldowns,
  fireDue,
  lookAhead,
  type Outlook,
  passOverDue,
} from '../app/triggers/due.ts'
import { hearEvents, passOver, waitingEvents } from '../app/triggers/events.ts'
import { type Note, tellNotes } from '../app/triggers/notes.ts'
import type { Fenced, Sql } from '../drizzle/client.ts'
import { isPassing } from '../drizzle/errors.ts'
import type { FromWorker } from './threads/channel.ts'
import { startLoop } from './threads/loop.ts'

/** What a lost notice missed of dependencies is found this often. */
const DEPENDENCY_SWEEP_MS = 30_000

export interface EvaluatorDeps {
  /** For reading only. */
  sql: Sql
  write: Fenced
  newId: NewId
  log: Log
  post(message: FromWorker): void
}

/** What one tick has done. */
export interface Ticked {
  runs: number
  /** There was more than one batch. */
  hasMore: boolean
}

/** The ticks, without their timers. Each may run in two replicas at once: one of them then finds nothing left to do. */
export class Evaluator {
  readonly #deps: EvaluatorDeps
  /** Events that could not be dealt with; they are tried again by `retryHeld`. */
  readonly #held = new Set<number>()
  /** What was due by then has been looked at. */
  #lookedAt: Date | null = null

  constructor(deps: EvaluatorDeps) {
    this.#deps = deps
  }

  #told({ runs, notes }: { runs: number; notes: readonly Note[] }) {
    const { post, log } = this.#deps
    if (runs > 0) post({ type: 'runsRequested', count: runs })
    tellNotes(log, notes)
  }

  /** One batch of events. Most hints are of successes that no trigger hears: those cost one look. */
  async hear(): Promise<Ticked> {
    const { sql, write, newId, log } = this.#deps
    const except = [...this.#held]
    if ((await waitingEvents(sql, except, 1)).length === 0) return NOTHING
    try {
      const heard = await write((tx) => hearEvents(tx, { newId, except }))
      if (heard === null) return NOTHING
      this.#told(heard)
      this.#hold(heard.left)
      return heard
    } catch (error) {
      if (isPassing(error)) throw error
      log.warn('a batch of events failed; taking them one by one', { error })
      return this.#hearEach(await waitingEvents(sql, except, limits.eventBatch))
    }
  }

  async #hearEach(ids: readonly number[]): Promise<Ticked> {
    let runs = 0
    for (const id of ids) runs += await this.#hearAlone(id)
    return { runs, hasMore: ids.length === limits.eventBatch }
  }

  /** One event; if it fails, trigger by trigger, so that only the one which fails goes without. */
  async #hearAlone(id: number): Promise<number> {
    const { write, newId } = this.#deps
    let runs = 0
    let triggersMax: number = limits.firingBatch
    for (;;) {
      try {
        const heard = await write((tx) => hearEvents(tx, { newId, only: id, triggersMax }))
        if (heard === null) return runs
        this.#told(heard)
        runs += heard.runs
        this.#hold(heard.left)
        if (!heard.hasMore || heard.left.length > 0) return runs
      } catch (error) {
        if (isPassing(error)) throw error
        if (triggersMax > 1) {
          triggersMax = 1
          continue
        }
        if (!(await this.#passOver(id, error))) return runs
      }
    }
  }

  /** Leaves out the trigger that could not be fired. False: nothing of the event is left to try. */
  async #passOver(id: number, error: unknown): Promise<boolean> {
    const { write, log } = this.#deps
    try {
      const triggerId = await write((tx) => passOver(tx, id))
      const by = triggerId ? ` by trigger ${triggerId}` : ''
      log.error(`event ${id} cannot be fired${by}; it is passed over`, { error })
      return triggerId !== null
    } catch (worse) {
      if (isPassing(worse)) throw worse
      log.error(`event ${id} can neither be fired nor passed over; it is left for later`, { error: worse })
      this.#hold([id])
      return false
    }
  }

  #hold(ids: readonly number[]) {
    for (const id of ids) if (this.#held.size < HELD_MAX) this.#held.add(id)
  }

  /** Whatever made them fail may be mended by now. */
  async retryHeld(): Promise<Ticked> {
    const ids = [...this.#held]
    this.#held.clear()
    return this.#hearEach(ids)
  }

  /** Whatever time has brought since the last look: triggers that have become due, cooldowns that are over. */
  async keepTime(): Promise<Ticked & Outlook> {
    const { sql, write } = this.#deps
    const outlook = await lookAhead(sql)
    const runs = await this.#fireReady(
      this.#lookedAt === null ? null : new Date(this.#lookedAt.getTime() - LATE_MS),
    )
    this.#lookedAt = outlook.now
    const ended = outlook.hasCooled ? await write((tx) => endCooldowns(tx, limits.dueBatch)) : null
    return { ...outlook, runs, hasMore: ended?.hasMore ?? false }
  }

  /** Everything that is due, whatever has been heard of it: what a lost event, or a firing that failed, has left. */
  async sweepDue(): Promise<Ticked> {
    return { runs: await this.#fireReady(null), hasMore: false }
  }

  /** Fires what has become due since then and is ready. A cron_dependency that waits is looked at once, then after each event. */
  async #fireReady(since: Date | null): Promise<number> {
    let runs = 0
    let place: DuePlace | null = since && { dueAt: since, id: LAST_ID as TriggerId }
    for (;;) {
      const due: DueTrigger[] = await dueTriggers(this.#deps.sql, place, limits.dueBatch)
      runs += await this.#fire(due.filter(({ isReady }) => isReady).map(({ id }) => id))
      place = due.at(-1) ?? null
      if (due.length < limits.dueBatch) return runs
    }
  }

  /** How many runs it has requested. */
  async #fire(ids: readonly TriggerId[]): Promise<number> {
    if (ids.length === 0) return 0
    const { write, newId, log } = this.#deps
    try {
      const due = await write((tx) => fireDue(tx, ids, { newId }))
      if (due !== null) this.#told(due)
      return due?.runs ?? 0
    } catch (error) {
      if (isPassing(error)) throw error
      const [only] = ids
      if (only !== undefined && ids.length === 1) {
        log.error(`trigger ${only} is due and cannot be fired; it is passed over`, { error })
        await write((tx) => passOverDue(tx, only))
        return 0
      }
      log.warn('a batch of due triggers failed; taking them one by one', { error })
      let runs = 0
      for (const id of ids) runs += await this.#fire([id])
      return runs
    }
  }
}

const NOTHING: Ticked = { runs: 0, hasMore: false }
const HELD_MAX = 1_000
/** A due time is stored a little before it becomes visible. */
const LATE_MS = 5_000

export interface TriggersDeps extends EvaluatorDeps {
  isLeading(): boolean
}

export interface Triggers {
  /** Something was recorded: listen now. */
  nudge(): void
  /** This replica leads from now on: look at everything. */
  led(): void
  /** What is under way ends first. */
  stop(): Promise<void>
}

/** The evaluator on its timers. Events are heard when somebody says so, and every second in case nobody did. */
export function startTriggers({ isLeading, ...deps }: TriggersDeps): Triggers {
  const { log } = deps
  const evaluator = new Evaluator(deps)
  const failed = (what: string) => (error: unknown) => log.error(`${what} failed`, { error })

  const hearing = startLoop({
    // The clock below says when there is something.
    everyMs: DEPENDENCY_SWEEP_MS,
    onError: failed('hearing events'),
    tick: async () => isLeading() && (await evaluator.hear()).hasMore,
  })

  const timing = startLoop({
    everyMs: limits.sweepMs,
    onError: failed('firing what is due'),
    async tick() {
      if (!isLeading()) return false
      const { hasEvents, nextDueMs, hasMore } = await evaluator.keepTime()
      if (hasEvents) hearing.nudge()
      if (nextDueMs !== null && nextDueMs < limits.sweepMs) timing.nudgeWithin(Math.ceil(nextDueMs) + 1)
      return hasMore
    },
  })

  const sweeping = startLoop({
    everyMs: DEPENDENCY_SWEEP_MS,
    onError: failed('sweeping'),
    async tick() {
      if (!isLeading()) return false
      await evaluator.sweepDue()
      await evaluator.retryHeld()
      return false
    },
  })

  return {
    nudge: hearing.nudge,
    led() {
      for (const loop of [hearing, timing, sweeping]) loop.nudge()
    },
    async stop() {
      await Promise.all([hearing.stop(), timing.stop(), sweeping.stop()])
    },
  }
}
