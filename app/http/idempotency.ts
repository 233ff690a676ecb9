// A request that is sent again, because its response was lost, is not performed again (I2). It gets the same answer.
import assert from 'node:assert/strict'
import type { Db, Sql, SqlTx, Tx } from '../../drizzle/client.ts'
import { AppError } from '../core/errors.ts'
import {
  type Ask,
  claimKey,
  completeKey,
  findAnswer,
  type IdempotencyKey,
  rawAsk,
  releaseKey,
  type StoredAnswer,
  typedAsk,
} from './store.ts'

export type { IdempotencyKey } from './store.ts'

export interface Answer<Body> {
  status: number
  body: Body
}

export interface Work<Tx, Prepared, Body> {
  /** Prepares the work while no connection is held. This may be slow, and its result may remain unused. */
  prepare(): Promise<Prepared>
  /**
   * Performs the work, with this transaction alone. Another connection of the pool could be held by a request that waits for
   * this one. Null: refused, and no answer is stored.
   */
  perform(tx: Tx, prepared: Prepared): Promise<Answer<Body> | null>
}

/** Runs work in a transaction, and statements about keys outside of it or in it. */
interface Keeper<Tx> {
  begin<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  askIn(tx?: Tx): Ask
}

/**
 * Returns the answer to the first request under this key. Concurrent requests perform the work once: its transaction holds the
 * row of the key, and rivals wait for that row. A failure is not stored. 409: the key was used with another request.
 */
export const answerOnce = <Prepared, Body extends object>(
  sql: Sql,
  key: IdempotencyKey,
  work: Work<SqlTx, Prepared, Body>,
): Promise<Once<Body> | null> =>
  once(
    {
      begin: async (inside) => (await sql.begin(async (tx) => ({ done: await inside(tx) }))).done,
      askIn: (tx) => rawAsk(tx ?? sql),
    },
    key,
    work,
  )

/**
 * Like `answerOnce`, for an upload whose bytes have arrived. `prepare` runs while no connection is held. Null only if `perform`
 * returned null.
 */
export async function uploadOnce<Performed extends object | null>(
  sql: Sql,
  key: IdempotencyKey,
  perform: (tx: SqlTx) => Promise<Performed>,
  prepare: () => Promise<void> = async () => {},
): Promise<Performed> {
  const outcome = await answerOnce(sql, key, {
    prepare,
    async perform(tx) {
      const body = await perform(tx)
      return body && { status: 201, body }
    },
  })
  return (outcome?.answer.body ?? null) as Performed
}

/** Like `answerOnce`, for work in typed queries. */
export const answerOnceTyped = <Prepared, Body extends object>(
  db: Db,
  key: IdempotencyKey,
  work: Work<Tx, Prepared, Body>,
): Promise<Once<Body> | null> =>
  once({ begin: (inside) => db.transaction(inside), askIn: (tx) => typedAsk(tx ?? db) }, key, work)

export interface Once<Body> {
  answer: Answer<Body>
  isRepeat: boolean
}

async function once<Tx, Prepared, Body extends object>(
  keeper: Keeper<Tx>,
  key: IdempotencyKey,
  { prepare, perform }: Work<Tx, Prepared, Body>,
): Promise<Once<Body> | null> {
  const repeated = (stored: StoredAnswer) => ({ answer: sameRequest<Body>(key, stored), isRepeat: true })
  const known = await findAnswer(keeper.askIn(), key)
  if (known !== null) return repeated(known)
  let prepared: Prepared
  try {
    prepared = await prepare()
  } catch (error) {
    // A rival may have completed before the resource was removed.
    const late = await findAnswer(keeper.askIn(), key)
    if (late !== null) return repeated(late)
    throw error
  }
  return keeper.begin(async (tx) => {
    const ask = keeper.askIn(tx)
    if (!(await claimKey(ask, key))) {
      const first = await findAnswer(ask, key, { expired: true })
      assert(first !== null, 'an idempotency key is taken, but not there')
      return repeated(first)
    }
    const answer = await perform(tx, prepared)
    if (answer === null) await releaseKey(ask, key)
    else await completeKey(ask, key, { status: answer.status, body: JSON.stringify(answer.body) })
    return answer && { answer, isRepeat: false }
  })
}

/** The stored answer. Throws 409 when the key was used with another request. */
function sameRequest<Body>(key: IdempotencyKey, { requestHash, status, body }: StoredAnswer): Answer<Body> {
  if (requestHash !== key.requestHash)
    throw new AppError(409, 'ALREADY_EXISTS', 'Idempotency-Key: was used with another request')
  // The key includes the operation, so the stored body has the type of this operation's answer.
  return { status, body: JSON.parse(body) }
}
