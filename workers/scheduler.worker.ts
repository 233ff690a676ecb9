// Entry of the scheduler's thread: it runs on every replica, and looks at the schedules on the one that leads.
import { newId } from '../app/ids.ts'
import { limits } from '../app/limits.ts'
import { assertNever, ToScheduler } from './channel.ts'
import { startLeadership } from './leadership.ts'
import { startLoop } from './loop.ts'
import { tickSchedules } from './scheduler.ts'
import { serveThread } from './serve-thread.ts'

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
    everyMs: limits.schedulerTickMs,
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
