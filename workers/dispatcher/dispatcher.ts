// The dispatcher starts what waits, follows what runs and ends what is done, in batches. It decides nothing: machines do.

import { ConnectError } from '@connectrpc/connect'
import type { Tokens } from '../../app/catalog/tokens.ts'
import type { Clock } from '../../app/core/clock.ts'
import type { RunId } from '../../app/core/ids.ts'
import { limits } from '../../app/core/limits.ts'
import type { Log } from '../../app/core/log.ts'
import type { Layer } from '../../app/core/names.ts'
import { failureOf, isRefusedCaller } from '../../app/rpc/clients.ts'
import {
  adoptOrphans,
  attemptsFollowedBy,
  giveSignOfLife,
  handleOf,
  type OpenAttempt,
  openAttemptsOf,
} from '../../app/runs/attempts.ts'
import { makeNotices, type RunCompleted } from '../../app/runs/notices.ts'
import { applyOutcomes } from '../../app/runs/outcomes.ts'
import { queueCancels } from '../../app/runs/settle.ts'
import { startWaiting } from '../../app/runs/start.ts'
import type { Sql } from '../../drizzle/client.ts'
import { hasMet, isPassing } from '../../drizzle/errors.ts'
import type { Transactions } from '../../drizzle/session.ts'
import type { FromWorker } from '../threads/channel.ts'
import { startLoop } from '../threads/loop.ts'
import { AttemptReport, type ReportDeps } from './attempt-report.ts'
import { followAttempt, readOn } from './follower.ts'
import { performDue } from './outbox.ts'
import { type Batch, makeOutcomeQueue } from './outcome-queue.ts'
import { openRunnerStream } from './runner-stream.ts'
import type { Runners } from './runners.ts'

/** What lets one run of a pipeline have its turn at a time. */
const TURNS = ['run_attempt_one_open', 'run_one_running']

export interface DispatcherDeps {
  sql: Sql
  /** Where runs are started and where they are moved on: each waits for its own connection only. */
  starts: Transactions
  moves: Transactions
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
}

export interface Dispatcher {
  nudge(about: 'runRequested' | 'outbox'): void
  /** Stops following and hands the runs over; no attempt ends by it. */
  stop(): Promise<void>
}

