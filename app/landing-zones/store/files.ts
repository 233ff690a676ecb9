import assert from 'node:assert/strict'
import { and, desc, eq, isNull, sql } from 'drizzle-orm'
import type { Queryable, Tx } from '../../../drizzle/client.ts'
import { landingFiles } from '../../../drizzle/schema/landing.ts'
import { runAttempts, runFiles } from '../../../drizzle/schema/run.ts'
import type { Page } from '../../core/pagination.ts'

export type FileRow = typeof landingFiles.$inferSelect

/** Active or in quarantine. */
const isInZone = isNull(landingFiles.archivedByRun)
export const isActive = and(isInZone, isNull(landingFiles.quarantinedAt))

/** Active files, newest first. */
export const activeFiles = (db: Queryable, zoneId: string, page: Page) =>
  filesWhere(db, and(eq(landingFiles.zoneId, zoneId), isActive), page)

/** Active files and files in quarantine, newest first. */
export const filesInZone = (db: Queryable, zoneId: string, page: Page) =>
  filesWhere(db, and(eq(landingFiles.zoneId, zoneId), isInZone), page)

async function filesWhere(
  db: Queryable,
  where: ReturnType<typeof and>,
  page: Page,
): Promise<{ items: FileRow[]; total: number }> {
  const [items, total] = await Promise.all([
    db
      .select()
      .from(landingFiles)
      .where(where)
      .orderBy(desc(landingFiles.seq))
      .limit(page.limit)
      .offset(page.offset),
    db.$count(landingFiles, where),
  ])
  return { items, total }
}

export async function fileOf(db: Queryable, zoneId: string, id: string): Promise<FileRow | null> {
  const [row] = await db
    .select()
    .from(landingFiles)
    .where(and(eq(landingFiles.zoneId, zoneId), eq(landingFiles.id, id)))
  return row ?? null
}

/** Locks the file until the transaction ends; null: the zone has no such file. */
export async function lockedFile(tx: Tx, zoneId: string, id: string): Promise<FileRow | null> {
  const [row] = await tx
    .select()
    .from(landingFiles)
    .where(and(eq(landingFiles.zoneId, zoneId), eq(landingFiles.id, id)))
    .for('no key update')
  return row ?? null
}

/** A run whose open attempt has frozen the file, so that it may read and archive the file; null: no such run. */
export async function readingRun(db: Queryable, id: string): Promise<string | null> {
  const { runId, attempt, state } = runAttempts
  const [row] = await db
    .select({ runId })
    .from(runFiles)
    .innerJoin(runAttempts, and(eq(runFiles.runId, runId), eq(runFiles.attempt, attempt), eq(state, 'open')))
    .where(eq(runFiles.landingFileId, id))
    .limit(1)
  return row?.runId ?? null
}

/** Returns the changed file. */
export async function setQuarantine(tx: Tx, id: string, isIn: boolean): Promise<FileRow> {
  const [row] = await tx
    .update(landingFiles)
    .set({ quarantinedAt: isIn ? sql`clock_timestamp()` : null })
    .where(eq(landingFiles.id, id))
    .returning()
  assert(row)
  return row
}

export const removeFile = (db: Queryable, id: string) =>
  db.delete(landingFiles).where(eq(landingFiles.id, id))
