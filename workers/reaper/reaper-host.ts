// The other side of the reaper's thread: it asks the database whether a tick is due, starts the thread that makes it, and
// passes on what that thread asks of the object store.
import type { Log } from '../../app/core/log.ts'
import type { Sql } from '../../drizzle/client.ts'
import type { AnswerObjectCall } from '../runtime/object-calls.ts'
import type { FromWorker, ThreadSettings, ToReaper } from '../threads/channel.ts'
import { type Loop, startLoop } from '../threads/loop.ts'
import { runWorkerOnce } from '../threads/run-once.ts'
import { lookAtTime } from './reaper.ts'

/** Intervals are whole minutes. */
const LOOK_MS = 10_000
/** A tick that takes longer is ended; what it has not done is done by the next one. */
const TICK_MS = 2 * 3_600_000
/** After a tick that failed as a whole, nobody tries again for this long, unless somebody asks. */
const AFTER_FAILURE_MS = 60_000

export interface ReaperHost {
  /** Begins to look at the time. Once. */
  start(): void
  /**
   * Makes a tick, from its beginning to its end; one that is under way, here or on another replica, is waited for first.
   * Rejects when the tick could not be made.
   */
  run(): Promise<void>
  stop(): Promise<void>
}

export interface ReaperHostOptions {
  sql: Sql
  answerObjectCall: AnswerObjectCall
  settings: ThreadSettings
  log: Log
  onMessage(message: FromWorker): void
  /** Milliseconds between two looks at the time; tests may shorten it. */
  lookMs?: number
}

export function makeReaper({
  sql,
  answerObjectCall,
  settings,
  log,
  onMessage,
  lookMs = LOOK_MS,
}: ReaperHostOptions): ReaperHost {
  const ending = new AbortController()
  let underWay: Promise<void> = Promise.resolve()
  /** A tick that has not begun: everybody who asks until then shares it. */
  let asked: Promise<void> | null = null
  let notBefore = 0
  /** When this host first looked at the time; `over` when the tick that is made at the start has been made. */
  let firstLook: Date | 'over' | null = null

  async function makeTick(isAsked: boolean): Promise<void> {
    if (ending.signal.aborted) throw new Error('the service ends')
    let isMade = false
    await runWorkerOnce<ToReaper>({
      name: 'reaper',
      path: new URL('../reaper.worker.ts', import.meta.url),
      startMessage: { type: 'start', settings: { ...settings, isAsked } },
      timeoutMs: TICK_MS,
      log,
      signal: ending.signal,
      onMessage(message, thread) {
        if (message.type === 'objectCall')
          void answerObjectCall(message.call).then((answer) =>
            thread.post({ type: 'objectAnswer', id: message.id, answer }),
          )
        if (message.type === 'reaped') isMade = true
        // A thread for each tick: that it is there is no news.
        if (message.type !== 'ready') onMessage(message)
      },
    })
    if (!isMade) throw new Error('the reaper has not finished its tick; the log says why')
  }

  /** One at a time: a process leads with one thread. */
  function after(isAsked: boolean): Promise<void> {
    const tick = underWay.then(() => makeTick(isAsked))
    underWay = tick.catch(() => {})
    return tick
  }

  let loop: Loop | undefined
  async function look() {
    if (performance.now() < notBefore) return false
    const { isDue, now, lastRunAt } = await lookAtTime(sql)
    const isAtStart = firstLook instanceof Date && (lastRunAt === null || lastRunAt < firstLook)
    // The tick at the start leaves the start itself to others: unless it is due anyway, it comes with the second look.
    if (isDue || isAtStart) await after(!isDue)
    firstLook = firstLook === null && !isDue ? now : 'over'
    return false
  }

  return {
    start() {
      loop = startLoop({
        everyMs: lookMs,
        tick: look,
        onError(error) {
          notBefore = performance.now() + AFTER_FAILURE_MS
          if (!ending.signal.aborted) log.error('a tick of the reaper failed', { error })
        },
      })
    },
    run() {
      asked ??= underWay.then(() => {
        asked = null
        return after(true)
      })
      return asked
    },
    async stop() {
      ending.abort()
      await Promise.all([loop?.stop(), underWay])
    },
  }
}
