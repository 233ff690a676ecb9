// The API process's side of a permanent worker thread. Starts the thread, receives its messages, and restarts it if it ends
// unexpectedly, is silent, or does not become ready.
import type { Log } from '../../app/core/log.ts'
import type { FromWorker, ToWorker } from '../messages/channel.ts'
import { startThread, type Thread, type ThreadEnd } from './thread.ts'

export interface SupervisedWorker<Message extends ToWorker> {
  /** Starts the first thread. Call once. */
  start(): void
  /** The message is lost if no thread runs, because messages are only hints. */
  post(message: Message): void
  /** Terminates the thread, so that supervision starts another: for operators and for tests. */
  restart(): void
  /** Posts `stop`, and terminates the thread if it has not stopped after the grace time. */
  stop(): Promise<void>
}

/** The reason for a restart; a label of the metric. */
export type RestartReason = ThreadEnd['reason'] | 'silent' | 'not_ready' | 'terminated'

interface SuperviseOptions<Message extends ToWorker> {
  name: string
  path: URL
  /** The first message to every new thread. */
  startMessage: Message
  log: Log
  onMessage(message: FromWorker): void
  onRestart(reason: RestartReason): void
  /** Milliseconds; tests may shorten them. */
  times?: Partial<typeof TIMES>
}

const BACKOFF_MS = [0, 100, 500, 1_000, 2_000, 5_000]
const TIMES = {
  /** A thread that lived this long restarts without delay. */
  steadyMs: 30_000,
  /** Threads post `alive` every second; a thread that is silent for this long counts as hung. */
  silenceMs: 10_000,
  /** Maximum time from the start to `ready`. A database that is starting may take long. */
  readyMs: 60_000,
  /** Maximum time from `stop` to the end of the thread. */
  graceMs: 5_000,
  /** Interval of the checks of silence and readiness. */
  watchMs: 1_000,
}

export function superviseWorker<Message extends ToWorker>(
  options: SuperviseOptions<Message>,
): SupervisedWorker<Message> {
  const { name, path, startMessage, log, onMessage, onRestart } = options
  const times = { ...TIMES, ...options.times }
  let thread: Thread<Message> | null = null
  let failures = 0
  let startedAt = 0
  let lastMessageAt = 0
  let isReady = false
  let isStopping = false
  let restartTimer: ReturnType<typeof setTimeout> | null = null
  let onStopped: () => void = () => {}

  function startAnother() {
    startedAt = lastMessageAt = performance.now()
    isReady = false
    thread = startThread<Message>({
      name,
      path,
      startMessage,
      log,
      onMessage(message) {
        lastMessageAt = performance.now()
        if (message.type === 'ready') isReady = true
        if (message.type === 'stopped') onStopped()
        onMessage(message)
      },
      onEnd(end) {
        if (isStopping) return onStopped()
        ended(end.reason, end.reason === 'exited' ? { code: end.code } : {})
      },
    })
  }

  function ended(reason: RestartReason, detail: { code?: number } = {}) {
    thread = null
    failures = performance.now() - startedAt > times.steadyMs ? 0 : failures + 1
    const delayMs = BACKOFF_MS[Math.min(failures, BACKOFF_MS.length - 1)] ?? 0
    log.warn(`worker ${name} ended unexpectedly: restarting it`, { reason, ...detail, delayMs })
    onRestart(reason)
    restartTimer = setTimeout(startAnother, delayMs)
  }

  function terminate(reason: RestartReason) {
    if (thread === null || isStopping) return
    thread.terminate()
    ended(reason)
  }

  let watchedAt = 0
  let watch: ReturnType<typeof setInterval> | undefined
  function checkThread() {
    const now = performance.now()
    // A paused or busy process receives no messages. That time does not count as silence of the thread.
    const pausedMs = Math.max(0, now - watchedAt - 2 * times.watchMs)
    watchedAt = now
    lastMessageAt += pausedMs
    startedAt += pausedMs
    if (thread === null) return
    if (now - lastMessageAt > times.silenceMs) terminate('silent')
    else if (!isReady && now - startedAt > times.readyMs) terminate('not_ready')
  }

  return {
    start() {
      watchedAt = performance.now()
      watch = setInterval(checkThread, times.watchMs)
      watch.unref?.()
      startAnother()
    },
    post: (message) => thread?.post(message),
    restart: () => terminate('terminated'),
    async stop() {
      isStopping = true
      clearInterval(watch)
      if (restartTimer !== null) clearTimeout(restartTimer)
      const last = thread
      if (last === null) return
      await new Promise<void>((resolve) => {
        const timer = setTimeout(() => {
          log.warn(`worker ${name} did not stop within ${times.graceMs} ms: terminating it`)
          resolve()
        }, times.graceMs)
        onStopped = () => {
          clearTimeout(timer)
          resolve()
        }
        last.post({ type: 'stop' } as Message)
      })
      thread = null
      last.terminate()
    },
  }
}
