// The API process's side of the reaper: it asks the database whether a tick is due, starts the thread that makes it, and
// answers what that thread asks of the object store.
import type { Log } from '../app/log.ts'
import type { ObjectStore } from '../app/objects/port.ts'
import type { Sql } from '../drizzle/client.ts'
import type { FromWorker, ThreadSettings, ToReaper } from './channel.ts'
import { startLoop } from './loop.ts'
import { answerObjectCall } from './object-calls.ts'
import { isDue } from './reaper.ts'
import { runWorkerOnce } from './run-once.ts'

/** Intervals are whole minutes. */
const LOOK_MS = 10_000
/** A tick that takes longer is ended; what it has not done is done by the next one. */
const TICK_MS = 2 * 3_600_000
/** After a tick that failed as a whole, nobody tries again for this long, unless somebody asks. */
const AFTER_FAILURE_MS = 60_000

export interface ReaperHost {
  /**
   * Makes a tick, from its beginning to its end; one that is under way, here or on another replica, is waited for first.
   * Rejects when the tick could not be made.
   */
  run(): Promise<void>
  stop(): Promise<void>
}

export interface ReaperHostOptions {
  sql: Sql
  objects: ObjectStore
  settings: ThreadSettings
  log: Log
  onMessage(message: FromWorker): void
}

export function startReaper({ sql, objects, settings, log, onMessage }: ReaperHostOptions): ReaperHost {
  const ending = new AbortController()
  let underWay: Promise<void> = Promise.resolve()
  /** A tick that has not begun: everybody who asks until then shares it. */
  let asked: Promise<void> | null = null
  let notBefore = 0

  async function makeTick(isAsked: boolean): Promise<void> {
    if (ending.signal.aborted) throw new Error('the service ends')
    let isMade = false
    await runWorkerOnce<ToReaper>({
      name: 'reaper',
      path: new URL('./reaper.worker.ts', import.meta.url),
      startMessage: { type: 'start', settings: { ...settings, isAsked } },
      timeoutMs: TICK_MS,
      log,
      signal: ending.signal,
      onMessage(message, thread) {
        if (message.type === 'objectCall')
          void answerObjectCall(objects, message.call).then((answer) =>
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

  const loop = startLoop({
    everyMs: LOOK_MS,
    onError(error) {
      notBefore = performance.now() + AFTER_FAILURE_MS
      if (!ending.signal.aborted) log.error('a tick of the reaper failed', { error })
    },
    async tick() {
      if (performance.now() >= notBefore && (await isDue(sql))) await after(false)
      return false
    },
  })

  return {
    run() {
      asked ??= underWay.then(() => {
        asked = null
        return after(true)
      })
      return asked
    },
    async stop() {
      ending.abort()
      await Promise.all([loop.stop(), underWay])
    },
  }
}
