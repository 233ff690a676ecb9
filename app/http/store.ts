// Statements about idempotency keys. Raw and typed queries share them, each on its own kind of connection.
import { type SQL, sql } from 'drizzle-orm'
import { PgDialect } from 'drizzle-orm/pg-core'
import type { Db, Sql, SqlTx, Tx } from '../../drizzle/client.ts'

/** A key is valid within one caller and one operation. */
export interface IdempotencyKey {
  /** Empty without users. */
  caller: string
  /** Method and route pattern. */
  operation: string
  key: string
  /** SHA-256 of the request, hex. */
  requestHash: string
}

export interface StoredAnswer {
  requestHash: string
  status: number
  /** JSON text, because the two clients write and read JSON differently. */
  body: string
}

/** Runs one statement on a connection or in a transaction. */
export type Execute = (query: SQL) => Promise<readonly unknown[]>

export const rawExecutor =
  (connection: Sql | SqlTx): Execute =>
  (query) => {
    const { sql: text, params } = dialect.sqlToQuery(query)
    return connection.unsafe(text, params as string[])
  }
export const typedExecutor =
  (connection: Db | Tx): Execute =>
  (query) =>
    connection.execute(query)

const dialect = new PgDialect()

/** How long an answer is valid, by the clock of the database. The reaper removes it later. */
export const VALID_HOURS = 24
const isFresh = sql`idempotency_key.created_at > clock_timestamp() - ${VALID_HOURS}::int * interval '1 hour'`

const isKey = ({ caller, operation, key }: IdempotencyKey) =>
  sql`caller = ${caller} and operation = ${operation} and key = ${key}`

/** The answer under this key; `expired` includes an older answer. */
export async function findAnswer(
  execute: Execute,
  key: IdempotencyKey,
  { expired = false } = {},
): Promise<StoredAnswer | null> {
  const [row] = (await execute(sql`
    select request_hash as "requestHash", status, body::text from idempotency_key
    where ${isKey(key)} and (${expired}::boolean or ${isFresh})`)) as StoredAnswer[]
  return row ?? null
}

/** Waits for a rival that holds the key. False: the rival was answered, and its answer stays until this transaction ends. */
export async function claimKey(
  execute: Execute,
  { caller, operation, key, requestHash }: IdempotencyKey,
): Promise<boolean> {
  const claimed = await execute(sql`
    insert into idempotency_key (caller, operation, key, request_hash, status, body)
    values (${caller}, ${operation}, ${key}, ${requestHash}, 0, '{}')
    on conflict (caller, operation, key) do update
      set request_hash = excluded.request_hash, status = excluded.status, body = excluded.body,
        created_at = clock_timestamp()
      where not (${isFresh})
    returning 1`)
  return claimed.length > 0
}

/** The number of keys of a caller; the count stops at `max`. */
export async function countKeys(execute: Execute, caller: string, max: number): Promise<number> {
  const [row] = (await execute(sql`
    select count(*)::int as total from (select from idempotency_key where caller = ${caller} limit ${max}::int) own`)) as {
    total: number
  }[]
  return row?.total ?? 0
}

export const completeKey = (
  execute: Execute,
  key: IdempotencyKey,
  { status, body }: Pick<StoredAnswer, 'status' | 'body'>,
) =>
  execute(sql`
    update idempotency_key set status = ${status}::int, body = ${body}::text::jsonb where ${isKey(key)}`)

export const releaseKey = (execute: Execute, key: IdempotencyKey) =>
  execute(sql`delete from idempotency_key where ${isKey(key)}`)
