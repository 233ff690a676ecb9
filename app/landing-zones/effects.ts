// Effects of landing zones: cleanup after a killed upload, and the move of archived objects. The outbox performs effects at
// least once. Each effect is idempotent, also when several replicas perform it at once.
import type { Sql } from '../../drizzle/client.ts'
import { zonePrefix } from '../core/zone-ref.ts'
import type { ObjectStore } from '../objects/port.ts'
import { type ArchivedFile, filesInPlace, queueMoreMoves, recordMove } from './store/archive.ts'
import { type AbandonedUpload, recordedVersions } from './store/uploads.ts'

export type { AbandonedUpload } from './store/uploads.ts'

/**
 * Maximum number of files per effect; another effect moves the rest. Effects share a loop, so a long effect would delay others.
 */
const FILES_PER_EFFECT = 64
const MOVES_AT_ONCE = 4

/**
 * The effect `abandonedUpload`, for a process that died between putting an object and recording its row. Removes the versions
 * at the path that are not recorded as files. Every upload has an intent until it is recorded. So the effect removes nothing
 * from a path with an upload under way.
 */
export const makeClearUp =
  ({ sql, objects }: { sql: Sql; objects: ObjectStore }) =>
  async (abandoned: AbandonedUpload): Promise<void> => {
    const { path } = abandoned
    const { versions } = await objects.versions(path)
    const present = versions.filter(({ key }) => key === path)
    if (present.length === 0) return
    // This query follows the listing. So each listed version is recorded as a file, has an active intent, or is abandoned.
    const recorded = await recordedVersions(sql, abandoned)
    if (recorded === null) return
    for (const { versionId } of present)
      if (!recorded.includes(versionId)) await objects.deleteVersion(path, versionId)
  }

/**
 * The database records archiving, so a success does not wait for the object store. An effect later moves the objects to
 * `_processed/{run_id}/`. The row always names the current location.
 */
export function makeArchive({ sql, objects }: { sql: Sql; objects: ObjectStore }) {
  /** Performs the effect `archivedInputs`. Throws if files are still being read, so the outbox tries again. */
  async function moveInputs({ runId }: { runId: string }): Promise<void> {
    const files = await filesInPlace(sql, runId, FILES_PER_EFFECT)
    const free = files.filter((file) => !file.isBeingRead)
    for (let from = 0; from < free.length; from += MOVES_AT_ONCE)
      await Promise.all(free.slice(from, from + MOVES_AT_ONCE).map((file) => move(file, runId)))
    if (free.length < files.length)
      throw new Error(
        `${files.length - free.length} archived files not moved: an open attempt still reads them`,
      )
    if (files.length === FILES_PER_EFFECT) await queueMoreMoves(sql, runId)
  }

  /**
   * Copies the object, records the copy, and queues an effect that removes the original. So the row names an existing object at
   * every moment.
   */
  async function move(file: ArchivedFile, runId: string): Promise<void> {
    const key = `${zonePrefix(file)}_processed/${runId}/${file.filename}`
    const versionId = await copy(file, key)
    // Null: the file was moved, deleted or purged meanwhile.
    if (versionId === null) return
    // Another replica may have moved the file first. If the row does not name this copy, the copy is removed.
    if (!(await recordMove(sql, file, runId, { key, versionId }))) await objects.deleteVersion(key, versionId)
  }

  /** Returns the version at the new key. Reuses the copy of an earlier try, because a put is atomic. */
  async function copy(file: ArchivedFile, key: string): Promise<string | null> {
    const earlier = await objects.head(key)
    if (earlier?.size === file.sizeBytes) return earlier.versionId
    const source = await objects.get(file.path, file.versionId)
    if (source === null) return null
    return (await objects.put(key, source.body, { contentType: file.contentType, usesReserve: true }))
      .versionId
  }

  return {
    moveInputs,
    /** Performs the effect `movedObject`: removes the original object after a move. */
    removeMoved: ({ key, versionId }: { key: string; versionId: string }) =>
      objects.deleteVersion(key, versionId),
  }
}
