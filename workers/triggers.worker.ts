// Entry of the evaluator's thread. It runs on every replica and evaluates triggers on the leader.
import { newId } from '../app/core/ids.ts'
import { listen } from '../app/runs/service.ts'
import { openDatabase } from '../drizzle/client.ts'
import { startTracing } from '../ground/telemetry/spans.ts'
import { startLeadership } from './leadership/leadership.ts'
import { type FromWorker, ToTriggers } from './messages/channel.ts'
import { serveThread } from './threads/serve-thread.ts'
import { startTriggers } from './triggers.ts'

serveThread('triggers', ToTriggers, async ({ databaseUrl, processId, tracing }, { post, log }) => {
  const stopTracing = await startTracing(tracing, 'triggers')
  const database = openDatabase(databaseUrl, {
    connections: 1,
    rawConnections: 2,
    application: 'sluice triggers',
    settings: { lock_timeout: 5_000, statement_timeout: 15_000, idle_in_transaction_session_timeout: 10_000 },
  })
  const { sql } = database
  const leadership = startLeadership({
    databaseUrl,
    role: 'triggers',
    holder: processId,
    log,
    onChange(isLeading) {
      post({ type: 'led', isLeading } satisfies FromWorker)
      if (isLeading) triggers.led()
    },
  })
  const triggers = startTriggers({ sql, ...leadership, newId, log, post })
  // Other replicas announce the events that they record. After a reconnect, announcements may have been missed.
  await listen(sql, (announcement) => 'isEventRecorded' in announcement && triggers.nudge(), triggers.nudge)
  return {
    received: () => triggers.nudge(),
    async stop() {
      await triggers.stop()
      await leadership.stop()
      await Promise.all([database.close(), stopTracing()])
    },
  }
})
