// Serializes the creations of one user, so that concurrent requests cannot exceed the user's share of a limit (app/core/shares.ts).
import { eq, type SQL, sql } from 'drizzle-orm'
import type { SqlTx, Tx } from './client.ts'
import type { landingZones } from './schema/landing.ts'
import type { namespaces } from './schema/namespace.ts'
import type { Part } from './sql.ts'

/** Class of the advisory locks for users. Two users with the same hash only wait for each other needlessly. */
const USERS = 1_229_870_149

/** Holds the lock of a user until the transaction ends. */
export const lockUser = (tx: SqlTx, user: string): Part =>
  tx`select pg_advisory_xact_lock(${USERS}, hashtext(${user}))`

/** `lockUser` for typed queries. */
export const userLock = (user: string): SQL => sql`select pg_advisory_xact_lock(${USERS}, hashtext(${user}))`

/** The number of rows, and of those that `user` owns. Concurrent creations of the user wait for the end of this transaction. */
export async function countOwned(
  tx: Tx,
  table: typeof landingZones | typeof namespaces,
  user: string | null,
): Promise<{ total: number; own: number }> {
  if (user !== null) await tx.execute(userLock(user))
  const [total, own] = await Promise.all([
    tx.$count(table),
    user === null ? 0 : tx.$count(table, eq(table.owner, user)),
  ])
  return { total, own }
}
