// The background work: its threads, their start messages, and the handling of their messages. The threads live in the API
// process if it runs on Bun, otherwise in a separate process (workers/main.ts).
import type { Config } from '../../app/config/config.ts'
import type { Log } from '../../app/core/log.ts'
import type { Sql } from '../../drizzle/client.ts'
import {
  assertNever,
  type FromWorker,
  type ToDispatcher,
  type ToScheduler,
  type ToTriggers,
  type ToWorker,
} from '../messages/channel.ts'
import type { Count } from '../messages/counted.ts'
import type { AnswerObjectCall } from '../messages/object-calls.ts'
import { makeReaper } from '../reaper/reaper-host.ts'
import { superviseWorker } from '../threads/supervise.ts'

interface ThreadsOptions {
  config: Pick<
    Config,
    | 'databaseUrl'
    | 'edition'
    | 'lakeRoot'
    | 'logFormat'
    | 'branchMaxIdleDays'
    | 'maintenance'
    | 'namespaceLimit'
    | 'publicUrl'
    | 'reaper'
    | 'runnerUrls'
    | 'sidecarToken'
    | 'sidecarTokenUrls'
    | 'tracing'
  >
  /** Unique per start of the process, so a new thread can take over what earlier threads of the process held. */
  processId: string
  /** For the reaper: to check whether a tick is due, and to remove objects. */
  sql: Sql
  answerObjectCall: AnswerObjectCall
  log: Log
  count: Count
}

/** The settings with which a thread reaches the runners, and the runners reach this API. */
const runnersOf = (config: ThreadsOptions['config']) => ({
  runnerUrls: config.runnerUrls ?? [],
  publicUrl: config.publicUrl,
  lakeRoot: config.lakeRoot,
  sidecarToken: config.sidecarToken,
  sidecarTokenUrls: config.sidecarTokenUrls,
})

const reaperSettingsOf = (config: ThreadsOptions['config']) => ({
  branchMaxIdleDays: config.branchMaxIdleDays,
  maintenance: config.maintenance && { ...config.maintenance, ...runnersOf(config) },
})

/** Makes the dispatcher, the scheduler, the trigger evaluator and, unless it is switched off, the reaper. */
export function makeThreads({ config, processId, sql, answerObjectCall, log, count }: ThreadsOptions) {
  const { databaseUrl, logFormat, tracing } = config
  const settings = { processId, databaseUrl, logFormat, tracing }
  /** True while this process is the replica that evaluates triggers. */
  let evaluatesHere = false
  const handlerOf = (worker: string) => (message: FromWorker) => handle(worker, message)

  const supervise = <Message extends ToWorker>(
    name: string,
    startMessage: Message,
    onMessage = handlerOf(name),
    restarted = () => {},
  ) =>
    superviseWorker<Message>({
      name,
      path: new URL(`../${name}.worker.ts`, import.meta.url),
      startMessage,
      log,
      onMessage,
      onRestart(reason) {
        restarted()
        count({ what: 'restarted', worker: name, reason })
      },
    })

  const dispatcher = supervise<ToDispatcher>('dispatcher', {
    type: 'start',
    settings: {
      ...settings,
      ...runnersOf(config),
      includesInputs: config.edition === 'community',
      namespaceLimit: config.namespaceLimit,
    },
  })
  const scheduler = supervise<ToScheduler>('scheduler', { type: 'start', settings })
  const evaluator = supervise<ToTriggers>(
    'triggers',
    { type: 'start', settings },
    (message) => {
      if (message.type === 'led') evaluatesHere = message.isLeading
      handle('triggers', message)
    },
    () => {
      evaluatesHere = false
    },
  )
  const reaper = config.reaper
    ? makeReaper({
        sql,
        answerObjectCall,
        settings,
        ...reaperSettingsOf(config),
        log,
        onMessage: handlerOf('reaper'),
      })
    : null

  function eventRecorded(): boolean {
    if (evaluatesHere) evaluator.post({ type: 'nudge', about: 'eventRecorded' })
    return evaluatesHere
  }

  function handle(worker: string, message: FromWorker) {
    switch (message.type) {
      case 'runsEnded':
        return count({ what: 'runsEnded', status: message.status, count: message.count })
      case 'eventRecorded':
        // The evaluator of another replica gets the announcement of the database.
        eventRecorded()
        return
      case 'rpcEnded':
        return count({ ...message, what: 'rpcEnded' })
      case 'attemptCost':
        return count({ what: 'attemptCost', cost: message.cost })
      case 'ready':
        return log.info(`${worker} is ready`)
      case 'runsRequested':
        return dispatcher.post({ type: 'nudge', about: 'runRequested' })
      case 'ticked':
        return count({ what: 'ticked', runsRequested: message.runsRequested })
      case 'maintained':
        return count({ what: 'maintained', outcome: message.outcome, bytes: message.bytes })
      case 'led':
        return count({ what: 'led', role: worker, isLeading: message.isLeading })
      case 'alive':
      case 'reaped':
      case 'dryRunDone':
      case 'maintenanceDone':
      // `makeReaper` handles the object calls.
      case 'objectCall':
      case 'stopped':
        return
      default:
        return assertNever(message)
    }
  }

  return {
    reaper,
    /** Starts the threads. Earlier messages to them are lost. */
    start() {
      for (const part of [dispatcher, scheduler, evaluator, reaper]) part?.start()
    },
    nudge: (about: 'runRequested' | 'outbox') => dispatcher.post({ type: 'nudge', about }),
    /** Sends the evaluator a hint about an event with a listening trigger. False: this process does not evaluate triggers. */
    eventRecorded,
    /** Terminates every thread, so that supervision starts others: for operators and for tests. */
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
