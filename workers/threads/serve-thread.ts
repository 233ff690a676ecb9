// The thread's own side of the channel: it starts what it is told to start, says that it lives, and ends what it has begun.

import type { TSchema } from '@sinclair/typebox'
import type { Log } from '../../app/core/log.ts'
import { makeLog } from '../../app/core/log.ts'
import { type FromWorker, parseMessage, type ToWorker } from './channel.ts'

declare const self: Worker

type SettingsOf<Message extends ToWorker> = Extract<Message, { type: 'start' }>['settings']
/** What a thread may be told while it runs; `never` for one that is told nothing. */
type HintOf<Message extends ToWorker> = Exclude<Message, { type: 'start' } | { type: 'stop' }>

export interface Served<Hint> {
  /** Hints, checked; `assertNever` where there are none. */
  heard(hint: Hint): void
  /** Ends what was started; what is under way ends first. */
  stop(): Promise<void>
  /** For a thread that lives for one task: the end of it, after which the thread stops by itself. */
  done?: Promise<void>
}

export interface ThreadParts {
  post(message: FromWorker): void
  log: Log
}

/** Less than a tenth of the silence after which a thread counts as hung. */
const ALIVE_MS = 1_000

/**
 * Serves one thread. A start that fails ends the thread, as does whatever is thrown or rejected later: supervision starts
 * another. A message that is not understood is logged and otherwise ignored, except for the first: without settings there
 * is nothing to do.
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
      log.error('a message was not understood', { error })
      return
    }
    switch (message.type) {
      case 'start':
        if (running !== null) return log.error('told to start a second time')
        log = makeLog(name, message.settings.logFormat)
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
        // The schema allows this thread no hints but its own.
        void running?.then(({ heard }) => heard(message as HintOf<Message>))
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
