// Entry of the dispatcher's thread. Starts on the message `start`, and posts only messages of the channel.
import { attemptTokenKey } from '../app/attempt-access/store/token-key.ts'
import { makeTokens } from '../app/attempt-access/tokens.ts'
import { systemClock } from '../app/core/clock.ts'
import { newId } from '../app/core/ids.ts'
import { makeLog } from '../app/core/log.ts'
import { runnerAt } from '../app/rpc/clients.ts'
import { openDatabase } from '../drizzle/client.ts'
import { startTracing } from '../ground/telemetry/spans.ts'
import { DISPATCHER_SESSION, type Dispatcher, startDispatcher } from './dispatcher/dispatcher.ts'
import { makeRunners } from './dispatcher/runners.ts'
import { forgetReplicasOf } from './dispatcher/store.ts'
import {
  assertNever,
  type DispatcherSettings,
  type FromWorker,
  parseMessage,
  ToDispatcher,
} from './messages/channel.ts'

declare const self: Worker

const post = (message: FromWorker) => self.postMessage(message)
let running: Promise<{ dispatcher: Dispatcher; close(): Promise<void> }> | null = null

async function start(settings: DispatcherSettings) {
  const log = makeLog('dispatcher', settings.logFormat)
  const database = openDatabase(settings.databaseUrl, {
    connections: 1,
    rawConnections: 3,
    application: 'sluice dispatcher',
    settings: DISPATCHER_SESSION,
  })
  const stopTracing = await startTracing(settings.tracing, 'dispatcher')
  const tokenKey = await attemptTokenKey(database.sql)
  // A process has one dispatcher, so attempts that an earlier thread followed can be adopted at once.
  await forgetReplicasOf(database.sql, settings.processId)
  const dispatcher = startDispatcher({
    sql: database.sql,
    starts: database.session('starts'),
    moves: database.session('moves'),
    runners: makeRunners(settings.runnerUrls, (url) =>
      runnerAt(url, (call) => post({ type: 'rpcEnded', ...call }), {
        token: settings.sidecarToken,
        tokenUrls: settings.sidecarTokenUrls,
        publicUrl: settings.publicUrl,
      }),
    ),
    tokens: makeTokens(tokenKey, settings.lakeRoot),
    clock: systemClock,
    log,
    replica: `${settings.processId}:${newId()}`,
    publicUrl: settings.publicUrl,
    lakeRoot: settings.lakeRoot,
    includesInputs: settings.includesInputs,
    namespaceLimit: settings.namespaceLimit,
    post,
  })
  post({ type: 'ready' })
  return {
    dispatcher,
    async close() {
      await Promise.all([database.close(), stopTracing()])
    },
  }
}

async function stop() {
  const started = await running
  await started?.dispatcher.stop()
  await started?.close()
  post({ type: 'stopped' })
}

self.onmessage = ({ data }) => {
  const message = parseMessage(ToDispatcher, data)
  switch (message.type) {
    case 'start':
      running = start(message.settings)
      return
    case 'nudge':
      void running?.then(({ dispatcher }) => dispatcher.nudge(message.about))
      return
    case 'stop':
      void stop()
      return
    default:
      return assertNever(message)
  }
}
