// Removes old archived landing files of zones with `auto_purge`. Also queues the move (effects.ts) of archived objects that are
// still at their upload path, in case the effect of their run was lost.
import { inBatches, type Reaping } from '../retention/store/reaping.ts'
import { BEFORE_ALL, purgeableFiles, queueLostMoves, removePurged } from './store/archive.ts'

const FILES_PER_BATCH = 500
const REMOVALS_AT_ONCE = 8
const RUNS_QUEUED = 1_000

/**
 * Removes the object before its row. After a crash, the reaper finds the row again; it would not find an object without a row.
 */
export async function purgeArchivedFiles(reaping: Reaping): Promise<void> {
  const { sql, objects, now, reaped } = reaping
  let after = BEFORE_ALL
  for (;;) {
    const files = await purgeableFiles(sql, now, after, FILES_PER_BATCH)
    for (let from = 0; from < files.length; from += REMOVALS_AT_ONCE) {
      reaping.checkRunning()
      const some = files.slice(from, from + REMOVALS_AT_ONCE)
      await Promise.all(some.map(({ path, versionId }) => objects.removeVersion(path, versionId)))
    }
    await inBatches(reaping, async (tx) => {
      reaped.lzFilesCleaned += await removePurged(tx, files)
      reaping.dryRun?.add(
        'landing_files',
        files.map(({ path }) => path),
        files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
      )
      return false
    })
    const last = files.at(-1)
    if (files.length < FILES_PER_BATCH || last === undefined) return
    after = last
  }
}

export async function queueArchiving(reaping: Reaping): Promise<void> {
  await inBatches(reaping, async (tx) => (await queueLostMoves(tx, RUNS_QUEUED)) === RUNS_QUEUED)
}
