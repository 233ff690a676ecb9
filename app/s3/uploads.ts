/** Files that engines of users stored and that no commit names yet, for the catalog and the reaper. */
import type { Sql } from '../../drizzle/client.ts'
import { UPLOADS_PREFIX } from '../../lake/iceberg/format/location.ts'
import { BATCH_ROWS, inBatches, type Reaping } from '../retention/store/reaping.ts'
import { forgetNamed, forgetOld, uploadsOf } from './store.ts'

export const forgetUploads = forgetNamed

/** The sizes of uploads by their keys. Other files are absent. */
export async function sizesOfUploads(sql: Sql, keys: readonly string[]): Promise<Map<string, number>> {
  const found = keys.length === 0 ? [] : await uploadsOf(sql, keys)
  return new Map(found.flatMap(({ key, size, removedAt }) => (removedAt === null ? [[key, size]] : [])))
}

/** Removes parts of uploads that nobody completed, and forgets files that no commit named. Such files are unreferenced files. */
export async function removeAbandonedUploads(reaping: Reaping): Promise<void> {
  const { objects, cutoffs, reaped, checkRunning } = reaping
  let after: string | undefined
  for (let truncated = true; truncated; ) {
    const page = await objects.versions(UPLOADS_PREFIX, after)
    for (const { key, versionId, size, modified } of page.versions) {
      if (modified.getTime() >= cutoffs.lakeFiles) continue
      checkRunning()
      await objects.removeVersion(key, versionId)
      reaped.lakeFilesRemoved += size === null ? 0 : 1
      reaping.dryRun?.add('lake_files', size === null ? [] : [key], size ?? 0)
    }
    truncated = page.truncated
    after = page.versions.at(-1)?.key
  }
  await inBatches(reaping, (tx) => forgetOld(tx, new Date(cutoffs.lakeFiles), BATCH_ROWS))
}
