// A worker thread that lives for one task: 16 MB that are there only while it works, and a crash that ends only the task.
import type { Log } from '../../app/core/log.ts'
import type { FromWorker, ToWorker } from './channel.ts'
import { startThread, type Thread } from './thread.ts'

export interface RunOnceOptions<Message extends ToWorker> {
  name: string
  path: URL
  /** What the thread is to do; it says `stopped` when it has. */
  startMessage: Message
  /** After this long the thread is asked to stop. */
  timeoutMs: number
  log: Log
  /** `thread`: to answer it. */
  onMessage?(message: FromWorker, thread: Pick<Thread<Message>, 'post'>): void
  /** Asks the thread to stop before its time: the service ends. */
  signal?: AbortSignal
  /** From being asked to stop to being ended. Tests may shorten it. */
  graceMs?: number
}

const GRACE_MS = 5_000

/**
 * Resolves when the thread has said `stopped`, in its own time or because it was asked to; rejects when it ended in any other
 * way or had to be ended. A thread is always gone when this settles.
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
    // Asked first: ending a thread in the middle of what it does leaves that to the database to undo.
    const ask = () => {
      if (graceTimer !== null) return
      thread.post({ type: 'stop' } as Message)
      graceTimer = setTimeout(
        () => settle(() => reject(new Error(`worker ${name} did not stop when asked`))),
        graceMs,
      )
    }
    const timer = setTimeout(ask, timeoutMs)
    if (signal?.aborted) ask()
    signal?.addEventListener('abort', ask)

    function settle(how: () => void) {
      clearTimeout(timer)
      if (graceTimer !== null) clearTimeout(graceTimer)
      signal?.removeEventListener('abort', ask)
      thread.terminate()
      how()
    }
  })
}
