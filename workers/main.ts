// Entry of the process that runs the dispatcher, scheduler, triggers and reaper for an API process that does not run on Bun.
import { parseConfig } from '../app/config/config.ts'
import { newId } from '../app/core/ids.ts'
import { makeLog } from '../app/core/log.ts'
import { fail } from '../app/entry/process.ts'
import { migrate, openDatabase } from '../drizzle/client.ts'
import { endInOrder } from '../ground/process/lifeline.ts'
import { linkFrom, serveLink } from './runtime/link.ts'
import { makeThreads } from './runtime/threads.ts'

try {
  const config = parseConfig(process.env, process.cwd())
  const log = makeLog('workers', config.logFormat)
  await migrate(config.databaseUrl)
  const database = openDatabase(config.databaseUrl, {
    connections: 1,
    rawConnections: 2,
    application: 'sluice workers',
    settings: { statement_timeout: 60_000, idle_in_transaction_session_timeout: 60_000 },
  })
  const threads = makeThreads({
    config,
    processId: newId(),
    sql: database.sql,
    answerObjectCall: (call) => link.answerObjectCall(call),
    log,
    count: (counted) => link.count(counted),
  })
  const link = await serveLink(
    linkFrom(process.env),
    {
      nudge: threads.nudge,
      async reap() {
        if (threads.reaper === null) throw new Error('reaper disabled: REAPER=off')
        await threads.reaper.run()
      },
      async dryRun() {
        if (threads.reaper === null) throw new Error('reaper disabled: REAPER=off')
        return threads.reaper.dryRun()
      },
      restart: threads.restart,
    },
    (error) => log.warn('connection of the API process closed', { error }),
  )
  threads.start()
  endInOrder(process.env, async () => {
    await threads.stop()
    link.close()
    await database.close()
  })
  process.on('SIGUSR2', () => threads.restart())
} catch (error) {
  fail(error)
}
