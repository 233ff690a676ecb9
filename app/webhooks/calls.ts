// Webhook calls fire in batches: while one transaction is under way, the calls that arrive wait for the next, which answers
// them all. A flood of calls to one token then takes one connection and waits for no lock of its own.

import { timingSafeEqual } from 'node:crypto'
import { inTransaction, type Sql } from '../../drizzle/client.ts'
import { retryAfterSeconds } from '../../machines/trigger.ts'
import type { ClientTrace } from '../../proto/trace.ts'
import { unavailable } from '../core/errors.ts'
import type { NewId, RunId } from '../core/ids.ts'
import { makeMicroBatcher } from '../core/micro-batcher.ts'
import { type Fired, fireAll, lockTriggersOfTokens } from '../triggers/service.ts'

/** Webhook calls one transaction answers, and those that may wait for the next one. */
const WEBHOOK_BATCH = 64
export const WEBHOOK_CALLS_WAITING = 2_000

/** Which of its token only the hash is known, and which belongs to the trace of its request. */
export interface Call {
  hash: string
  trace: ClientTrace
}

/** What a call has come to. */
export type Answer =
  | { kind: 'requested'; runId: RunId }
  /** No such token, a trigger that is disabled, or a pipeline that is gone. */
  | { kind: 'unknown' }
  | { kind: 'unpublished'; pipeline: string }
  | { kind: 'cooling'; retryAfterSeconds: number }
  | { kind: 'full'; pipeline: string }

/** Fires the triggers of these calls' tokens, each call on its own and in order; one transaction for all. */
export const answerCalls = (on: Sql, calls: readonly Call[], newId: NewId): Promise<Answer[]> =>
  inTransaction(on, async (tx) => {
    const locked = await lockTriggersOfTokens(
      tx,
      calls.map(({ hash }) => hash),
    )
    if (locked === null) return calls.map((): Answer => ({ kind: 'unknown' }))
    const { triggers, newer, damaged, rows, now } = locked
    if (newer.length > 0) throw unavailable(`trigger ${newer[0]}, which a newer program has written,`)
    if (damaged.length > 0)
      throw new Error(`trigger ${damaged[0]?.id} cannot be read`, { cause: damaged[0]?.error })
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
    const outcomes = new Map(fired.map((one) => [one.firing, one]))
    return called.map((call): Answer => {
      const one = call && outcomes.get(call.firing)
      return call && one ? answerOf(one, call.pipeline, now) : { kind: 'unknown' }
    })
  })

function answerOf({ firing, outcome, runId }: Fired, pipeline: string, now: Date): Answer {
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

/** The lookup has found it by this hash; comparing again in constant time is the specification's. */
const isSame = (stored: string, presented: string) =>
  stored.length === presented.length && timingSafeEqual(Buffer.from(stored), Buffer.from(presented))

/** Answers null when too many calls wait already. */
export function makeCalls(answer: (calls: readonly Call[]) => Promise<Answer[]>) {
  const batcher = makeMicroBatcher(WEBHOOK_BATCH, answer)
  return (call: Call): Promise<Answer> | null =>
    batcher.waiting() < WEBHOOK_CALLS_WAITING ? batcher.add(call) : null
}
