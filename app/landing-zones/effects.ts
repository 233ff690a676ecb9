// The effects of landing zones, which the outbox performs at least once: clearing up after a killed upload, and moving the
// objects of archived files. Each may be performed any number of times, by several replicas at once.
import type { Sql } from '../../drizzle/client.ts'
import { zonePrefix } from '../core/zone-ref.ts'
import type { ObjectStore } from '../objects/port.ts'
import { type ArchivedFile, filesInPlace, queueMoreMoves, recordMove } from './store/archive.ts'
import { type AbandonedUpload, recordedVersions } from './store/uploads.ts'

export type { AbandonedUpload } from './store/uploads.ts'

/** Files one effect moves; the next effect goes on. Effects share a loop, and none may hold it up for long. */
const FILES_PER_EFFECT = 64
const MOVES_AT_ONCE = 4

/**
 * The effect `abandonedUpload`, for a process that was killed between an object and its row: removes the versions at the path
 * that no file of the zone has. Each upload has an intent until it is a file, so an upload that is under way at the path
 * keeps all of it.
 */
export const makeClearUp =
  ({ sql, objects }: { sql: Sql; objects: ObjectStore }) =>
  async (abandoned: AbandonedUpload): Promise<void> => {
    const { path } = abandoned
    const { versions } = await objects.versions(path)
    const there = versions.filter(({ key }) => key === path)
    if (there.length === 0) return
    // Looked up after the versions were listed: each of those is a file, intended, or abandoned by now.
    const recorded = await recordedVersions(sql, abandoned)
    if (recorded === null) return
    for (const { versionId } of there)
      if (!recorded.includes(versionId)) await objects.deleteVersion(path, versionId)
  }

/**
 * Archiving is a fact of the database, and the success that archives is not held up by the store: the objects follow, to
 * `_processed/{run_id}/`. Until then readers find them where they were, and afterwards the row says where they are.
 */
export function makeArchive({ sql, objects }: { sql: Sql; objects: ObjectStore }) {
  /** The effect `archivedInputs`. */
  async function moveInputs({ runId }: { runId: string }): Promise<void> {
    const files = await filesInPlace(sql, runId, FILES_PER_EFFECT)
    const free = files.filter((file) => !file.isBeingRead)
    for (let from = 0; from < free.length; from += MOVES_AT_ONCE)
      await Promise.all(free.slice(from, from + MOVES_AT_ONCE).map((file) => move(file, runId)))
    if (free.length < files.length)
      throw new Error(`${files.length - free.length} archived files are still being read`)
    if (files.length === FILES_PER_EFFECT) await queueMoreMoves(sql, runId)
  }

  /** Copied, written down, and only then, by an effect, removed where it was: at every moment the row leads to the bytes. */
  async function move(file: ArchivedFile, runId: string): Promise<void> {
    const key = `${zonePrefix(file)}_processed/${runId}/${file.filename}`
    const versionId = await copy(file, key)
    // Null: it has been moved, deleted or purged meanwhile.
    if (versionId === null) return
    // Another replica may have been faster; unless the row leads to our copy, nobody needs it.
    if (!(await recordMove(sql, file, runId, { key, versionId }))) await objects.deleteVersion(key, versionId)
  }

  /** The version at the new key. One that an earlier try has left there is as good: a put is whole or not there. */
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
    /** The effect `movedObject`: removes the object that a move has left behind. */
    removeMoved: ({ key, versionId }: { key: string; versionId: string }) =>
      objects.deleteVersion(key, versionId),
  }
}
