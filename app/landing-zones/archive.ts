// Archiving is a fact of the database, and the success that archives is not held up by the store: the objects follow, to
// `_processed/{run_id}/`. Until then readers find them where they were, and afterwards the row says where they are.
import type { Sql } from '../../drizzle/client.ts'
import type { ObjectStore } from '../objects/port.ts'
import { ARCHIVED_INPUTS, archivedKey, isBeingRead, isInPlace, MOVED_OBJECT } from './archived-files.ts'
import { zonePrefix } from './upload.ts'

/** Files one effect moves; the next effect goes on. Effects share a loop, and none may hold it up for long. */
const FILES_PER_EFFECT = 64
const MOVES_AT_ONCE = 4

interface ArchivedFile {
  id: string
  namespace: string
  name: string
  filename: string
  path: string
  versionId: string
  sizeBytes: string
  contentType: string
  isBeingRead: boolean
}

/** Both effects may be performed any number of times, by several replicas at once. */
export function makeArchive({ sql, objects }: { sql: Sql; objects: ObjectStore }) {
  /** The effect `archivedInputs`. */
  async function moveInputs({ runId }: { runId: string }): Promise<void> {
    const files = await sql<ArchivedFile[]>`
      select f.id, z.namespace, z.name, f.filename, f.path, f.version_id as "versionId", f.size_bytes as "sizeBytes",
        f.content_type as "contentType", ${isBeingRead(sql)} as "isBeingRead"
      from landing_file f join landing_zone z on z.id = f.zone_id
      where f.archived_by_run = ${runId} and ${isInPlace(sql)}
      order by "isBeingRead", f.seq limit ${FILES_PER_EFFECT}`
    const free = files.filter((file) => !file.isBeingRead)
    for (let from = 0; from < free.length; from += MOVES_AT_ONCE)
      await Promise.all(free.slice(from, from + MOVES_AT_ONCE).map((file) => move(file, runId)))
    if (free.length < files.length)
      throw new Error(`${files.length - free.length} archived files are still being read`)
    if (files.length === FILES_PER_EFFECT)
      await sql`
        insert into outbox (kind, payload, due_at)
        values (${ARCHIVED_INPUTS}, ${sql.json({ runId })}, clock_timestamp())`
  }

  /** Copied, written down, and only then, by an effect, removed where it was: at every moment the row leads to the bytes. */
  async function move(file: ArchivedFile, runId: string): Promise<void> {
    const key = archivedKey(zonePrefix(file), runId, file.filename)
    const versionId = await copy(file, key)
    // Null: it has been moved, deleted or purged meanwhile.
    if (versionId === null) return
    const moved = await sql`
      with moved as (
        update landing_file set path = ${key}, version_id = ${versionId}
        where id = ${file.id} and archived_by_run = ${runId} and path = ${file.path} and version_id = ${file.versionId}
        returning id)
      insert into outbox (kind, payload, due_at)
      select ${MOVED_OBJECT}, ${sql.json({ key: file.path, versionId: file.versionId })}, clock_timestamp() from moved
      returning id`
    if (moved.length > 0) return
    const [row] = await sql<{ path: string; versionId: string }[]>`
      select path, version_id as "versionId" from landing_file where id = ${file.id}`
    // Another one was faster; unless it points at our copy, nobody does.
    if (row?.path !== key || row.versionId !== versionId) await objects.deleteVersion(key, versionId)
  }

  /** The version at the new key. One that an earlier try has left there is as good: a put is whole or not there. */
  async function copy(file: ArchivedFile, key: string): Promise<string | null> {
    const earlier = await objects.head(key)
    if (earlier?.size === Number(file.sizeBytes)) return earlier.versionId
    const source = await objects.get(file.path, file.versionId)
    if (source === null) return null
    return (await objects.put(key, source.body, { contentType: file.contentType, usesReserve: true }))
      .versionId
  }

  return {
    moveInputs,
    /** The effect `movedObject`: what was left behind by a move goes. */
    removeMoved: ({ key, versionId }: { key: string; versionId: string }) =>
      objects.deleteVersion(key, versionId),
  }
}
