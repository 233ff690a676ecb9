// Webhook calls fire in batches. Calls that arrive during a transaction wait for the next one, which answers them all. So a
// flood of calls to one token uses one connection, and its calls do not wait for each other's row locks.

import { timingSafeEqual } from 'node:crypto'
import { inTransaction, type Sql } from '../../drizzle/client.ts'
import type { ClientTrace } from '../../ground/telemetry/trace.ts'
import { retryAfterSeconds } from '../../machines/trigger.ts'
import { unavailable } from '../core/errors.ts'
import type { NewId, RunId } from '../core/ids.ts'
import { makeMicroBatcher } from '../core/micro-batcher.ts'
import { type Fired, fireAll, lockTriggersOfTokens } from '../triggers/service.ts'

/** Maximum number of calls per transaction, and of calls that may wait for the next. */
const WEBHOOK_BATCH = 64
export const WEBHOOK_CALLS_WAITING = 2_000

/** A call: the hash of its token, and the trace of its request. */
interface Call {
  hash: string
  trace: ClientTrace
}

/** The result of a call. */
type CallOutcome =
  | { kind: 'requested'; runId: RunId }
  /** The token is unknown, the trigger is disabled, or the pipeline was deleted. */
  | { kind: 'unknown' }
  | { kind: 'unpublished'; pipeline: string }
  | { kind: 'cooling'; retryAfterSeconds: number }
  | { kind: 'full'; pipeline: string }

/** Fires the triggers of these tokens in one transaction, each call separately and in order. */
export const answerCalls = (on: Sql, calls: readonly Call[], newId: NewId): Promise<CallOutcome[]> =>
  inTransaction(on, async (tx) => {
    const locked = await lockTriggersOfTokens(
      tx,
      calls.map(({ hash }) => hash),
    )
    if (locked === null) return calls.map((): CallOutcome => ({ kind: 'unknown' }))
    const { triggers, newer, damaged, rows, now } = locked
    if (newer.length > 0) throw unavailable(`trigger ${newer[0]} (written by a newer version of Sluice)`)
    if (damaged.length > 0)
      throw new Error(`stored state of trigger ${damaged[0]?.id} is damaged`, { cause: damaged[0]?.error })
    const called = calls.map(({ hash, trace }) => {
      const row = rows.find(({ tokenHash }) => tokenHash !== null && isSame(tokenHash, hash))
      const trigger = row && triggers.get(row.id)
      if (row === undefined || trigger === undefined || trigger.snapshot.value === 'disabled') return null
      const firing = { trigger, event: newId(), text: 'webhook', chainDepth: 0, landingFileId: null, trace }
      return { firing, pipeline: row.pipeline }
    })
    const fired = await fireAll(
      tx,
      called.flatMap((call) => call?.firing ?? []),
      { now, newId },
    )
    const outcomes = new Map(fired.map((result) => [result.firing, result]))
    return called.map((call): CallOutcome => {
      const result = call && outcomes.get(call.firing)
      return call && result ? answerOf(result, call.pipeline, now) : { kind: 'unknown' }
    })
  })

function answerOf({ firing, outcome, runId }: Fired, pipeline: string, now: Date): CallOutcome {
  switch (outcome) {
    case 'requested':
      return { kind: 'requested', runId }
    case 'ignored':
      return {
        kind: 'cooling',
        retryAfterSeconds: retryAfterSeconds(firing.trigger.snapshot, now.getTime()),
      }
    case 'unpublished':
    case 'full':
      return { kind: outcome, pipeline }
    case 'gone':
    case 'repeated':
      return { kind: 'unknown' }
  }
}

/** The row was found by this hash; the specification requires another comparison in constant time. */
const isSame = (stored: string, presented: string) =>
  stored.length === presented.length && timingSafeEqual(Buffer.from(stored), Buffer.from(presented))

/** Returns null if too many calls wait. */
export function makeCalls(answer: (calls: readonly Call[]) => Promise<CallOutcome[]>) {
  const batcher = makeMicroBatcher(WEBHOOK_BATCH, answer)
  return (call: Call): Promise<CallOutcome> | null =>
    batcher.waiting() < WEBHOOK_CALLS_WAITING ? batcher.add(call) : null
}
