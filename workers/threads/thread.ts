// A worker thread as the API process sees it: validates its messages and reports how it ended.
import type { Log } from '../../app/core/log.ts'
import { FromWorker, parseMessage, type ToWorker } from '../messages/channel.ts'

/** `failed`: an exception or an unhandled rejection; the log contains the error. */
export type ThreadEnd = { reason: 'failed' } | { reason: 'exited'; code: number }

export interface Thread<Message extends ToWorker> {
  /** Posting to a dead thread does nothing, because messages are only hints. */
  post(message: Message): void
  /** Ends the thread and its connections at once. Its later messages are dropped. */
  terminate(): void
}

interface ThreadOptions<Message extends ToWorker> {
  name: string
  path: URL
  /** The first message to the thread. */
  startMessage: Message
  log: Log
  onMessage(message: FromWorker): void
  /** Called when the thread ends without `terminate`. */
  onEnd(end: ThreadEnd): void
}

export function startThread<Message extends ToWorker>(options: ThreadOptions<Message>): Thread<Message> {
  const { name, path, startMessage, log, onMessage, onEnd } = options
  const worker = new Worker(path.href, { name })
  let isOver = false
  let hasFailed = false

  worker.onmessage = ({ data }) => {
    if (isOver) return
    let message: FromWorker
    try {
      message = parseMessage(FromWorker, data)
    } catch (error) {
      log.error(`invalid message from worker ${name} ignored`, { error })
      return
    }
    onMessage(message)
  }
  worker.onerror = (event) => {
    hasFailed = true
    log.error(`worker ${name} failed`, { error: event.message })
  }
  worker.addEventListener('close', (event) => {
    if (isOver) return
    isOver = true
    // The exit code does not tell: an unhandled rejection ends a thread with code 0.
    if (hasFailed) onEnd({ reason: 'failed' })
    else onEnd({ reason: 'exited', code: 'code' in event ? Number(event.code) : 0 })
  })
  worker.postMessage(startMessage)

  return {
    post: (message) => worker.postMessage(message),
    terminate() {
      isOver = true
      worker.terminate()
    },
  }
}
