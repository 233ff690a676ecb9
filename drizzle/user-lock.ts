// Serializes the creations of one user, so that concurrent requests cannot exceed the user's share of a limit (app/core/shares.ts).
import { type SQL, sql } from 'drizzle-orm'
import type { Part, SqlTx } from './sql.ts'

/** Class of the advisory locks for users. Two users with the same hash only wait for each other needlessly. */
const USERS = 1_229_870_149

/** Holds the lock of a user until the transaction ends. */
export const lockUser = (tx: SqlTx, user: string): Part =>
  tx`select pg_advisory_xact_lock(${USERS}, hashtext(${user}))`

/** `lockUser` for typed queries. */
export const userLock = (user: string): SQL => sql`select pg_advisory_xact_lock(${USERS}, hashtext(${user}))`