export function startDispatcher({
  sql,
  starts,
  moves,
  runners,
  tokens,
  clock,
  log,
  replica,
  publicUrl,
  tellsInputs = true,
  post,
}: DispatcherDeps): Dispatcher {
  const stopping = new AbortController()
  const following = new Set<string>()
  const queue = makeOutcomeQueue()
  let suspects = new Set<RunId>()
  /** Something may wait for a place. */
  let lacksPlaces = false
  /** A run was requested while outcomes were being stored: what that has seen of the queue may be old. */
  let isRequestedMeanwhile = false
  const failed = (what: string) => (error: unknown) => log.error(`${what} failed`, { error })
  const notices = makeNotices(sql, failed('announcing'))
  const streams = new Map(
    runners.remotes.map((runner) => [
      runner.url,
      openRunnerStream({ runner, stored: queue.stored, signal: stopping.signal }),
    ]),
  )

  const starting = startLoop({
    everyMs: limits.sweepMs,
    onError: failed('starting runs'),
    async tick() {
      const most = startedAtOnce(following.size)
      const places = runners.takePlaces(most)
      lacksPlaces = places.length === 0
      if (lacksPlaces) return false
      const taken: string[] = []
      try {
        const { attempts, completed, events, isFull } = await startWaiting(
          starts,
          places,
          replica,
          tellsInputs,
        )
        notices.changed(completed.map((run) => run.run_id))
        notices.completed(completed)
        tellEnded(completed, events)
        for (const attempt of attempts) {
          taken.push(attempt.runnerUrl)
          follow(attempt, { hasPlace: true })
        }
        lacksPlaces = isFull && places.length < most
        // A run that ended at once leaves its pipeline's turn to the next.
        return isFull || completed.length > 0
      } catch (error) {
        // Another replica has started a run of one of these pipelines meanwhile: the next look sees it.
        if (hasMet(error, TURNS)) return true
        throw error
      } finally {
        for (const url of without(places, taken)) runners.give(url)
      }
    },
  })

  // Asking a runner that hangs must not keep the others waiting.
  const probing = startLoop({
    everyMs: limits.sweepMs / 2,
    onError: failed('asking runners'),
    async tick() {
      if (await runners.probe()) starting.nudge()
      return false
    },
  })

  const ending = startLoop({
    everyMs: limits.sweepMs,
    onError: failed('ending runs'),
    async tick() {
      if (queue.isEmpty()) return false
      const batch = await nextBatch()
      try {
        await apply(batch)
      } catch (error) {
        queue.putBack(batch)
        // The database is away: all of it again, in the same order.
        if (isPassing(error)) throw error
        log.warn('a batch of outcomes failed; applying them one by one', { error })
        await applyEach()
      }
      return !queue.isEmpty()
    },
  })

  /** Somebody waits to see a run running. Where many do, an attempt that is over at once is better moved only once. */
  async function nextBatch(): Promise<Batch> {
    const accepted = queue.takeAccepted()
    if (accepted.outcomes.length > 0) return accepted
    // What comes on this turn of the event loop goes with it.
    await new Promise(setImmediate)
    return queue.take()
  }

  const living = startLoop({
    everyMs: limits.replicaRenewMs,
    onError: failed('renewing the sign of life'),
    async tick() {
      await giveSignOfLife(sql, replica)
      const adopted = await adoptOrphans(sql, replica, limits.dispatchBatch)
      if (adopted.length > 0) log.info(`adopted ${adopted.length} runs of a replica that is gone`)
      const found = await openAttemptsOf(sql, [...adopted, ...(await unfollowed())], tellsInputs)
      for (const attempt of found) follow(attempt)
      return adopted.length === limits.dispatchBatch
    },
  })

  /** Runs that are ours by the books, and that nobody here has followed for two ticks. */
  async function unfollowed(): Promise<RunId[]> {
    const missed = (await attemptsFollowedBy(sql, replica)).filter(
      ({ runId, attempt }) => !following.has(handleOf(runId, attempt)) && !queue.has(runId),
    )
    const again = missed.filter(({ runId }) => suspects.has(runId)).map(({ runId }) => runId)
    suspects = new Set(missed.map(({ runId }) => runId))
    if (again.length > 0) log.warn(`${again.length} runs had no follower; following them again`)
    return again
  }

  const performing = startLoop({
    everyMs: limits.sweepMs,
    onError: failed('performing effects'),
    tick: () =>
      performDue(
        sql,
        { cancelAttempt },
        (kind, error) => log.warn(`effect ${kind} failed`, { error }),
        limits.effectTries,
      ),
  })

  const alive = setInterval(() => post({ type: 'alive' }), 1_000)

  function follow(attempt: OpenAttempt, { hasPlace } = { hasPlace: false }) {
    const key = handleOf(attempt.runId, attempt.attempt)
    if (following.has(key)) return
    following.add(key)
    const url = attempt.runnerUrl
    let holdsPlace = hasPlace
    const deps: ReportDeps = {
      lake: lakeAccess(attempt),
      report(outcome) {
        queue.add(outcome)
        if (outcome.kind === 'entered') ending.nudgeWithin(TELL_WITHIN_MS)
        else ending.nudge()
      },
      tell(line) {
        queue.tell(line)
        ending.nudgeWithin(TELL_WITHIN_MS)
      },
      onAccepted(room) {
        if (runners.accepted(url, room) && lacksPlaces) starting.nudge()
      },
      onRefused() {
        runners.refused(url, holdsPlace)
        holdsPlace = false
      },
      onUnreachable: () => runners.isDown(url),
    }
    hearOut(attempt, deps)
      .catch(failed(`following run ${attempt.runId}`))
      .finally(() => {
        following.delete(key)
        if (holdsPlace) runners.give(url)
        if (lacksPlaces) starting.nudge()
      })
  }

  /** Together with the others at that runner where it can be, else alone. */
  async function hearOut(attempt: OpenAttempt, deps: ReportDeps) {
    const runner = runners.remoteAt(attempt.runnerUrl)
    const alone = { ...deps, runner, signal: stopping.signal }
    const stream = streams.get(attempt.runnerUrl)
    const report = new AttemptReport(attempt, deps)
    if (stream === undefined || !stream.isOpen() || report.refusal() !== null)
      return followAttempt(attempt, alone)
    const came = await stream.follow(report)
    if (came === 'done') return
    if (came.alone === null) await followAttempt(attempt, alone)
    else await readOn(report, came.alone, alone)
  }

  const lakeAccess = ({ branch, runId, attempt, namespace, layer, pipeline }: OpenAttempt) => ({
    catalogUrl: `${publicUrl}/catalog`,
    objectsUrl: `${publicUrl}/lake/objects`,
    warehouse: `sluice@${branch}`,
    catalogId: tokens.catalogId,
    token: tokens.attempt({
      branch,
      runId,
      attempt,
      target: { namespace, layer: layer as Layer, name: pipeline },
      expiresAt: new Date(clock.now().getTime() + limits.attemptTokenMs),
    }),
  })

  function tellEnded(completed: RunCompleted[], events: number) {
    for (const [status, runs] of Map.groupBy(completed, (run) => run.status))
      post({ type: 'runsEnded', status, count: runs.length })
    if (events > 0) post({ type: 'eventRecorded' })
  }

  async function apply({ outcomes, lines }: Batch) {
    isRequestedMeanwhile = false
    const applied = await applyOutcomes(moves, outcomes, lines)
    const { completed, events, unwanted, freed, isAwaited, nextStartMs } = applied
    queue.settle({ outcomes, lines })
    tellEnded(completed, events)
    if (nextStartMs !== null) setTimeout(starting.nudge, nextStartMs === 0 ? 0 : nextStartMs + TIMER_MS)
    if (freed.length > 0 && (isAwaited || isRequestedMeanwhile)) starting.nudge()
    if (unwanted.length === 0) return
    await queueCancels(sql, unwanted)
    performing.nudge()
  }

  /** One bad run must not keep the others: what cannot be stored even alone fails its run, and at last is left out. */
  async function applyEach() {
    for (const batch of queue.singly()) {
      try {
        await apply(batch)
      } catch (error) {
        if (isPassing(error)) {
          queue.putBack(batch)
          throw error
        }
        queue.settle(batch)
        const [outcome] = batch.outcomes
        log.error(outcome ? `run ${outcome.runId} cannot be moved` : 'a log line cannot be stored', { error })
        if (outcome === undefined || outcome.kind === 'failed') continue
        const { runId, attempt } = outcome
        queue.putBack({
          outcomes: [{ runId, attempt, kind: 'failed', error: 'its result could not be stored' }],
          lines: [],
        })
      }
    }
  }

  async function cancelAttempt({ handle, runnerUrl }: Record<string, unknown>) {
    const url = String(runnerUrl)
    try {
      await runners
        .remoteAt(url)
        .service.cancelRun(
          { handle: String(handle) },
          { signal: AbortSignal.timeout(limits.cancelTimeoutMs) },
        )
    } catch (error) {
      // A runner that is gone has no attempt left to stop. One that refuses this API may still execute it.
      if (failureOf(error) !== 'unreachable' || isRefusedCaller(ConnectError.from(error).code)) throw error
    }
  }

  return {
    nudge(about) {
      if (about === 'outbox') return performing.nudge()
      isRequestedMeanwhile = true
      starting.nudge()
    },
    async stop() {
      clearInterval(alive)
      stopping.abort()
      await Promise.all([starting.stop(), probing.stop(), living.stop(), performing.stop()])
      await ending.stop()
      while (!queue.isEmpty())
        await apply(queue.take()).catch((error) =>
          log.warn('some outcomes are left to the next replica', { error }),
        )
      await sql`delete from replica where name = ${replica}`
    },
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

/**
 * How many runs one transaction starts while so many are under way: no more than those. If it were all that wait, the
 * callers of one batch would come again together, and requests, starts and ends would take turns where they could go on
 * side by side.
 */
export const startedAtOnce = (underWay: number) =>
  Math.min(limits.dispatchBatch, Math.max(limits.startBatch, underWay))

/** Lines and phases that come within this time share a transaction; the next outcome takes them along. */
const TELL_WITHIN_MS = 25

/** Our timer may be a little ahead of the database's clock. */
const TIMER_MS = 5

/** `all` less one of each of `some`. */
function without(all: readonly string[], some: readonly string[]): string[] {
  const left = [...all]
  for (const item of some) left.splice(left.indexOf(item), 1)
  return left
}
