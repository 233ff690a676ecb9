// Entry of the evaluator's thread: it runs on every replica, and evaluates on the one that leads.
import { newId } from '../app/core/ids.ts'
import { EVENT_RECORDED } from '../app/runs/service.ts'
import { openDatabase } from '../drizzle/client.ts'
import { startLeadership } from './leadership/leadership.ts'
import { type FromWorker, ToTriggers } from './threads/channel.ts'
import { serveThread } from './threads/serve-thread.ts'
import { startTriggers } from './triggers.ts'

serveThread('triggers', ToTriggers, async ({ databaseUrl, processId }, { post, log }) => {
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
  // Facts of other replicas; after a connection that was lost, whatever was missed.
  await sql.listen(EVENT_RECORDED, triggers.nudge, triggers.nudge)
  return {
    heard: () => triggers.nudge(),
    async stop() {
      await triggers.stop()
      await leadership.stop()
      await database.close()
    },
  }
})
