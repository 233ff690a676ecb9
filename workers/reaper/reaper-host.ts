// The API process's side of the reaper's threads. Asks the database whether a tick is due. Starts a thread for the tick, then a
// thread for the maintenance of tables. Forwards their calls of the object store.
import type { Log } from '../../app/core/log.ts'
import type { DryRunResult } from '../../app/core/removals.ts'
import type { Sql } from '../../drizzle/client.ts'
import type {
  FromWorker,
  MaintenanceMeans,
  ReaperSettings,
  ThreadSettings,
  ToReaper,
} from '../messages/channel.ts'
import type { AnswerObjectCall } from '../messages/object-calls.ts'
import { type Loop, startLoop } from '../threads/loop.ts'
import { runWorkerOnce } from '../threads/run-once.ts'
import { lookAtTime } from './reaper.ts'

/** Interval between two checks whether a tick is due. The settings count in whole minutes. */
const LOOK_MS = 10_000
/** A longer tick is stopped; the next tick continues its work. */
const TICK_MS = 2 * 3_600_000
/** Minimum time between a failed tick and the next automatic one. */
const AFTER_FAILURE_MS = 60_000

type Task = ReaperSettings['task']

export interface ReaperHost {
  /** Starts checking whether a tick is due. Call once. */
  start(): void
  /** Performs a complete tick, without the maintenance that follows. First waits for a tick under way, here or on another replica. Rejects if the tick fails. */
  run(): Promise<void>
  /** Lists what a tick would remove, and removes nothing. Waits as `run` does. */
  dryRun(): Promise<DryRunResult>
  stop(): Promise<void>
}

interface ReaperHostOptions {
  sql: Sql
  answerObjectCall: AnswerObjectCall
  settings: ThreadSettings
  /** By default tables are not maintained. */
  maintenance?: MaintenanceMeans | null
  /** By default branches do not expire because they are idle. */
  branchMaxIdleDays?: number | null
  log: Log
  onMessage(message: FromWorker): void
  /** Milliseconds between two checks; tests may shorten it. */
  lookMs?: number
}

export function makeReaper({
  sql,
  answerObjectCall,
  settings,
  maintenance = null,
  branchMaxIdleDays = null,
  log,
  onMessage,
  lookMs = LOOK_MS,
}: ReaperHostOptions): ReaperHost {
  const ending = new AbortController()
  let underWay: Promise<void> = Promise.resolve()
  let maintaining: Promise<void> | null = null
  /** A requested tick that has not begun. All requests until then share it. */
  let requested: Promise<void> | null = null
  let requestedDryRun: Promise<DryRunResult> | null = null
  let notBefore = 0
  /** Time of this host's first check whether a tick is due. `over`: the tick that follows every start has been requested. */
  let firstLook: Date | 'over' | null = null

  /** Returns the last message with a result. */
  async function performTask(task: Task, isRequested: boolean): Promise<FromWorker | null> {
    if (ending.signal.aborted) throw new Error('reaper tick not started: the service is stopping')
    let result: FromWorker | null = null
    await runWorkerOnce<ToReaper>({
      name: 'reaper',
      path: new URL('../reaper.worker.ts', import.meta.url),
      startMessage: { type: 'start', settings: { ...settings, isRequested, branchMaxIdleDays, task } },
      timeoutMs: TICK_MS,
      log,
      signal: ending.signal,
      onMessage(message, thread) {
        if (message.type === 'objectCall')
          void answerObjectCall(message.call).then((answer) =>
            thread.post({ type: 'objectAnswer', id: message.id, answer }),
          )
        if (message.type === 'reaped' || message.type === 'dryRunDone') result = message
        // Every task has its own thread, so `ready` is not worth reporting.
        if (message.type !== 'ready') onMessage(message)
      },
    })
    return result
  }

  /** Maintains tables beside the following ticks. Maintenance under way also covers the tick that asks for it. */
  function startMaintenance() {
    if (maintenance === null || ending.signal.aborted) return
    maintaining ??= performTask({ kind: 'maintenance', means: maintenance }, true)
      .catch((error) => log.error('maintenance of tables stopped: a later tick continues', { error }))
      .then(() => {
        maintaining = null
      })
  }

  /** Runs one tick at a time, because a process leads with one thread. */
  async function queueTick(isRequested: boolean): Promise<void> {
    const result = await queue({ kind: 'tick' }, isRequested)
    if (result?.type !== 'reaped')
      throw new Error('reaper tick not completed: see the log lines of the reaper')
    startMaintenance()
  }

  async function queueDryRun(): Promise<DryRunResult> {
    const result = await queue({ kind: 'dryRun' }, true)
    if (result?.type !== 'dryRunDone')
      throw new Error('reaper dry run not completed: see the log lines of the reaper')
    return result.result
  }

  function queue(task: Task, isRequested: boolean): Promise<FromWorker | null> {
    const done = underWay.then(() => performTask(task, isRequested))
    underWay = done.then(
      () => {},
      () => {},
    )
    return done
  }

  let loop: Loop | undefined
  async function check() {
    if (performance.now() < notBefore) return false
    const { isDue, now, lastRunAt } = await lookAtTime(sql)
    const isAtStart = firstLook instanceof Date && (lastRunAt === null || lastRunAt < firstLook)
    // Every start is followed by a tick. Unless a tick is due anyway, it waits for the second check, so as not to delay the
    // rest of the start.
    if (isDue || isAtStart) await queueTick(!isDue)
    firstLook = firstLook === null && !isDue ? now : 'over'
    return false
  }

  return {
    start() {
      loop = startLoop({
        everyMs: lookMs,
        tick: check,
        onError(error) {
          notBefore = performance.now() + AFTER_FAILURE_MS
          if (!ending.signal.aborted)
            log.error('reaper tick failed: retrying', { retryMs: AFTER_FAILURE_MS, error })
        },
      })
    },
    run() {
      requested ??= underWay.then(() => {
        requested = null
        return queueTick(true)
      })
      return requested
    },
    dryRun() {
      requestedDryRun ??= underWay.then(() => {
        requestedDryRun = null
        return queueDryRun()
      })
      return requestedDryRun
    },
    async stop() {
      ending.abort()
      await Promise.all([loop?.stop(), underWay, maintaining])
    },
  }
}
