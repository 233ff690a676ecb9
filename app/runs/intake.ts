// Requests that arrive while others are being stored are stored together, in the next statement: one durable commit for all.
import { apart, type Transactions } from '../../drizzle/session.ts'
import { limits } from '../core/limits.ts'
import { makeMicroBatcher } from '../core/micro-batcher.ts'
import { type NamedRequest, type RequestOutcome, requestNamed } from './requests.ts'

/**
 * Stores one request with those that come at the same time, and answers when it is durable. `stored` is called before the
 * answers, once for a statement that has stored any.
 */
export const makeIntake = (on: Transactions, stored: () => void) =>
  makeMicroBatcher(limits.requestBatch, async (requests: readonly NamedRequest[]) => {
    const outcomes = await apart(on, (sql) => requestNamed(sql, requests))
    if ([...outcomes.values()].includes('requested')) stored()
    return requests.map(({ id }): RequestOutcome => outcomes.get(id) ?? 'gone')
  }).add
