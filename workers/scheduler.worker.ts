// Entry of the scheduler's thread: it runs on every replica, and looks at the schedules on the one that leads.
import { newId } from '../app/core/ids.ts'
import { startLeadership } from './leadership/leadership.ts'
import { tickSchedules } from './scheduler.ts'
import { assertNever, ToScheduler } from './threads/channel.ts'
import { startLoop } from './threads/loop.ts'
import { serveThread } from './threads/serve-thread.ts'

/** The scheduler looks at its schedules this often (spec: Limits), and takes so many of them in one transaction. */
const SCHEDULER_TICK_MS = 30_000

serveThread('scheduler', ToScheduler, async ({ databaseUrl, processId }, { post, log }) => {
  const leadership = startLeadership({
    databaseUrl,
    role: 'scheduler',
    holder: processId,
    log,
    onChange(isLeading) {
      post({ type: 'led', isLeading })
      // What became due while nobody led has waited long enough.
      if (isLeading) loop.nudge()
    },
  })
  const loop = startLoop({
    everyMs: SCHEDULER_TICK_MS,
    onError: (error) => log.error('looking for due schedules failed', { error }),
    async tick() {
      const ticked = await tickSchedules({ write: leadership.write, newId, log })
      if (ticked === null) return false
      post({ type: 'ticked', runsRequested: ticked.requested })
      if (ticked.requested > 0) post({ type: 'runsRequested', count: ticked.requested })
      return false
    },
  })
  return {
    heard: assertNever,
    async stop() {
      await loop.stop()
      await leadership.stop()
    },
  }
})
