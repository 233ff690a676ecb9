// Entry of a thread of the reaper. It lives for one task, which it performs when this replica leads.
import { attemptTokenKey } from '../app/attempt-access/store/token-key.ts'
import { makeTokens } from '../app/attempt-access/tokens.ts'
import { systemClock } from '../app/core/clock.ts'
import { newId } from '../app/core/ids.ts'
import type { Log } from '../app/core/log.ts'
import { runnerAt } from '../app/rpc/clients.ts'
import { makeNotices, type RunCompleted } from '../app/runs/service.ts'
import { openDatabase, type Sql } from '../drizzle/client.ts'
import { startLeadership } from './leadership/leadership.ts'
import { type FromWorker, type MaintenanceMeans, ToReaper } from './messages/channel.ts'
import type { MaintenanceOptions } from './reaper/maintenance.ts'
import { dryRun, lookAtTime, maintain, TickEnded, type TickOptions, tick } from './reaper/reaper.ts'
import { makeObjectCalls } from './runtime/object-calls.ts'
import { serveThread } from './threads/serve-thread.ts'

/** Until this replica leads, it checks this often whether a tick is still due after the ticks of other replicas. */
const LOOK_MS = 1_000

/** The clients of the runners, and the key of tokens. */
async function maintenanceOf(
  {
    runnerUrls,
    sidecarToken: token,
    sidecarTokenUrls: tokenUrls,
    publicUrl,
    lakeRoot,
    ...limits
  }: MaintenanceMeans,
  { sql, log, post }: { sql: Sql; log: Log; post(message: FromWorker): void },
): Promise<MaintenanceOptions> {
  const access = { token, tokenUrls, publicUrl }
  return {
    ...limits,
    runners: runnerUrls.map((url) => runnerAt(url, (call) => post({ type: 'rpcEnded', ...call }), access)),
    tokens: makeTokens(await attemptTokenKey(sql), lakeRoot),
    clock: systemClock,
    publicUrl,
    lakeRoot,
    newId,
    log,
    onOutcome: (outcome, bytes) => post({ type: 'maintained', outcome, bytes }),
  }
}

serveThread('reaper', ToReaper, async (start, { post, log }) => {
  const { databaseUrl, processId, isRequested, task, branchMaxIdleDays } = start
  // Ticks go on during maintenance, and a process leads a role with one thread.
  const role = task.kind === 'maintenance' ? 'maintenance' : 'reaper'
  const { sql, close } = openDatabase(databaseUrl, {
    connections: 1,
    rawConnections: 2,
    application: 'sluice reaper',
    settings: {
      lock_timeout: 5_000,
      statement_timeout: 60_000,
      idle_in_transaction_session_timeout: 10_000,
    },
  })
  const { objects, answered } = makeObjectCalls((id, call) => post({ type: 'objectCall', id, call }))
  const notices = makeNotices(sql, (error) =>
    log.warn('announcement of changed runs not sent: log streams and triggers react at their next sweep', {
      error,
    }),
  )
  const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))
  let changed = () => {}
  const leadership = startLeadership({
    databaseUrl,
    role,
    holder: processId,
    log,
    onChange(isLeading) {
      if (role === 'reaper') post({ type: 'led', isLeading })
      changed()
    },
  })
  let isStopping = false
  const checkRunning = () => {
    if (isStopping) throw new TickEnded('reaper tick stopped early: the next tick continues')
  }

  async function tickOnce(): Promise<FromWorker> {
    while (!leadership.isLeading()) {
      checkRunning()
      const change = Promise.withResolvers<void>()
      changed = change.resolve
      // Also queried for a requested tick: without a database no replica leads, and the failed query reaches the caller.
      const { isDue } = await lookAtTime(sql)
      if (!isRequested && !isDue) return { type: 'reaped', failures: [] }
      await Promise.race([pause(LOOK_MS), change.promise])
    }
    const options: TickOptions = {
      sql,
      write: leadership.write,
      objects,
      newId,
      log,
      branchMaxIdleDays,
      isRequested,
      pause,
      checkRunning,
      onCompleted(runs: RunCompleted[]) {
        if (runs.length === 0) return
        notices.completed(runs)
        notices.changed(runs.map((run) => run.run_id))
        post({ type: 'runsEnded', status: 'failed', count: runs.length })
      },
    }
    if (task.kind === 'dryRun') return { type: 'dryRunDone', result: await dryRun(options) }
    if (task.kind === 'maintenance') {
      await maintain(options, await maintenanceOf(task.means, { sql, log, post }))
      return { type: 'maintenanceDone' }
    }
    const result = await tick(options)
    return { type: 'reaped', failures: result?.failures ?? [] }
  }

  const done = tickOnce().then(post, (error) => {
    log[error instanceof TickEnded ? 'warn' : 'error']('reaper tick not completed', { error })
  })
  return {
    received: ({ id, answer }) => answered(id, answer),
    done,
    async stop() {
      isStopping = true
      await done
      await leadership.stop()
      await close()
    },
  }
})
