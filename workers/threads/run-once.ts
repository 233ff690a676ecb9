// Runs a worker thread for one task. The thread's 16 MB are in use only during the task, and a crash ends only the task.
import type { Log } from '../../app/core/log.ts'
import type { FromWorker, ToWorker } from '../messages/channel.ts'
import { startThread, type Thread } from './thread.ts'

interface RunOnceOptions<Message extends ToWorker> {
  name: string
  path: URL
  /** The task of the thread; the thread posts `stopped` after it. */
  startMessage: Message
  /** After this time the thread gets the message `stop`. */
  timeoutMs: number
  log: Log
  /** `thread` is for answers. */
  onMessage?(message: FromWorker, thread: Pick<Thread<Message>, 'post'>): void
  /** Aborts when the service ends; the thread then gets the message `stop`. */
  signal?: AbortSignal
  /** Time between the message `stop` and the termination. Tests may shorten it. */
  graceMs?: number
}

const GRACE_MS = 5_000

/**
 * Resolves when the thread has posted `stopped`, by itself or after `stop`. Rejects if it ended in another way or was
 * terminated. The thread is always gone when this settles.
 */
export function runWorkerOnce<Message extends ToWorker>({
  name,
  path,
  startMessage,
  timeoutMs,
  log,
  onMessage = () => {},
  signal,
  graceMs = GRACE_MS,
}: RunOnceOptions<Message>): Promise<void> {
  return new Promise((resolve, reject) => {
    let graceTimer: ReturnType<typeof setTimeout> | null = null
    const thread: Thread<Message> = startThread<Message>({
      name,
      path,
      startMessage,
      log,
      onMessage(message) {
        if (message.type === 'stopped') settle(resolve)
        onMessage(message, thread)
      },
      onEnd: (end) =>
        settle(() =>
          reject(
            new Error(
              `worker ${name} ${end.reason}${end.reason === 'exited' ? ` with code ${end.code}` : ''}`,
            ),
          ),
        ),
    })
    // The thread gets a chance to stop first. After a termination, the database must roll back its work.
    const requestStop = () => {
      if (graceTimer !== null) return
      thread.post({ type: 'stop' } as Message)
      graceTimer = setTimeout(
        () => settle(() => reject(new Error(`worker ${name} did not stop within ${graceMs} ms`))),
        graceMs,
      )
    }
    const timer = setTimeout(requestStop, timeoutMs)
    if (signal?.aborted) requestStop()
    signal?.addEventListener('abort', requestStop)

    function settle(finish: () => void) {
      clearTimeout(timer)
      if (graceTimer !== null) clearTimeout(graceTimer)
      signal?.removeEventListener('abort', requestStop)
      thread.terminate()
      finish()
    }
  })
}
