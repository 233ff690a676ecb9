import type { Sql } from '../../drizzle/client.ts'
import { computed, only, select } from '../../drizzle/rows.ts'

/** Class of the advisory locks for new keys. Two keys with the same hash only refuse each other needlessly. */
const NEW_KEYS = 1_395_863_924

/**
 * Runs `work` while no other replica works on the same key. False: another one does. The lock ends with its transaction, also
 * when the process dies.
 */
export const alone = (sql: Sql, key: string, work: () => Promise<void>): Promise<boolean> =>
  sql.begin(async (tx) => {
    const { taken } = only(
      await select(tx, {
        taken: computed<boolean>(`pg_try_advisory_xact_lock(${NEW_KEYS}, hashtext(wanted.key))`),
      })`from (select ${key}::text as key) wanted`,
    )
    if (taken) await work()
    return taken
  })
