import { and, desc, eq, isNull } from 'drizzle-orm'
import type { Queryable } from '../../../drizzle/client.ts'
import { landingFiles } from '../../../drizzle/schema/index.ts'
import type { Page } from '../../core/pagination.ts'

export type FileRow = typeof landingFiles.$inferSelect

export const isActive = isNull(landingFiles.archivedByRun)

/** Active files, newest first. */
export async function activeFiles(
  db: Queryable,
  zoneId: string,
  page: Page,
): Promise<{ items: FileRow[]; total: number }> {
  const where = and(eq(landingFiles.zoneId, zoneId), isActive)
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

export const removeFile = (db: Queryable, id: string) =>
  db.delete(landingFiles).where(eq(landingFiles.id, id))
