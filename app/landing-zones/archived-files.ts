// What is asked of archived landing files in more than one place. Small, because the reaper's thread loads it too.
import type { Sql, SqlTx } from '../../drizzle/client.ts'

/** The effect that moves the objects of what a run has archived; its payload is `{runId}`. */
export const ARCHIVED_INPUTS = 'archivedInputs'

/** The effect that removes an object from where it was; its payload is `{key, versionId}`. */
export const MOVED_OBJECT = 'movedObject'

/** Where an archived file's object belongs. `zonePrefix` ends in '/'. */
export const archivedKey = (zonePrefix: string, runId: string, filename: string) =>
  `${zonePrefix}_processed/${runId}/${filename}`

/** For a query about files `f`: archived, and the object is still where it was uploaded. */
export const isInPlace = (sql: Sql | SqlTx) =>
  sql`(f.archived_by_run is not null and position('/_processed/' in f.path) = 0)`

/** For a query about files `f`: an attempt that was told where the object is has not ended. No new one reads an archived file. */
export const isBeingRead = (sql: Sql | SqlTx) => sql`
  exists (select from run_attempt a join run_file frozen on frozen.run_id = a.run_id and frozen.attempt = a.attempt
    where a.state = 'open' and frozen.landing_file_id = f.id)`
