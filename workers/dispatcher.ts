// The dispatcher starts what waits, follows what runs and ends what is done, in batches. It decides nothing: machines do.

import type { Tokens } from '../app/catalog/tokens.ts'
import type { Clock } from '../app/clock.ts'
import type { Layer } from '../app/http/names.ts'
import type { RunId } from '../app/ids.ts'
import { limits } from '../app/limits.ts'
import type { Log } from '../app/log.ts'
import { failureOf } from '../app/rpc/clients.ts'
import { adoptOrphans, type OpenAttempt, openAttemptsOf, startWaiting } from '../app/runs/attempts.ts'
import type { LogLine } from '../app/runs/logs.ts'
import { makeNotices } from '../app/runs/notices.ts'
import { applyOutcomes, type Outcome } from '../app/runs/outcomes.ts'
import { queueCancels } from '../app/runs/settle.ts'
import type { Sql } from '../drizzle/client.ts'
import type { FromWorker } from './channel.ts'
import { followAttempt } from './follower.ts'
import { startLoop } from './loop.ts'
import { performDue } from './outbox.ts'
import type { Runners } from './runners.ts'

export interface DispatcherDeps {
  sql: Sql
  runners: Runners
  tokens: Tokens
  clock: Clock
  log: Log
  /** Unique to this start of this thread: runs followed under another name are orphans once that one expires. */
  replica: string
  publicUrl: string
  post(message: FromWorker): void
}

export interface Dispatcher {
  nudge(about: 'runRequested' | 'outbox'): void
  /** Stops following and hands the runs over; no attempt ends by it. */
  stop(): Promise<void>
}

