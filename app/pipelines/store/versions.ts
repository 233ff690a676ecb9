import { and, desc, eq, lte, sql } from 'drizzle-orm'
import type { Queryable, Tx } from '../../../drizzle/client.ts'
import { type pipelines, pipelineVersions } from '../../../drizzle/schema/pipeline.ts'
import { runs } from '../../../drizzle/schema/run.ts'
import type { Page } from '../../core/pagination.ts'

export type VersionRow = typeof pipelineVersions.$inferSelect

/** The columns of a pipeline that change when a version is published. */
export const publishedColumns = (
  number: number,
  columns: Pick<typeof pipelines.$inferInsert, 'tags' | 'review'>,
) => ({
  publishedVersion: number,
  ...columns,
  publishedAt: sql`clock_timestamp()`,
})

export async function versionsOf(
  db: Queryable,
  pipelineId: string,
  page: Page,
): Promise<{ items: VersionRow[]; total: number }> {
  const ofPipeline = eq(pipelineVersions.pipelineId, pipelineId)
  const [items, total] = await Promise.all([
    db
      .select()
      .from(pipelineVersions)
      .where(ofPipeline)
      .orderBy(desc(pipelineVersions.versionNumber))
      .limit(page.limit)
      .offset(page.offset),
    db.$count(pipelineVersions, ofPipeline),
  ])
  return { items, total }
}

export async function versionOf(
  db: Queryable,
  pipelineId: string,
  versionNumber: number,
): Promise<VersionRow | null> {
  const [row] = await db
    .select()
    .from(pipelineVersions)
    .where(
      and(eq(pipelineVersions.pipelineId, pipelineId), eq(pipelineVersions.versionNumber, versionNumber)),
    )
  return row ?? null
}

/** Adds a version and deletes versions beyond `maxVersions`. Runs are not affected, because each run stores its pins. */
export async function addVersion(
  tx: Tx,
  version: Omit<VersionRow, 'createdAt'>,
  maxVersions: number,
): Promise<void> {
  await tx.insert(pipelineVersions).values(version)
  await tx
    .delete(pipelineVersions)
    .where(
      and(
        eq(pipelineVersions.pipelineId, version.pipelineId),
        lte(pipelineVersions.versionNumber, version.versionNumber - maxVersions),
      ),
    )
}

/**
 * The commit of main with the result of the version's latest success on main. A success without a change left the commit that it
 * read. Null without such a run.
 */
export async function commitOfSuccess(
  db: Queryable,
  pipelineId: string,
  versionNumber: number,
): Promise<number | null> {
  const [run] = await db
    .select({ base: runs.baseCommit, merged: runs.mergedCommit })
    .from(runs)
    .where(
      and(
        eq(runs.pipelineId, pipelineId),
        eq(runs.versionNumber, versionNumber),
        eq(runs.status, 'success'),
        eq(runs.branch, 'main'),
      ),
    )
    .orderBy(desc(runs.finishedAt), desc(runs.id))
    .limit(1)
  return run?.merged ?? run?.base ?? null
}
