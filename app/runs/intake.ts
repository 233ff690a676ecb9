// Requests that arrive while others are being stored are stored together, in the next statement: one durable commit for all.
import { isAway, isPassing } from '../../drizzle/errors.ts'
import { apart, type Transactions } from '../../drizzle/session.ts'
import type { RunId } from '../core/ids.ts'
import { limits } from '../core/limits.ts'
import { type NamedRequest, type RequestOutcome, requestNamed } from './requests.ts'

interface Asked {
  request: NamedRequest
  answer(outcome: RequestOutcome): void
  fail(error: unknown): void
}

/**
 * Stores one request with those that come at the same time, and answers when it is durable. There is no timer: a request
 * that is alone is sent at once, the others as soon as the statement before theirs is back. `stored` is called before the
 * answers, once for a statement that has stored any.
 */
export function makeIntake(on: Transactions, stored: () => void) {
  const waiting: Asked[] = []
  let isStoring = false

  async function storeAll() {
    while (waiting.length > 0) await store(waiting.splice(0, limits.requestBatch))
    isStoring = false
  }

  async function store(batch: readonly Asked[]): Promise<void> {
    let outcomes: Map<RunId, RequestOutcome>
    try {
      outcomes = await apart(on, (sql) =>
        requestNamed(
          sql,
          batch.map(({ request }) => request),
        ),
      )
    } catch (error) {
      // None of them was sent, and each batch would find the same for itself.
      if (isAway(error)) for (const { fail } of waiting.splice(0)) fail(error)
      // One that cannot be stored must not keep the others; without the database none can.
      if (batch.length > 1 && !isPassing(error)) for (const one of batch) await store([one])
      else for (const { fail } of batch) fail(error)
      return
    }
    if ([...outcomes.values()].includes('requested')) stored()
    for (const { request, answer } of batch) answer(outcomes.get(request.id) ?? 'gone')
  }

  return (request: NamedRequest) =>
    new Promise<RequestOutcome>((answer, fail) => {
      waiting.push({ request, answer, fail })
      if (isStoring) return
      isStoring = true
      // What has arrived with it on this turn of the event loop goes with it.
      setImmediate(storeAll)
    })
}
