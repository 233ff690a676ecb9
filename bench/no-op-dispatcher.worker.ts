// The dispatcher's thread as the service runs it, with a runner that answers in the same process.
import { makeTokens } from '../app/catalog/tokens.ts'
import { systemClock } from '../app/core/clock.ts'
import { makeLog } from '../app/core/log.ts'
import { openDatabase } from '../drizzle/client.ts'
import { DISPATCHER_SESSION, startDispatcher } from '../workers/dispatcher/dispatcher.ts'
import { makeRunners } from '../workers/dispatcher/runners.ts'
import { noOpInProcess } from './no-op-runner.ts'

declare const self: Worker

let dispatcher: ReturnType<typeof startDispatcher> | undefined
self.onmessage = async ({ data }: MessageEvent<{ start: string } | 'nudge' | 'stop'>) => {
  if (data === 'nudge') return dispatcher?.nudge('runRequested')
  if (data === 'stop') {
    await dispatcher?.stop()
    return self.postMessage('stopped')
  }
  const database = openDatabase(data.start, {
    connections: 1,
    rawConnections: 3,
    application: 'dispatcher',
    settings: DISPATCHER_SESSION,
  })
  dispatcher = startDispatcher({
    sql: database.sql,
    starts: database.session('starts'),
    moves: database.session('moves'),
    runners: makeRunners(['no-op:'], noOpInProcess),
    tokens: makeTokens('secret'),
    clock: systemClock,
    log: makeLog('dispatcher', 'text'),
    replica: 'bench',
    publicUrl: 'http://127.0.0.1:1',
    post: () => {},
  })
  self.postMessage('ready')
}
