// A request that is sent again, because its response was lost, is not performed again (I2). It gets the same answer.
import assert from 'node:assert/strict'
import type { Db, Sql, SqlTx, Tx } from '../../drizzle/client.ts'
import { AppError, failedPrecondition } from '../core/errors.ts'
import {
  claimKey,
  completeKey,
  countKeys,
  type Execute,
  findAnswer,
  type IdempotencyKey,
  rawExecutor,
  releaseKey,
  type StoredAnswer,
  typedExecutor,
  VALID_HOURS,
} from './store.ts'

export { type IdempotencyKey, VALID_HOURS }

/** Keys of one user within a day. Other callers have no such limit. A check at the limit takes 10 ms. */
const KEYS_PER_USER = 100_000

interface OperationAnswer<Body> {
  status: number
  body: Body
}

interface Operation<Tx, Prepared, Body> {
  /** Prepares the work while no connection is held. The preparation may be slow, and its result may remain unused. */
  prepare(): Promise<Prepared>
  /**
   * Performs the work, and uses no connection but that of this transaction. Requests that wait for this request may hold all
   * other connections. Null: the work was refused, and no answer is stored.
   */
  perform(tx: Tx, prepared: Prepared): Promise<OperationAnswer<Body> | null>
}

/** Runs work in a transaction, and statements about keys outside of it or in it. */
interface Transactor<Tx> {
  begin<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  executorFor(tx?: Tx): Execute
}

/**
 * Returns the answer to the first request under this key. Concurrent requests perform the work once: its transaction holds the
 * row of the key, and rivals wait for that row. A failure is not stored. 409: the key was used with another request.
 */
export const answerOnce = <Prepared, Body extends object>(
  sql: Sql,
  key: IdempotencyKey,
  work: Operation<SqlTx, Prepared, Body>,
): Promise<Once<Body> | null> =>
  once(
    {
      begin: async (inside) => (await sql.begin(async (tx) => ({ done: await inside(tx) }))).done,
      executorFor: (tx) => rawExecutor(tx ?? sql),
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
  work: Operation<Tx, Prepared, Body>,
): Promise<Once<Body> | null> =>
  once({ begin: (inside) => db.transaction(inside), executorFor: (tx) => typedExecutor(tx ?? db) }, key, work)

/**
 * Like `answerOnce`, for work with transactions of its own. `record` stores the answer in the transaction that makes the work
 * take effect, so a crash after that transaction loses no answer. Work without such a transaction is answered after its end.
 */
export async function answerWithin<Body extends object>(
  sql: Sql,
  key: IdempotencyKey,
  work: (record: (tx: SqlTx, body: Body) => Promise<void>) => Promise<Body>,
): Promise<Once<Body>> {
  const execute = rawExecutor(sql)
  const repeated = async () => {
    const stored = await findAnswer(execute, key)
    return stored && { answer: sameRequest<Body>(key, stored), isRepeat: true }
  }
  const earlier = await repeated()
  if (earlier !== null) return earlier
  let isRecorded = false
  const record = async (tx: SqlTx, body: Body) => {
    const within = rawExecutor(tx)
    if (!(await claimKey(within, key)))
      throw new Error('a concurrent request with the same key was performed')
    await requireShare(within, key)
    await completeKey(within, key, { status: 200, body: JSON.stringify(body) })
    isRecorded = true
  }
  try {
    const body = await work(record)
    if (!isRecorded) await sql.begin((tx) => record(tx, body))
    return { answer: { status: 200, body }, isRepeat: false }
  } catch (error) {
    // A concurrent request with the same key may have been performed, or this one before it failed.
    const performed = await repeated()
    if (performed !== null) return performed
    throw error
  }
}

export interface Once<Body> {
  answer: OperationAnswer<Body>
  isRepeat: boolean
}

async function once<Tx, Prepared, Body extends object>(
  transactor: Transactor<Tx>,
  key: IdempotencyKey,
  { prepare, perform }: Operation<Tx, Prepared, Body>,
): Promise<Once<Body> | null> {
  const repeated = (stored: StoredAnswer) => ({ answer: sameRequest<Body>(key, stored), isRepeat: true })
  const earlier = await findAnswer(transactor.executorFor(), key)
  if (earlier !== null) return repeated(earlier)
  let prepared: Prepared
  try {
    prepared = await prepare()
  } catch (error) {
    // A concurrent request with the same key may have succeeded before the resource was removed.
    const concurrent = await findAnswer(transactor.executorFor(), key)
    if (concurrent !== null) return repeated(concurrent)
    throw error
  }
  return transactor.begin(async (tx) => {
    const execute = transactor.executorFor(tx)
    if (!(await claimKey(execute, key))) {
      const first = await findAnswer(execute, key, { expired: true })
      assert(first !== null, 'claimed idempotency key not found')
      return repeated(first)
    }
    await requireShare(execute, key)
    const answer = await perform(tx, prepared)
    if (answer === null) await releaseKey(execute, key)
    else await completeKey(execute, key, { status: answer.status, body: JSON.stringify(answer.body) })
    return answer && { answer, isRepeat: false }
  })
}

/** Throws 409 if a user has claimed more keys than the limit. */
async function requireShare(execute: Execute, { caller }: IdempotencyKey): Promise<void> {
  if (caller === '') return
  if ((await countKeys(execute, caller, KEYS_PER_USER + 1)) <= KEYS_PER_USER) return
  throw failedPrecondition(
    `user ${caller} has sent ${KEYS_PER_USER} idempotency keys within a day, the limit of one user: send the request without Idempotency-Key, or tomorrow`,
  )
}

/** The stored answer. Throws 409 when the key was used with another request. */
function sameRequest<Body>(
  key: IdempotencyKey,
  { requestHash, status, body }: StoredAnswer,
): OperationAnswer<Body> {
  if (requestHash !== key.requestHash)
    throw new AppError(
      409,
      'ALREADY_EXISTS',
      'Idempotency-Key: was already used with another request: send a new key',
    )
  // The key includes the operation, so the stored body has the type of this operation's answer.
  return { status, body: JSON.parse(body) }
}
