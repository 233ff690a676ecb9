// Archived files: the location of their objects, and the files that may be removed.
import { alias } from 'drizzle-orm/pg-core'
import type { Sql, SqlTx } from '../../../drizzle/client.ts'
import { computed, pick, type RowOf, select } from '../../../drizzle/rows.ts'
import { landingFiles, landingZones } from '../../../drizzle/schema/landing.ts'
import { FIRST_ID } from '../../core/ids.ts'
import type { FileRow } from './files.ts'

/** The effect that moves the objects that a run has archived; its payload is `{runId}`. */
const ARCHIVED_INPUTS = 'archivedInputs'

/** The effect that removes the original of a moved object; its payload is `{key, versionId}`. */
const MOVED_OBJECT = 'movedObject'

/** For a query about files `f`: true if the file is archived and its object is still at the upload path. */
const isInPlace = (sql: Sql | SqlTx) =>
  sql`(f.archived_by_run is not null and position('/_processed/' in f.path) = 0)`

/**
 * For a query about files `f`: true while an open attempt has frozen the file, so its runner may read the object. A new attempt
 * never reads an archived file.
 */
const isBeingRead = (sql: Sql | SqlTx) => sql`
  exists (select from run_attempt a join run_file frozen on frozen.run_id = a.run_id and frozen.attempt = a.attempt
    where a.state = 'open' and frozen.landing_file_id = f.id)`

const f = alias(landingFiles, 'f')
const ARCHIVED = {
  ...pick(f, 'id', 'filename', 'path', 'versionId', 'sizeBytes', 'contentType'),
  ...pick(alias(landingZones, 'z'), 'namespace', 'name'),
}
export type ArchivedFile = RowOf<typeof ARCHIVED> & { isBeingRead: boolean }

/** Archived files of a run whose objects have not moved. Files that no attempt reads come first. */
export const filesInPlace = (sql: Sql, runId: string, limit: number): Promise<ArchivedFile[]> =>
  select(sql, { ...ARCHIVED, isBeingRead: computed<boolean>(isBeingRead(sql)) })`
    from landing_file f join landing_zone z on z.id = f.zone_id
    where f.archived_by_run = ${runId} and ${isInPlace(sql)}
    order by "isBeingRead", f.seq limit ${limit}`

export const queueMoreMoves = (sql: Sql, runId: string) => sql`
  insert into outbox (kind, payload, due_at)
  values (${ARCHIVED_INPUTS}, ${sql.json({ runId })}, clock_timestamp())`

/**
 * Records the new location of an object and queues the removal of the old object. Returns false if the file was moved, deleted
 * or purged meanwhile, so its row does not name the new object.
 */
export async function recordMove(
  sql: Sql,
  file: Pick<FileRow, 'id' | 'path' | 'versionId'>,
  runId: string,
  to: { key: string; versionId: string },
): Promise<boolean> {
  const moved = await sql`
    with moved as (
      update landing_file set path = ${to.key}, version_id = ${to.versionId}
      where id = ${file.id} and archived_by_run = ${runId} and path = ${file.path} and version_id = ${file.versionId}
      returning id)
    insert into outbox (kind, payload, due_at)
    select ${MOVED_OBJECT}, ${sql.json({ key: file.path, versionId: file.versionId })}, clock_timestamp() from moved
    returning id`
  if (moved.length > 0) return true
  const [row] = await select(sql, pick(landingFiles, 'path', 'versionId'))`
    from landing_file where id = ${file.id}`
  return row?.path === to.key && row.versionId === to.versionId
}

const PURGEABLE = {
  ...pick(f, 'id', 'path', 'versionId', 'sizeBytes'),
  archivedAt: computed<Date>('f.archived_at'),
}
type PurgeableFile = RowOf<typeof PURGEABLE>

/** The position before all files, in the order of `purgeableFiles`. */
export const BEFORE_ALL = { archivedAt: new Date(0), id: FIRST_ID }

/**
 * Files of zones with `auto_purge` that are old enough at `now`, oldest first. Leaves out files that an open attempt reads or
 * an active run was requested for.
 */
export const purgeableFiles = (
  sql: Sql,
  now: Date,
  after: Pick<PurgeableFile, 'archivedAt' | 'id'>,
  limit: number,
): Promise<PurgeableFile[]> =>
  select(sql, PURGEABLE)`
    from landing_file f join landing_zone z on z.id = f.zone_id
    where z.auto_purge and f.archived_by_run is not null
      and f.archived_at < ${now}::timestamptz - z.processed_max_age_days * interval '1 day'
      and (f.archived_at, f.id) > (${after.archivedAt}, ${after.id})
      and not ${isBeingRead(sql)}
      and not exists (select from run r where r.status in ('pending', 'running') and r.landing_file_id = f.id)
    order by f.archived_at, f.id limit ${limit}`

/** Deletes the rows of these files and returns their number. A file that was moved meanwhile has another path and stays. */
export async function removePurged(tx: SqlTx, files: readonly PurgeableFile[]): Promise<number> {
  const { count } = await tx`
    delete from landing_file f using unnest(${files.map(({ id }) => id)}::uuid[],
      ${files.map(({ path }) => path)}::text[]) as gone(id, path)
    where f.id = gone.id and f.path = gone.path`
  return count
}

/** Queues the effect again for runs whose archived files are still at the upload path, in case the effect was lost. */
export async function queueLostMoves(tx: SqlTx, limit: number): Promise<number> {
  const { count } = await tx`
    insert into outbox (kind, payload, due_at)
    select ${ARCHIVED_INPUTS}, jsonb_build_object('runId', archived.run), clock_timestamp()
    from (select distinct f.archived_by_run as run from landing_file f where ${isInPlace(tx)}) archived
    where not exists (
      select from outbox o where o.kind = ${ARCHIVED_INPUTS} and o.payload ->> 'runId' = archived.run::text)
    limit ${limit}`
  return count
}
