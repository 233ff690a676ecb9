// Files that engines of users stored and that no commit names yet, and the locks for new keys.
import { alias } from 'drizzle-orm/pg-core'
import type { Sql, SqlTx } from '../../drizzle/client.ts'
import { computed, insertRows, only, pick, type RowOf, select } from '../../drizzle/rows.ts'
import { lakeUploads } from '../../drizzle/schema/catalog.ts'

/** Class of the advisory locks for new keys. Two keys with the same hash only refuse each other needlessly. */
const NEW_KEYS = 1_395_863_924

/**
 * Runs `work` while no other replica works on the same key. Null: another one does. The lock ends with its transaction, also
 * when the process dies. The transaction does not wait for the disk: a crash of the database may undo what `work` stored.
 */
export async function alone<T>(
  sql: Sql,
  key: string,
  /** `isRemoved`: a file of this name was removed. */
  work: (tx: SqlTx, isRemoved: boolean) => Promise<T>,
): Promise<{ done: T } | null> {
  return sql.begin(async (tx) => {
    const { taken, isRemoved } = only(
      await select(tx, {
        taken: computed<boolean>(`pg_try_advisory_xact_lock(${NEW_KEYS}, hashtext(wanted.key))`),
        quick: computed<string>(`set_config('synchronous_commit', 'off', true)`),
        isRemoved: computed<boolean>('upload.removed_at is not null'),
      })`
        from (select ${key}::text as key) wanted left join lake_upload upload on upload.key = wanted.key`,
    )
    return taken ? { done: await work(tx, isRemoved) } : null
  })
}

const upload = alias(lakeUploads, 'upload')
const UPLOAD = pick(upload, 'key', 'branch', 'size', 'checksum', 'removedAt')
/** A stored file that no commit names, or the trace of a removed one. */
type Upload = RowOf<typeof UPLOAD>

export async function uploadOf(sql: Sql | SqlTx, key: string): Promise<Upload | null> {
  const [found] = await uploadsOf(sql, [key])
  return found ?? null
}

export const uploadsOf = (sql: Sql | SqlTx, keys: readonly string[]) =>
  select(sql, UPLOAD)`from lake_upload upload where upload.key = any(${keys as string[]})`

/**
 * A crash of the database may undo this. Then the file stays until retention removes it, and a commit may still name it.
 */
export async function recordUpload(tx: SqlTx, row: Omit<Upload, 'removedAt'>): Promise<void> {
  await insertRows(tx, lakeUploads, ['key', 'branch', 'size', 'checksum'], [row])
}

/** Marks an upload of this branch as removed. False: a commit names the file, or another branch stored it. */
export async function markRemoved(sql: Sql, key: string, branch: string | null): Promise<boolean> {
  const { count } = await sql`
    update lake_upload set removed_at = coalesce(removed_at, clock_timestamp())
    where key = ${key} and branch is not distinct from ${branch}`
  return count === 1
}

/**
 * Forgets the uploads that a commit names, so that nobody removes them. Returns a removed file, which the commit must not name.
 */
export async function forgetNamed(tx: SqlTx, keys: readonly string[]): Promise<string | null> {
  if (keys.length === 0) return null
  const prefix = tx`
    with named as materialized (
      select key, removed_at from lake_upload where key = any(${keys as string[]}) order by key for update),
    forgotten as (delete from lake_upload where key in (select key from named where removed_at is null))`
  const [removed] = await select(
    tx,
    { key: computed<string>('named.key') },
    prefix,
  )`from named where named.removed_at is not null limit 1`
  return removed?.key ?? null
}

/** Forgets uploads from before a time. Their files are unreferenced files like others. Returns whether more remain. */
export async function forgetOld(tx: SqlTx, before: Date, limit: number): Promise<boolean> {
  const { count } = await tx`
    delete from lake_upload where key = any(array(
      select key from lake_upload where created_at < ${before} order by created_at limit ${limit}))`
  return count === limit
}
