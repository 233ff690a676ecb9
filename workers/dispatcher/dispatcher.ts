// The dispatcher starts what waits, follows what runs and ends what is done, in batches. It decides nothing: machines do.
// Its parts: starter, follower, ender, presence, and the effects that need a runner.

import { ConnectError } from '@connectrpc/connect'
import type { Tokens } from '../../app/catalog/tokens.ts'
import type { Clock } from '../../app/core/clock.ts'
import { limits } from '../../app/core/limits.ts'
import type { Log } from '../../app/core/log.ts'
import type { Layer } from '../../app/core/names.ts'
import { failureOf, isRefusedCaller } from '../../app/rpc/clients.ts'
import { makeNotices, type OpenAttempt, queueCancels, type RunCompleted } from '../../app/runs/service.ts'
import type { Sql } from '../../drizzle/client.ts'
import type { FromWorker } from '../threads/channel.ts'
import { startLoop } from '../threads/loop.ts'
import { startEnder } from './ender.ts'
import { makeFollower } from './follower.ts'
import { EFFECT_TRIES, performDue } from './outbox.ts'
import { startPresence } from './presence.ts'
import type { Runners } from './runners.ts'
import { startStarter } from './starter.ts'

/** Longer than any attempt; a closed branch ends what a token can do much earlier. */
const ATTEMPT_TOKEN_MS = 86_400_000
/** Replicas renew their sign of life this often, and are given up when it has expired. */
const REPLICA_RENEW_MS = 2_000
/** A stop that a runner does not answer is asked for again later, and at last no more; other effects then less often. */
const CANCEL_TIMEOUT_MS = 3_000

export interface DispatcherDeps {
  sql: Sql
  /** Where runs are started and where they are moved on: each waits for its own connection only. */
  starts: Sql
  moves: Sql
  runners: Runners
  tokens: Tokens
  clock: Clock
  log: Log
  /** Unique to this start of this thread: runs followed under another name are orphans once that one expires. */
  replica: string
  publicUrl: string
  /** Whether attempts are told their landing files; else their runner asks. */
  tellsInputs?: boolean
  post(message: FromWorker): void
  /** How often each loop looks without a hint, and the sign of life is given; tests may shorten them. */
  sweepMs?: number
  renewMs?: number
}

export interface Dispatcher {
  nudge(about: 'runRequested' | 'outbox'): void
  /** Stops following and hands the runs over; no attempt ends by it. */
  stop(): Promise<void>
}

/** Says that this thread is alive, so often. */
const ALIVE_MS = 1_000

export function startDispatcher(deps: DispatcherDeps): Dispatcher {
  const { sql, starts, moves, runners, log, replica, tellsInputs = true, post } = deps
  const { sweepMs = limits.sweepMs, renewMs = REPLICA_RENEW_MS } = deps
  const stopping = new AbortController()
  const failed = (what: string) => (error: unknown) => log.error(`${what} failed`, { error })
  const notices = makeNotices(sql, failed('announcing'))

  const performing = startLoop({
    everyMs: sweepMs,
    onError: failed('performing effects'),
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
    onPlace: () => starter.placeFree(),
    onError: ({ runId }, error) => failed(`following run ${runId}`)(error),
    signal: stopping.signal,
  })
  const starter = startStarter({
    starts,
    runners,
    follower,
    notices,
    replica,
    tellsInputs,
    log,
    sweepMs,
    onEnded,
  })
  const presence = startPresence({ sql, replica, follower, ender, tellsInputs, log, renewMs })
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
      await presence.leave()
    },
  }
}

/** The token and addresses with which an attempt reaches the lake. */
const lakeAccessOf =
  ({ tokens, clock, publicUrl }: DispatcherDeps) =>
  ({ branch, runId, attempt, namespace, layer, pipeline }: OpenAttempt) => ({
    catalogUrl: `${publicUrl}/catalog`,
    objectsUrl: `${publicUrl}/lake/objects`,
    warehouse: `sluice@${branch}`,
    catalogId: tokens.catalogId,
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
    // A runner that is gone has no attempt left to stop. One that refuses this API may still execute it.
    if (failureOf(error) !== 'unreachable' || isRefusedCaller(ConnectError.from(error).code)) throw error
  }
}

/**
 * Settings of the dispatcher's connections, in milliseconds where they are times. All it asks for it asks by key, a few
 * rows of tables that may have just begun to grow: a plan that reads one whole, made while it was small, would be kept
 * for minutes. That goes for one that reads it once and remembers it, too.
 */
export const DISPATCHER_SESSION = {
  lock_timeout: 10_000,
  statement_timeout: 15_000,
  idle_in_transaction_session_timeout: 10_000,
  enable_seqscan: 'off',
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
  enable_material: 'off',
  // Keys come as arrays, whose lengths would be planned for anew each time, at the price of the statement itself.
  plan_cache_mode: 'force_generic_plan',
}
