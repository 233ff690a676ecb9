// A request that is sent again, because its answer was lost, is not performed again (I2): it gets the same answer.
import { type SQL, sql } from 'drizzle-orm'
import { PgDialect } from 'drizzle-orm/pg-core'
import type { Db, Sql, SqlTx, Tx } from '../../drizzle/client.ts'
import { AppError } from '../core/errors.ts'

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

export interface Work<Tx, Prepared, Body> {
  /** What has to be known first. It may take its time and may be done in vain: no connection is held. */
  prepare(): Promise<Prepared>
  /**
   * Does it, by this transaction alone: asking the pool for another connection could wait for those that wait for this one.
   * Null: refused, and nothing is remembered.
   */
  perform(tx: Tx, prepared: Prepared): Promise<Answer<Body> | null>
}

/** How long an answer counts, by the database's time. The reaper removes it later. */
const KEPT_HOURS = 24

/** What keys are kept with: the raw client, or the typed one for work that is done in typed queries. */
interface Keeper<Tx> {
  begin<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  /** Outside of any transaction, or in one. */
  ask(query: SQL, tx?: Tx): Promise<readonly unknown[]>
}

/**
 * The answer to the first request under this key, of which there is one however many race: the key's row is in the
 * transaction that performs it, and a rival waits for that row. What fails is not remembered. 409: the key came with
 * another request before.
 */
export const answerOnce = <Prepared, Body extends object>(
  sql: Sql,
  key: IdempotencyKey,
  work: Work<SqlTx, Prepared, Body>,
): Promise<Once<Body> | null> =>
  once(
    {
      begin: async (inside) => (await sql.begin(async (tx) => ({ done: await inside(tx) }))).done,
      ask: (query, tx: Sql | SqlTx = sql) => {
        const { sql: text, params } = dialect.sqlToQuery(query)
        return tx.unsafe(text, params as string[])
      },
    },
    key,
    work,
  )

/**
 * As `answerOnce`, for an upload whose bytes have arrived; `prepare` is waited for while no connection is held. Null only if
 * that is what performing it came to.
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

/** As `answerOnce`, for work in typed queries. */
export const answerOnceTyped = <Prepared, Body extends object>(
  db: Db,
  key: IdempotencyKey,
  work: Work<Tx, Prepared, Body>,
): Promise<Once<Body> | null> =>
  once(
    { begin: (inside) => db.transaction(inside), ask: (query, tx: Db | Tx = db) => tx.execute(query) },
    key,
    work,
  )

const dialect = new PgDialect()

export interface Once<Body> {
  answer: Answer<Body>
  isRepeat: boolean
}

async function once<Tx, Prepared, Body extends object>(
  keeper: Keeper<Tx>,
  key: IdempotencyKey,
  { prepare, perform }: Work<Tx, Prepared, Body>,
): Promise<Once<Body> | null> {
  const repeated = (answer: Answer<Body>) => ({ answer, isRepeat: true })
  const known = await answerTo<Tx, Body>(keeper, key, isKept)
  if (known !== null) return repeated(known)
  let prepared: Prepared
  try {
    prepared = await prepare()
  } catch (error) {
    // A rival may have been answered before what it asked for went away.
    const late = await answerTo<Tx, Body>(keeper, key, isKept)
    if (late !== null) return repeated(late)
    throw error
  }
  return keeper.begin(async (tx) => {
    if (!(await claim(keeper, tx, key))) {
      const first = await answerTo<Tx, Body>(keeper, key, sql`true`, tx)
      if (first === null) throw new Error('an idempotency key is taken, but not there')
      return repeated(first)
    }
    const answer = await perform(tx, prepared)
    await remember(keeper, tx, key, answer)
    return answer && { answer, isRepeat: false }
  })
}

const isKept = sql`idempotency_key.created_at > clock_timestamp() - ${KEPT_HOURS}::int * interval '1 hour'`

const named = ({ caller, operation, key }: IdempotencyKey) =>
  sql`caller = ${caller} and operation = ${operation} and key = ${key}`

async function answerTo<Tx, Body>(
  { ask }: Keeper<Tx>,
  key: IdempotencyKey,
  condition: SQL,
  tx?: Tx,
): Promise<Answer<Body> | null> {
  const [row] = (await ask(
    sql`select request_hash, status, body::text from idempotency_key where ${named(key)} and ${condition}`,
    tx,
  )) as { request_hash: string; status: number; body: string }[]
  if (row === undefined) return null
  if (row.request_hash !== key.requestHash)
    throw new AppError(409, 'ALREADY_EXISTS', 'Idempotency-Key: was used with another request')
  // What is stored under an operation is what that operation answers.
  return { status: row.status, body: JSON.parse(row.body) }
}

/** Waits for a rival that has the key; false: it got its answer, which stays there until we end. */
async function claim<Tx>(
  { ask }: Keeper<Tx>,
  tx: Tx,
  { caller, operation, key, requestHash }: IdempotencyKey,
): Promise<boolean> {
  const claimed = await ask(
    sql`
    insert into idempotency_key (caller, operation, key, request_hash, status, body)
    values (${caller}, ${operation}, ${key}, ${requestHash}, 0, '{}')
    on conflict (caller, operation, key) do update
      set request_hash = excluded.request_hash, status = excluded.status, body = excluded.body,
        created_at = clock_timestamp()
      where not (${isKept})
    returning 1`,
    tx,
  )
  return claimed.length > 0
}

/** Completes the claim, or gives it up. */
async function remember<Tx>(
  { ask }: Keeper<Tx>,
  tx: Tx,
  key: IdempotencyKey,
  answer: Answer<object> | null,
): Promise<void> {
  // As text on the way: the two clients write JSON differently.
  if (answer === null) await ask(sql`delete from idempotency_key where ${named(key)}`, tx)
  else
    await ask(
      sql`
      update idempotency_key set status = ${answer.status}::int, body = ${JSON.stringify(answer.body)}::text::jsonb
      where ${named(key)}`,
      tx,
    )
}
