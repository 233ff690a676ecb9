// The API process's side of a worker thread: it is started, listened to, and started again whenever it ends unasked.
import type { Log } from '../app/log.ts'
import { FromWorker, parseMessage, type ToWorker } from './channel.ts'

export interface SupervisedWorker<Message extends ToWorker> {
  /** Posting to a dead thread is silent, which is fine: messages are hints. */
  post(message: Message): void
  /** Ends the thread at once and lets supervision start another: for operators, and for proof. */
  restart(): void
  /** Asks the thread to stop, and ends it when it does not within the grace time. */
  stop(): Promise<void>
}

export interface SuperviseOptions<Message extends ToWorker> {
  name: string
  path: URL
  /** Sent first to every new thread. */
  startMessage: Message
  log: Log
  onMessage(message: FromWorker): void
  onRestart(): void
}

const BACKOFF_MS = [0, 100, 500, 1_000, 2_000, 5_000]
/** A thread that lived this long starts again without delay. */
const STEADY_MS = 30_000
const SILENCE_MS = 10_000
const STOP_GRACE_MS = 5_000

export function superviseWorker<Message extends ToWorker>({
  name,
  path,
  startMessage,
  log,
  onMessage,
  onRestart,
}: SuperviseOptions<Message>): SupervisedWorker<Message> {
  let worker: Worker | null = null
  let failures = 0
  let startedAt = 0
  let heardAt = 0
  let isStopping = false
  let restartTimer: ReturnType<typeof setTimeout> | null = null
  let onStopped: () => void = () => {}

  function start() {
    const thread = new Worker(path.href, { name })
    worker = thread
    startedAt = heardAt = performance.now()
    thread.onmessage = ({ data }) => {
      heardAt = performance.now()
      try {
        const message = parseMessage(FromWorker, data)
        if (message.type === 'stopped') onStopped()
        onMessage(message)
      } catch (error) {
        log.error(`worker ${name} said what nobody understands`, { error })
      }
    }
    thread.onerror = (event) => log.error(`worker ${name} threw`, { error: event.message })
    // Any close that was not asked for is a crash: an unhandled rejection closes with code 0.
    thread.addEventListener('close', () => ended(thread))
    thread.postMessage(startMessage)
  }

  function ended(thread: Worker) {
    if (thread !== worker || isStopping) return
    worker = null
    failures = performance.now() - startedAt > STEADY_MS ? 0 : failures + 1
    const delayMs = BACKOFF_MS[Math.min(failures, BACKOFF_MS.length - 1)] ?? 0
    log.warn(`worker ${name} ended unasked; starting it again`, { delayMs })
    onRestart()
    restartTimer = setTimeout(start, delayMs)
  }

  function terminate() {
    const thread = worker
    if (thread === null) return
    thread.terminate()
    ended(thread)
  }

  const watch = setInterval(() => {
    if (worker === null || performance.now() - heardAt < SILENCE_MS) return
    log.error(`worker ${name} has been silent for ${SILENCE_MS} ms`)
    terminate()
  }, 1_000)
  watch.unref?.()
  start()

  return {
    post: (message) => worker?.postMessage(message),
    restart: terminate,
    async stop() {
      isStopping = true
      clearInterval(watch)
      if (restartTimer !== null) clearTimeout(restartTimer)
      const thread = worker
      if (thread === null) return
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, STOP_GRACE_MS)
        onStopped = () => {
          clearTimeout(timer)
          resolve()
        }
        thread.postMessage({ type: 'stop' } satisfies ToWorker)
      })
      worker = null
      thread.terminate()
    },
  }
}
