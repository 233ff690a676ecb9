// Permanently removes pipelines some time after their deletion: their runs, versions, triggers and schedules, and all versions
// of their files. The name may be in use again. Versions that another pipeline of the name has pinned stay, and so does
// everything written after the deletion.

import { FIRST_ID } from '../core/ids.ts'
import { prefixOf } from '../core/pipeline-ref.ts'
import type { ObjectVersion } from '../objects/port.ts'
import {
  type DeletedPipeline,
  deletedPipelines,
  deleteHistoryOf,
  deleteRecordOf,
  othersOfName,
} from './store/deleted-pipelines.ts'
import { BATCH_ROWS, inBatches, PAGE, type Reaping } from './store/reaping.ts'
import { pruneAllRunsOf } from './store/runs.ts'

const REMOVALS_AT_ONCE = 8

export async function purgeDeletedPipelines(reaping: Reaping): Promise<void> {
  let after = { deletedAt: new Date(0), id: FIRST_ID }
  for (;;) {
    const deleted = await deletedPipelines(reaping.sql, {
      before: new Date(reaping.cutoffs.softDeleted),
      after,
      limit: PAGE,
    })
    for (const pipeline of deleted) {
      reaping.checkRunning()
      await purge(reaping, pipeline)
    }
    const last = deleted.at(-1)
    if (deleted.length < PAGE || last === undefined) return
    after = last
  }
}

/** Deletes the row last, so that a crash in between repeats all steps. */
async function purge(reaping: Reaping, pipeline: DeletedPipeline): Promise<void> {
  reaping.dryRun?.add('pipelines', [`${pipeline.namespace}.${pipeline.layer}.${pipeline.name}`])
  await pruneAllRunsOf(reaping, pipeline.id, reaping.now)
  await removeFiles(reaping, pipeline)
  await inBatches(reaping, async (tx) => {
    const count = await deleteHistoryOf(tx, pipeline.id, BATCH_ROWS)
    reaping.reaped.historyPruned += count
    reaping.dryRun?.add('transitions', count)
    return count === BATCH_ROWS
  })
  await inBatches(reaping, async (tx) => {
    reaping.reaped.pipelinesPurged += await deleteRecordOf(tx, pipeline.id)
    return false
  })
}

async function removeFiles(reaping: Reaping, pipeline: DeletedPipeline): Promise<void> {
  const { objects, checkRunning } = reaping
  let after: string | undefined
  for (let truncated = true; truncated; ) {
    const page = await objects.versions(prefixOf(pipeline), after)
    // Queried after the listing. A pipeline that gets the name now has only files that are not in this page.
    const others = await othersOf(reaping, pipeline)
    const byKey = Map.groupBy(page.versions, ({ key }) => key)
    for (const versions of byKey.values()) {
      checkRunning()
      const doomed = removableVersions(versions, { deletedAt: pipeline.deletedAt, ...others })
      // A delete marker is removed after the versions that it hides; otherwise they would become visible again.
      const [files, markers] = [
        doomed.filter(({ size }) => size !== null),
        doomed.filter(({ size }) => size === null),
      ]
      reaping.dryRun?.add(
        'pipeline_files',
        files.map(({ key }) => key),
        files.reduce((sum, { size }) => sum + (size ?? 0), 0),
      )
      for (const batch of [...chunked(files), ...chunked(markers)])
        await Promise.all(batch.map(({ key, versionId }) => objects.removeVersion(key, versionId)))
    }
    truncated = page.truncated
    after = page.versions.at(-1)?.key
  }
}

interface Others {
  /** Another pipeline, live or deleted, has the name. */
  isNameShared: boolean
  /** A live pipeline has the name. */
  isNameInUse: boolean
  isPinned(version: { key: string; versionId: string }): boolean
}

/**
 * The versions of one key that can be removed with the purged pipeline. Versions written after its deletion belong to another
 * pipeline or to a user. The visible version of a key belongs to the live pipeline of that name, if it exists.
 */
export function removableVersions(
  versions: readonly ObjectVersion[],
  { deletedAt, isNameShared, isNameInUse, isPinned }: Others & { deletedAt: Date },
): ObjectVersion[] {
  const isOlder = ({ modified }: ObjectVersion) => modified.getTime() < deletedAt.getTime()
  const doomed = versions.filter((version) => {
    if (version.size === null || isPinned(version)) return false
    if (version.isNewest) return !isNameInUse && isOlder(version)
    return !isNameShared || isOlder(version)
  })
  const isEmptied = versions.every((version) => version.size === null || doomed.includes(version))
  const markers = versions.filter(
    (version) =>
      version.size === null && (!isNameShared || isOlder(version)) && (isEmptied || !version.isNewest),
  )
  return [...doomed, ...markers]
}

async function othersOf({ sql }: Reaping, pipeline: DeletedPipeline): Promise<Others> {
  const { others, pins } = await othersOfName(sql, pipeline)
  const pinned = new Set(pins.map(({ key, versionId }) => `${key}\n${versionId}`))
  return {
    isNameShared: others.length > 0,
    isNameInUse: others.some(({ isLive }) => isLive),
    isPinned: ({ key, versionId }) => pinned.has(`${key}\n${versionId}`),
  }
}

const chunked = (versions: readonly ObjectVersion[]): ObjectVersion[][] =>
  Array.from({ length: Math.ceil(versions.length / REMOVALS_AT_ONCE) }, (_, chunk) =>
    versions.slice(chunk * REMOVALS_AT_ONCE, (chunk + 1) * REMOVALS_AT_ONCE),
  )