export function startDispatcher({
  sql,
  runners,
  tokens,
  clock,
  log,
  replica,
  publicUrl,
  post,
}: DispatcherDeps): Dispatcher {
  const stopping = new AbortController()
  const following = new Set<string>()
  const outcomes: Outcome[] = []
  const lines: LogLine[] = []
  const failed = (what: string) => (error: unknown) => log.error(`${what} failed`, { error })
  const notices = makeNotices(sql, failed('announcing'))

  const starting = startLoop({
    everyMs: limits.sweepMs,
    onError: failed('starting runs'),
    async tick() {
      if (await runners.probe()) log.info('a runner is ready')
      const places = runners.takePlaces(limits.dispatchBatch)
      if (places.length === 0) return false
      const taken: string[] = []
      try {
        const ids = await startWaiting(sql, places, replica)
        for (const attempt of await openAttemptsOf(sql, ids)) {
          taken.push(attempt.runnerUrl)
          follow(attempt)
        }
        return ids.length === places.length
      } finally {
        for (const url of without(places, taken)) runners.give(url)
      }
    },
  })

  const ending = startLoop({
    everyMs: limits.sweepMs,
    onError: failed('ending runs'),
    async tick() {
      if (outcomes.length === 0 && lines.length === 0) return false
      const someLines = lines.splice(0, limits.logBatch)
      // Lines come first: no run ends before what it said is stored.
      const someOutcomes = lines.length > 0 ? [] : outcomes.splice(0, limits.dispatchBatch)
      try {
        await apply(someOutcomes, someLines)
      } catch (error) {
        if (someOutcomes.length <= 1) {
          lines.unshift(...someLines)
          outcomes.unshift(...someOutcomes)
          throw error
        }
        log.warn('a batch of outcomes failed; applying them one by one', { error })
        lines.unshift(...someLines)
        await applyEach(someOutcomes)
      }
      return outcomes.length > 0 || lines.length > 0
    },
  })

  const living = startLoop({
    everyMs: limits.replicaRenewMs,
    onError: failed('renewing the sign of life'),
    async tick() {
      await sql`
        insert into replica (name, alive_until)
        values (${replica}, clock_timestamp() + ${limits.replicaExpiryMs} * interval '1 millisecond')
        on conflict (name) do update set alive_until = excluded.alive_until`
      await sql`delete from replica where alive_until < clock_timestamp() - interval '1 hour'`
      const adopted = await adoptOrphans(sql, replica, limits.dispatchBatch)
      if (adopted.length > 0) log.info(`adopted ${adopted.length} runs of a replica that is gone`)
      for (const attempt of await openAttemptsOf(sql, adopted)) follow(attempt)
      return adopted.length === limits.dispatchBatch
    },
  })

  const performing = startLoop({
    everyMs: limits.sweepMs,
    onError: failed('performing effects'),
    tick: () =>
      performDue(sql, { cancelAttempt }, (kind, error) =>
        log.warn(`effect ${kind} failed; it is tried again`, { error }),
      ),
  })

  const alive = setInterval(() => post({ type: 'alive' }), 1_000)

  function follow(attempt: OpenAttempt) {
    const key = `${attempt.runId}:${attempt.attempt}`
    if (following.has(key)) return
    following.add(key)
    const url = attempt.runnerUrl
    const runner = runners.remoteAt(url)
    followAttempt(attempt, {
      runner,
      lake: lakeAccess(attempt),
      report(outcome) {
        outcomes.push(outcome)
        ending.nudge()
      },
      tell(line) {
        lines.push(line)
        ending.nudge()
      },
      onAccepted: (room) => runners.hasRoom(url, room),
      onUnreachable: () => runners.isDown(url),
      signal: stopping.signal,
    })
      .catch(failed(`following run ${attempt.runId}`))
      .finally(() => {
        following.delete(key)
        runners.give(url)
        starting.nudge()
      })
  }

  const lakeAccess = ({ branch, runId, attempt, namespace, layer, pipeline }: OpenAttempt) => ({
    catalogUrl: `${publicUrl}/catalog`,
    objectsUrl: `${publicUrl}/lake/objects`,
    warehouse: `sluice@${branch}`,
    token: tokens.attempt({
      branch,
      runId,
      attempt,
      target: { namespace, layer: layer as Layer, name: pipeline },
      expiresAt: new Date(clock.now().getTime() + limits.attemptTokenMs),
    }),
  })

  async function apply(someOutcomes: Outcome[], someLines: LogLine[]) {
    const { changed, completed, unwanted } = await applyOutcomes(sql, someOutcomes, someLines)
    notices.changed(changed)
    notices.completed(completed)
    for (const { status } of completed) post({ type: 'runsEnded', status, count: 1 })
    if (someOutcomes.some(frees)) {
      starting.nudge()
      // Those that wait a moment before their next attempt are looked for after it.
      setTimeout(starting.nudge, AFTER_BACKOFF_MS)
    }
    if (unwanted.length === 0) return
    await queueCancels(sql, unwanted)
    performing.nudge()
  }

  /** One bad run must not keep the others: what fails alone is tried again, last. */
  async function applyEach(someOutcomes: Outcome[]) {
    const later: Outcome[] = []
    const stuck = new Set<RunId>()
    for (const outcome of someOutcomes) {
      if (!stuck.has(outcome.runId)) {
        try {
          await apply([outcome], [])
          continue
        } catch (error) {
          log.error(`ending run ${outcome.runId} failed; it is tried again`, { error })
          stuck.add(outcome.runId)
        }
      }
      later.push(outcome)
    }
    if (later.length === 0) return
    outcomes.push(...later)
    throw new Error(`${stuck.size} runs could not be moved`)
  }

  async function cancelAttempt({ handle, runnerUrl }: Record<string, unknown>) {
    const url = String(runnerUrl)
    try {
      await runners
        .remoteAt(url)
        .service.cancelRun({ handle: String(handle) }, { signal: AbortSignal.timeout(limits.rpcTimeoutMs) })
    } catch (error) {
      // A runner that is gone has no attempt left to stop.
      if (failureOf(error) !== 'unreachable') throw error
    }
  }

  return {
    nudge: (about) => (about === 'outbox' ? performing.nudge() : starting.nudge()),
    async stop() {
      clearInterval(alive)
      stopping.abort()
      await Promise.all([starting.stop(), living.stop(), performing.stop()])
      await ending.stop()
      if (outcomes.length > 0 || lines.length > 0)
        await apply(outcomes, lines).catch((error) =>
          log.warn('some outcomes are left to the next replica', { error }),
        )
      await sql`delete from replica where name = ${replica}`
    },
  }
}

/** A little more than the back-off of a refused attempt. */
const AFTER_BACKOFF_MS = 260

/** Whether a pipeline's turn, or a runner's place, is free after it. */
const frees = ({ kind }: Outcome) => kind !== 'accepted' && kind !== 'entered'

/** `all` less one of each of `some`. */
function without(all: readonly string[], some: readonly string[]): string[] {
  const left = [...all]
  for (const item of some) left.splice(left.indexOf(item), 1)
  return left
}
