// A request that is sent again, because its answer was lost, is not performed again (I2): it gets the same answer.
import type { JSONValue } from 'postgres'
import type { Sql, SqlTx } from '../../drizzle/client.ts'
import { AppError } from './errors.ts'

/** A key counts within what one caller asks of one operation. */
export interface IdempotencyKey {
  /** Empty without users. */
  caller: string
  /** Method and route pattern. */
  operation: string
  key: string
  /** SHA-256 of what is asked, hex. */
  requestHash: string
}

export interface Answer<Body> {
  status: number
  body: Body
}

export interface Work<Prepared, Body> {
  /** What has to be known first. It may take its time and may be done in vain: no connection is held. */
  prepare(): Promise<Prepared>
  /**
   * Does it, by this transaction alone: asking the pool for another connection could wait for those that wait for this one.
   * Null: refused, and nothing is remembered.
   */
  perform(tx: SqlTx, prepared: Prepared): Promise<Answer<Body> | null>
}

/** How long an answer counts, by the database's time. The reaper removes it later. */
const KEPT_HOURS = 24

/**
 * The answer to the first request under this key, of which there is one however many race: the key's row is in the
 * transaction that performs it, and a rival waits for that row. What fails is not remembered. 409: the key came with
 * another request before.
 */
export async function answerOnce<Prepared, Body extends object>(
  sql: Sql,
  key: IdempotencyKey,
  { prepare, perform }: Work<Prepared, Body>,
): Promise<{ answer: Answer<Body>; isRepeat: boolean } | null> {
  const repeated = (answer: Answer<Body>) => ({ answer, isRepeat: true })
  const known = await answerTo<Body>(sql, key)
  if (known !== null) return repeated(known)
  let prepared: Prepared
  try {
    prepared = await prepare()
  } catch (error) {
    // A rival may have been answered before what it asked for went away.
    const late = await answerTo<Body>(sql, key)
    if (late !== null) return repeated(late)
    throw error
  }
  return sql.begin(async (tx) => {
    if (!(await claim(tx, key))) {
      const first = await answerTo<Body>(tx, key, tx`true`)
      if (first === null) throw new Error('an idempotency key is taken, but not there')
      return repeated(first)
    }
    const answer = await perform(tx, prepared)
    await remember(tx, key, answer)
    return answer && { answer, isRepeat: false }
  })
}

const isKept = (sql: Sql | SqlTx) =>
  sql`idempotency_key.created_at > clock_timestamp() - ${KEPT_HOURS} * interval '1 hour'`

const named = (sql: Sql | SqlTx, { caller, operation, key }: IdempotencyKey) =>
  sql`caller = ${caller} and operation = ${operation} and key = ${key}`

async function answerTo<Body>(
  sql: Sql | SqlTx,
  key: IdempotencyKey,
  condition = isKept(sql),
): Promise<Answer<Body> | null> {
  // What is stored under an operation is what that operation answers.
  const [row] = await sql<(Answer<Body> & { request_hash: string })[]>`
    select request_hash, status, body from idempotency_key where ${named(sql, key)} and ${condition}`
  if (row === undefined) return null
  if (row.request_hash !== key.requestHash)
    throw new AppError(409, 'ALREADY_EXISTS', 'Idempotency-Key: was used with another request')
  return { status: row.status, body: row.body }
}

/** Waits for a rival that has the key; false: it got its answer, which stays there until we end. */
async function claim(tx: SqlTx, { caller, operation, key, requestHash }: IdempotencyKey): Promise<boolean> {
  const claimed = await tx`
    insert into idempotency_key (caller, operation, key, request_hash, status, body)
    values (${caller}, ${operation}, ${key}, ${requestHash}, 0, '{}')
    on conflict (caller, operation, key) do update
      set request_hash = excluded.request_hash, status = excluded.status, body = excluded.body,
        created_at = clock_timestamp()
      where not ${isKept(tx)}
    returning 1`
  return claimed.length > 0
}

/** Completes the claim, or gives it up. */
async function remember(tx: SqlTx, key: IdempotencyKey, answer: Answer<object> | null): Promise<void> {
  if (answer === null) await tx`delete from idempotency_key where ${named(tx, key)}`
  else
    await tx`
      update idempotency_key set status = ${answer.status}, body = ${tx.json(answer.body as JSONValue)}
      where ${named(tx, key)}`
}
