// What happens may fire its triggers in its own transaction: its run then waits for no other thread and no second commit.
// Only when that waits for nobody. Otherwise the event is recorded with the fact, and the evaluator hears it.
import type { SqlTx } from '../../drizzle/client.ts'
import { isConnectionLost } from '../../drizzle/errors.ts'
import { inTransaction, type Transactions } from '../../drizzle/session.ts'
import type { ClientTrace } from '../../proto/trace.ts'
import type { NewId } from '../core/ids.ts'
import { limits } from '../core/limits.ts'
import type { Log } from '../core/log.ts'
import { fireHearing, type Heard, take } from './events.ts'
import { tellNotes } from './notes.ts'

/** What triggers may hear of a fact. */
export interface Occurrence extends ClientTrace {
  kind: 'fileUploaded'
  source: string
  subject: string
  filename: string
}

/** A fact and its event, if some trigger hears it, both written by the transaction that was given. */
export interface Fact<T> {
  fact: T
  eventId: number | null
}

/**
 * Records a fact and fires the triggers that hear it, in one transaction; `isLeft`: some are left to the evaluator. Null:
 * nothing was recorded, because that would have had to wait, also for what it tells of to be `ready`, which may have failed,
 * or because some trigger cannot be fired, whatever is wrong with it. Rejects when nobody knows whether there is a record.
 */
export type HearAtOnce = <T>(
  occurrence: Occurrence,
  record: (tx: SqlTx) => Promise<Fact<T>>,
  ready: Promise<void>,
) => Promise<{ fact: T; isLeft: boolean } | null>

export interface AtOnceDeps {
  /** One fact at a time: whoever comes meanwhile does not wait. */
  on: Transactions
  newId: NewId
  log: Log
  /** Runs were requested: a hint for the dispatcher. */
  nudge(): void
}

export function makeHearAtOnce({ on, newId, log, nudge }: AtOnceDeps): HearAtOnce {
  let isUnderWay = false

  return async <T>(occurrence: Occurrence, record: (tx: SqlTx) => Promise<Fact<T>>, ready: Promise<void>) => {
    if (isUnderWay) return null
    isUnderWay = true
    let recorded: Fact<T> | null = null
    let heard: Heard | null
    try {
      heard = await inTransaction<Heard | null>(on, async (tx) => {
        // Sent together: who hears it is known without its event. That is there all the same, should firing fail.
        const [written, taken] = await Promise.all([
          record(tx),
          take(tx, rowOf(tx, occurrence), { triggersMax, isPatient: false }),
          soon(ready),
        ])
        recorded = written
        const { eventId } = written
        if (eventId === null) return null
        return fireHearing(
          tx,
          taken.map((one) => ({ ...one, event_id: eventId })),
          { newId, triggersMax },
        )
      })
    } catch (error) {
      if (error instanceof NotReady) return null
      // Its commit may have happened.
      if (isConnectionLost(error)) throw error
      // Else it is undone: a trigger that is busy or odd, or a fact that cannot be recorded and will say so again. Unless the
      // last statement failed on its way, whose COMMIT goes all the same: who records again is told what it finds.
      if (!isBusy(error))
        log.warn('an event could not fire its triggers at once: the evaluator has to', { error })
      return null
    } finally {
      isUnderWay = false
    }
    const { fact } = recorded as unknown as Fact<T>
    if (heard === null) return { fact, isLeft: false }
    tellNotes(log, heard.notes)
    if (heard.runs > 0) nudge()
    return { fact, isLeft: heard.hasMore || heard.left.length > 0 }
  }
}

const isBusy = (error: unknown) => error instanceof Error && 'code' in error && error.code === '55P03'

/** Nothing is committed then. Why is told by whoever goes on waiting. */
class NotReady extends Error {}

async function soon(ready: Promise<void>): Promise<void> {
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(() => late.reject(new NotReady('not soon')), limits.firingWaitMs)
  try {
    await Promise.race([ready, late.promise])
  } catch (cause) {
    throw new NotReady('not ready for its record', { cause })
  } finally {
    clearTimeout(timer)
  }
}

const triggersMax = limits.firingBatch

/** As `trigger_event` will have it, but for its number. */
const rowOf = (tx: SqlTx, { kind, source, subject, filename, traceparent, tracestate }: Occurrence) => tx`
    select 0::bigint as id, ${kind}::text as kind, ${source}::text as source, ${subject}::uuid as subject,
      ${filename}::text as filename, 0 as chain_depth, ${traceparent}::text as traceparent,
      ${tracestate}::text as tracestate, null::uuid as after_trigger`
