// Entry of the scheduler's thread. It runs on every replica and handles schedules on the leader.
import { newId } from '../app/core/ids.ts'
import { startTracing } from '../ground/telemetry/spans.ts'
import { startLeadership } from './leadership/leadership.ts'
import { assertNever, ToScheduler } from './messages/channel.ts'
import { tickSchedules } from './scheduler.ts'
import { startLoop } from './threads/loop.ts'
import { serveThread } from './threads/serve-thread.ts'

/** Interval of the scheduler (spec: Limits). */
const SCHEDULER_TICK_MS = 30_000

serveThread('scheduler', ToScheduler, async ({ databaseUrl, processId, tracing }, { post, log }) => {
  const stopTracing = await startTracing(tracing, 'scheduler')
  const leadership = startLeadership({
    databaseUrl,
    role: 'scheduler',
    holder: processId,
    log,
    onChange(isLeading) {
      post({ type: 'led', isLeading })
      // Schedules that became due without a leader are already late.
      if (isLeading) loop.nudge()
    },
  })
  const loop = startLoop({
    everyMs: SCHEDULER_TICK_MS,
    onError: (error) => log.error('scheduler tick failed: retrying', { error }),
    async tick() {
      const ticked = await tickSchedules({ write: leadership.write, newId, log })
      if (ticked === null) return false
      post({ type: 'ticked', runsRequested: ticked.requested })
      if (ticked.requested > 0) post({ type: 'runsRequested', count: ticked.requested })
      return false
    },
  })
  return {
    received: assertNever,
    async stop() {
      await loop.stop()
      await leadership.stop()
      await stopTracing()
    },
  }
})
