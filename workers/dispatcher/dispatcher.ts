// The dispatcher starts waiting runs, follows executing attempts and ends finished runs, in batches. The statecharts make all
// decisions. Parts: starter, follower, ender, presence, and the effects that need a runner.

import { ConnectError } from '@connectrpc/connect'
import type { Tokens } from '../../app/attempt-access/tokens.ts'
import type { Clock } from '../../app/core/clock.ts'
import { limits } from '../../app/core/limits.ts'
import type { Log } from '../../app/core/log.ts'
import type { Layer } from '../../app/core/names.ts'
import { failureOf, isRefusedCaller } from '../../app/rpc/clients.ts'
import { makeNotices, type OpenAttempt, queueCancels, type RunCompleted } from '../../app/runs/service.ts'
import type { Sql } from '../../drizzle/client.ts'
import type { FromWorker } from '../messages/channel.ts'
import { startLoop } from '../threads/loop.ts'
import { startEnder } from './ender.ts'
import { makeFollower } from './follower.ts'
import { EFFECT_TRIES, performDue } from './outbox.ts'
import { startPresence } from './presence.ts'
import type { Runners } from './runners.ts'
import { startStarter } from './starter.ts'

/** Longer than any attempt. A token is worthless much earlier, when its branch closes. */
const ATTEMPT_TOKEN_MS = 86_400_000
/** Interval of a replica's heartbeats. Other replicas take over its runs after the expiry. */
const REPLICA_RENEW_MS = 2_000
/** Timeout of one cancel call to a runner. The effect retries a failed call up to `EFFECT_TRIES` times. */
const CANCEL_TIMEOUT_MS = 3_000

interface DispatcherDeps {
  sql: Sql
  /** Connections for starts and for transitions of runs. They are separate, so neither waits for the other. */
  starts: Sql
  moves: Sql
  runners: Runners
  tokens: Tokens
  clock: Clock
  log: Log
  /** Unique per start of this thread. Runs of another replica name are orphans after that name expires. */
  replica: string
  publicUrl: string
  /** The start of every location in the lake's metadata. */
  lakeRoot: string
  /** Whether a submission contains the landing files of its attempt; otherwise the runner requests them. */
  includesInputs?: boolean
  /** Runs of one namespace that execute at once; null: no limit. */
  namespaceLimit?: number | null
  post(message: FromWorker): void
  /** Intervals of the sweeps and of the heartbeats. Tests may shorten them. */
  sweepMs?: number
  renewMs?: number
}

export interface Dispatcher {
  nudge(about: 'runRequested' | 'outbox'): void
  /** Stops following and releases the runs to other replicas. The attempts continue. */
  stop(): Promise<void>
}

/** Interval of the message that this thread is alive. */
const ALIVE_MS = 1_000

export function startDispatcher(deps: DispatcherDeps): Dispatcher {
  const {
    sql,
    starts,
    moves,
    runners,
    clock,
    log,
    replica,
    includesInputs = true,
    namespaceLimit = null,
    post,
  } = deps
  const { sweepMs = limits.sweepMs, renewMs = REPLICA_RENEW_MS } = deps
  const stopping = new AbortController()
  const notices = makeNotices(sql, (error) =>
    log.error('announcement of changed runs not sent: log streams and triggers react at their next sweep', {
      error,
    }),
  )

  const performing = startLoop({
    everyMs: sweepMs,
    onError: (error) => log.error('performing effects failed: retrying', { error }),
    tick: () =>
      performDue(
        sql,
        { cancelAttempt: (payload) => cancelAttempt(runners, payload) },
        (kind, error) => log.warn(`effect ${kind} failed`, { error }),
        EFFECT_TRIES,
      ),
  })

  function onEnded(completed: RunCompleted[], events: number) {
    for (const [status, runs] of Map.groupBy(completed, (run) => run.status))
      post({ type: 'runsEnded', status, count: runs.length })
    if (events > 0) post({ type: 'eventRecorded' })
  }

  const ender = startEnder({
    moves,
    clock,
    log,
    sweepMs,
    onEnded,
    onFreed: () => starter.nudge(),
    async onUnwanted(attempts) {
      await queueCancels(sql, attempts)
      performing.nudge()
    },
  })
  const follower = makeFollower({
    runners,
    ender,
    lakeAccess: lakeAccessOf(deps),
    onSlotFree: () => starter.slotFreed(),
    onCost: (cost) => post({ type: 'attemptCost', cost }),
    onError: ({ runId, attempt }, error) =>
      log.error('following an attempt failed: retrying', { run_id: runId, attempt, error }),
    signal: stopping.signal,
  })
  const starter = startStarter({
    starts,
    runners,
    follower,
    notices,
    replica,
    includesInputs,
    namespaceLimit,
    log,
    sweepMs,
    onEnded,
  })
  const presence = startPresence({ sql, replica, follower, ender, includesInputs, log, renewMs })
  const alive = setInterval(() => post({ type: 'alive' }), ALIVE_MS)

  return {
    nudge(about) {
      if (about === 'outbox') return performing.nudge()
      ender.requested()
      starter.nudge()
    },
    async stop() {
      clearInterval(alive)
      stopping.abort()
      await Promise.all([starter.stop(), presence.stop(), performing.stop()])
      await ender.stop()
      await presence.deregister()
    },
  }
}

/** The token and addresses with which an attempt reaches the lake. */
const lakeAccessOf =
  ({ tokens, clock, publicUrl, lakeRoot }: DispatcherDeps) =>
  ({ branch, runId, attempt, namespace, layer, pipeline }: OpenAttempt) => ({
    catalogUrl: `${publicUrl}/catalog`,
    objectsUrl: `${publicUrl}/lake/objects`,
    warehouse: `sluice@${branch}`,
    catalogId: tokens.catalogId,
    lakeRoot,
    token: tokens.attempt({
      branch,
      runId,
      attempt,
      target: { namespace, layer: layer as Layer, name: pipeline },
      expiresAt: new Date(clock.now().getTime() + ATTEMPT_TOKEN_MS),
    }),
  })

async function cancelAttempt(runners: Runners, { handle, runnerUrl }: Record<string, unknown>) {
  const { service } = runners.remoteAt(String(runnerUrl))
  try {
    await service.cancelRun({ handle: String(handle) }, { signal: AbortSignal.timeout(CANCEL_TIMEOUT_MS) })
  } catch (error) {
    // An unreachable runner has no attempt left to stop. A runner that refuses this API may still execute it.
    if (failureOf(error) !== 'unreachable' || isRefusedCaller(ConnectError.from(error).code)) throw error
  }
}

/**
 * Settings of the dispatcher's connections; times are in milliseconds. The dispatcher reads a few rows by key, from tables that
 * may have just begun to grow. A plan that scans a whole table, made while the table was small, would stay cached for minutes.
 * A plan that scans the table once and materializes the result has the same fault.
 */
export const DISPATCHER_SESSION = {
  lock_timeout: 10_000,
  statement_timeout: 15_000,
  idle_in_transaction_session_timeout: 10_000,
  enable_seqscan: 'off',
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
  enable_material: 'off',
  // Keys come as arrays. Custom plans depend on the array length, and planning costs as much as the statement.
  plan_cache_mode: 'force_generic_plan',
}
