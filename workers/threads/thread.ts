// A worker thread as the API process sees it: what it says is checked, and how it ends is told.
import type { Log } from '../../app/core/log.ts'
import { FromWorker, parseMessage, type ToWorker } from './channel.ts'

/** `failed`: something was thrown, or rejected and not handled; what it was is in the log. */
export type ThreadEnd = { reason: 'failed' } | { reason: 'exited'; code: number }

export interface Thread<Message extends ToWorker> {
  /** Posting to a dead thread is silent, which is fine: messages are hints. */
  post(message: Message): void
  /** Ends it at once, whatever it is doing; its connections end with it. Nothing is heard of it afterwards. */
  terminate(): void
}

export interface ThreadOptions<Message extends ToWorker> {
  name: string
  path: URL
  /** The first thing it is told. */
  startMessage: Message
  log: Log
  onMessage(message: FromWorker): void
  /** It has ended, and nobody had terminated it. */
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
      log.error(`worker ${name} said what nobody understands`, { error })
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
    // The code is no sign: an unhandled rejection ends a thread with 0, as if all were well.
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
