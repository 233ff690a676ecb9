// The thread's side of the channel. Starts on the message `start`, posts that it is alive, and stops in order.

import type { TSchema } from '@sinclair/typebox'
import { type Log, makeLog } from '../../app/core/log.ts'
import { sampleTraces } from '../../ground/telemetry/spans.ts'
import { type FromWorker, parseMessage, type ToWorker } from '../messages/channel.ts'

declare const self: Worker

type SettingsOf<Message extends ToWorker> = Extract<Message, { type: 'start' }>['settings']
/** Messages that a running thread may get; `never` if it gets none. */
type HintOf<Message extends ToWorker> = Exclude<Message, { type: 'start' } | { type: 'stop' }>

interface Served<Hint> {
  /** Gets validated hints; `assertNever` if the thread gets none. */
  received(hint: Hint): void
  /** Stops the work; resolves after the work under way has ended. */
  stop(): Promise<void>
  /** For a thread with one task: the end of the task, after which the thread stops by itself. */
  done?: Promise<void>
}

interface ThreadParts {
  post(message: FromWorker): void
  log: Log
}

/** Less than a tenth of the silence after which a thread counts as hung. */
const ALIVE_MS = 1_000

/**
 * Serves one thread. A failed start ends the thread, as does any later exception or rejection; supervision then starts another.
 * An invalid message is logged and ignored. An invalid first message throws, because a thread without settings has no task.
 */
export function serveThread<Message extends ToWorker>(
  name: string,
  schema: TSchema & { static: Message },
  start: (settings: SettingsOf<Message>, parts: ThreadParts) => Promise<Served<HintOf<Message>>>,
): void {
  const post = (message: FromWorker) => self.postMessage(message)
  const alive = setInterval(() => post({ type: 'alive' }), ALIVE_MS)
  let log = makeLog(name, 'text')
  let isStopping = false
  let running: Promise<Served<HintOf<Message>>> | null = null

  self.onmessage = ({ data }) => {
    let message: ToWorker
    try {
      message = parseMessage(schema, data) as ToWorker
    } catch (error) {
      if (running === null) throw error
      log.error('invalid message from the API process ignored', { error })
      return
    }
    switch (message.type) {
      case 'start':
        if (running !== null) return log.error('second start message from the API process ignored')
        log = makeLog(name, message.settings.logFormat)
        sampleTraces(message.settings.tracing)
        running = start(message.settings as SettingsOf<Message>, { post, log })
        void running.then(async ({ done }) => {
          post({ type: 'ready' })
          if (done === undefined) return
          await done
          await stop()
        })
        return
      case 'stop':
        void stop()
        return
      default:
        // The schema accepts only hints of this thread.
        void running?.then(({ received }) => received(message as HintOf<Message>))
    }
  }

  async function stop() {
    if (isStopping) return
    isStopping = true
    clearInterval(alive)
    const started = await running
    await started?.stop()
    post({ type: 'stopped' })
  }
}
