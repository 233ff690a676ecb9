// The background work: its threads, what they are told and what they say. They live in the API process where that runs on
// Bun, and otherwise in a process beside it (workers/main.ts).
import type { Config } from '../../app/core/config.ts'
import type { Log } from '../../app/core/log.ts'
import type { Sql } from '../../drizzle/client.ts'
import { makeReaper } from '../reaper/reaper-host.ts'
import type { AnswerObjectCall } from '../runtime/object-calls.ts'
import {
  assertNever,
  type FromWorker,
  type ToDispatcher,
  type ToScheduler,
  type ToTriggers,
  type ToWorker,
} from './channel.ts'
import type { Count } from './counted.ts'
import { superviseWorker } from './supervise.ts'

export interface ThreadsOptions {
  config: Pick<
    Config,
    | 'databaseUrl'
    | 'edition'
    | 'logFormat'
    | 'publicUrl'
    | 'reaper'
    | 'runnerUrls'
    | 'sidecarToken'
    | 'sidecarTokenUrls'
  >
  /** Unique to this start of the process: what its earlier threads held is its own. */
  processId: string
  /** For the reaper: when it is due, and the objects that it removes. */
  sql: Sql
  answerObjectCall: AnswerObjectCall
  log: Log
  count: Count
}

export type Threads = ReturnType<typeof makeThreads>

/** The dispatcher, the scheduler, the evaluator of triggers and, unless it is switched off, the reaper. */
export function makeThreads({ config, processId, sql, answerObjectCall, log, count }: ThreadsOptions) {
  const settings = { processId, databaseUrl: config.databaseUrl, logFormat: config.logFormat }
  /** Whether triggers are evaluated by this process, of all replicas. */
  let evaluatesHere = false

  const supervise = <Message extends ToWorker>(
    name: string,
    startMessage: Message,
    heard = heardFrom(name),
    restarted = () => {},
  ) =>
    superviseWorker<Message>({
      name,
      path: new URL(`../${name}.worker.ts`, import.meta.url),
      startMessage,
      log,
      onMessage: heard,
      onRestart(reason) {
        restarted()
        count({ what: 'restarted', worker: name, reason })
      },
    })

  const dispatcher = supervise<ToDispatcher>('dispatcher', {
    type: 'start',
    settings: {
      ...settings,
      runnerUrls: config.runnerUrls ?? [],
      publicUrl: config.publicUrl,
      sidecarToken: config.sidecarToken,
      sidecarTokenUrls: config.sidecarTokenUrls,
      tellsInputs: config.edition === 'community',
    },
  })
  const scheduler = supervise<ToScheduler>('scheduler', { type: 'start', settings })
  const evaluator = supervise<ToTriggers>(
    'triggers',
    { type: 'start', settings },
    (message) => {
      if (message.type === 'led') evaluatesHere = message.isLeading
      heardFrom('triggers')(message)
    },
    () => {
      evaluatesHere = false
    },
  )
  const reaper = config.reaper
    ? makeReaper({ sql, answerObjectCall, settings, log, onMessage: heardFrom('reaper') })
    : null

  function eventRecorded(): boolean {
    if (evaluatesHere) evaluator.post({ type: 'nudge', about: 'eventRecorded' })
    return evaluatesHere
  }

  function heardFrom(worker: string) {
    return (message: FromWorker) => heard(worker, message)
  }

  function heard(worker: string, message: FromWorker) {
    switch (message.type) {
      case 'runsEnded':
        return count({ what: 'runsEnded', status: message.status, count: message.count })
      case 'eventRecorded':
        // Another replica's evaluator hears of it from the database.
        eventRecorded()
        return
      case 'rpcEnded':
        return count({ ...message, what: 'rpcEnded' })
      case 'ready':
        return log.info(`${worker} is ready`)
      case 'runsRequested':
        return dispatcher.post({ type: 'nudge', about: 'runRequested' })
      case 'ticked':
        return count({ what: 'ticked', runsRequested: message.runsRequested })
      case 'alive':
      case 'led':
      case 'reaped':
      // Answered where the reaper's thread is started.
      case 'objectCall':
      case 'stopped':
        return
      default:
        return assertNever(message)
    }
  }

  return {
    reaper,
    /** Until then there are no threads, and messages to them are lost. */
    start() {
      for (const part of [dispatcher, scheduler, evaluator, reaper]) part?.start()
    },
    nudge: (about: 'runRequested' | 'outbox') => dispatcher.post({ type: 'nudge', about }),
    /** Tells the evaluator of an event that some trigger hears. False: it works on another replica, if anywhere. */
    eventRecorded,
    /** Ends every thread at once and lets supervision start another: for operators, and for proof. */
    restart() {
      dispatcher.restart()
      evaluator.restart()
      scheduler.restart()
    },
    async stop() {
      await Promise.all([dispatcher.stop(), evaluator.stop(), scheduler.stop(), reaper?.stop()])
    },
  }
}
