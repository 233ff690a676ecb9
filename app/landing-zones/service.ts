import type { Db } from '../../drizzle/client.ts'
import { deleteGrantsOf, handOver } from '../access/service.ts'
import { type Access, EVERYTHING, UNLIMITED, type Visible } from '../core/access.ts'
import { alreadyExists, notFound } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import type { Page } from '../core/pagination.ts'
import { requireRoom, type SharedLimit, sharerOf } from '../core/shares.ts'
import { noZone, type ZoneRef, zonePrefix } from '../core/zone-ref.ts'
import { zoneSource } from '../triggers/config.ts'
import { forgetOthers } from '../triggers/service.ts'
import { parseExpectedSchema } from './expected-schema.ts'
import type { Read } from './inspection-schema.ts'
import { makeQuarantine } from './quarantine.ts'
import { makeSamples } from './samples.ts'
import type { CreateZone, Lifecycle, UpdateLifecycle, UpdateZone } from './schema.ts'
import { fileOf, filesInZone, removeFile } from './store/files.ts'
import { type ReadRow, readsOfZone } from './store/reads.ts'
import {
  changeLifecycle,
  changeZone,
  countZones,
  insertZone,
  lifecycleOf,
  lockedZone,
  lockZone,
  removeZone,
  type ZoneWithFiles,
  zoneOf,
  zones,
} from './store/zones.ts'
import { landingFileOf, makeUpload, statusOf, type UploadDeps } from './upload.ts'

/** Lists return no more zones than this. */
const ZONES: SharedLimit = { limit: limits.listCap, things: 'landing zones', remedy: 'delete one' }

interface LandingZoneDeps extends UploadDeps {
  db: Db
  /** Connections for removing zones, which may take long; by default `db`. */
  removals?: Db
  /** Throws 400 naming `namespace` if the namespace does not exist. */
  requireNamespace(name: string): Promise<void>
}

export type LandingZoneService = ReturnType<typeof makeLandingZoneService>

export function makeLandingZoneService(deps: LandingZoneDeps) {
  const { db, sql, removals = db, objects, newId, requireNamespace } = deps

  async function existing(ref: ZoneRef) {
    const zone = await zoneOf(db, ref)
    if (zone === null) throw noZone(ref)
    return zone
  }

  async function existingFile(ref: ZoneRef, id: string) {
    const zone = await existing(ref)
    const file = await fileOf(db, zone.id, id)
    if (file === null) throw notFound(`file ${id}`)
    return file
  }

  const insert = (newZone: Parameters<typeof insertZone>[1], sharer: string | null) =>
    db.transaction(async (tx) => {
      requireRoom(ZONES, await countZones(tx, sharer), sharer)
      const zone = await insertZone(tx, newZone)
      if (zone !== null && newZone.owner !== null) await forgetOthers(tx, zoneSource(newZone), newZone.owner)
      return zone
    })

  return {
    /** Lists the zones that the caller may see. */
    async list(namespace: string | undefined, page: Page, { zones: visibleZones } = EVERYTHING) {
      const { items, total } = await zones(db, { namespace, visibleZones }, page)
      return { zones: items.map(zoneViewOf), total }
    },

    async create(
      { namespace, name, description = '' }: CreateZone,
      by: Pick<Access, 'owner' | 'isAdmin'> = UNLIMITED,
    ) {
      await requireNamespace(namespace)
      const newZone = { id: newId(), namespace, name, description, owner: by.owner }
      const zone = await insert(newZone, sharerOf(by))
      if (zone === null) throw alreadyExists(`landing zone ${namespace}.${name}`)
      return { id: zone.id, namespace, name, description, created_at: zone.createdAt.toISOString() }
    },

    get: async (ref: ZoneRef) => zoneViewOf(await existing(ref)),

    /** `by` decides whether the caller may change the owner. A previous owner loses the rights of ownership. */
    async update(ref: ZoneRef, change: UpdateZone, by: Access = UNLIMITED) {
      if (change.expected_schema) parseExpectedSchema(change.expected_schema)
      if (Object.keys(change).length === 0) return zoneViewOf(await existing(ref))
      await db.transaction(async (tx) => {
        const before = change.owner === undefined ? null : await lockedZone(tx, ref)
        if (before !== null && change.owner !== undefined)
          await handOver(tx, { type: 'landing_zone', id: before.id, owner: before.owner }, change.owner, by)
        if (!(await changeZone(tx, ref, change))) throw noZone(ref)
      })
      return zoneViewOf(await existing(ref))
    },

    async lifecycle(ref: ZoneRef): Promise<Lifecycle> {
      const found = await lifecycleOf(db, ref)
      if (found === null) throw noZone(ref)
      return { processed_max_age_days: found.processedMaxAgeDays, auto_purge: found.autoPurge }
    },

    async changeLifecycle(ref: ZoneRef, change: UpdateLifecycle) {
      if (!(await changeLifecycle(db, ref, change))) throw noZone(ref)
    },

    /**
     * Deletes the row last, so no other zone can get the name before the files are gone. Most files are removed before the
     * lock. Files that arrived meanwhile are removed under the lock; a later upload finds no zone.
     */
    async remove(ref: ZoneRef) {
      const zone = await existing(ref)
      await objects.removeAll(zonePrefix(zone))
      await removals.transaction(async (tx) => {
        if (!(await lockZone(tx, zone.id))) throw noZone(ref)
        await objects.removeAll(zonePrefix(zone))
        await deleteGrantsOf(tx, { type: 'landing_zone', id: zone.id })
        await removeZone(tx, zone.id)
      })
    },

    async files(ref: ZoneRef, page: Page) {
      const zone = await existing(ref)
      const { items, total } = await filesInZone(db, zone.id, page)
      return { files: items.map(landingFileOf), total }
    },

    /** Reads of the zone's files, or of the file with this id, by runs of pipelines that the caller may see. */
    async reads(ref: ZoneRef, fileId: string | undefined, page: Page, visible: Visible = EVERYTHING) {
      const zone = await existing(ref)
      const filter = { zoneId: zone.id, fileId, visible: visible.pipelines }
      const { items, total } = await readsOfZone(sql, filter, page, limits.listCap)
      return { reads: items.map(readOf), total }
    },

    upload: makeUpload(deps),

    samples: makeSamples(deps),

    file: async (ref: ZoneRef, id: string) => landingFileOf(await existingFile(ref, id)),

    /** The original name and the content of a file, also of an archived one. */
    async content(ref: ZoneRef, id: string) {
      const { originalName, path, versionId } = await existingFile(ref, id)
      const object = await objects.get(path, versionId)
      if (object === null) throw notFound(`file ${id}`)
      return { originalName, size: object.size, body: object.body }
    },

    quarantine: makeQuarantine(db),

    /** Removes the object before its row. A listed file can be deleted again; an object without a row cannot. */
    async removeFile(ref: ZoneRef, id: string) {
      const file = await existingFile(ref, id)
      await objects.deleteVersion(file.path, file.versionId)
      await removeFile(db, id)
    },
  }
}

const zoneViewOf = (zone: ZoneWithFiles) => ({
  id: zone.id,
  namespace: zone.namespace,
  name: zone.name,
  description: zone.description,
  owner: zone.owner,
  expected_schema: zone.expectedSchema,
  file_count: zone.fileCount,
  total_bytes: zone.totalBytes,
  created_at: zone.createdAt.toISOString(),
  updated_at: zone.updatedAt.toISOString(),
})

const readOf = (row: ReadRow): Read => ({
  file_id: row.fileId,
  filename: row.filename,
  size_bytes: row.sizeBytes,
  file_status: row.filename === null ? 'deleted' : statusOf(row),
  archived_by_run: row.archivedByRun,
  archived_at: row.archivedAt?.toISOString() ?? null,
  run_id: row.runId,
  namespace: row.namespace,
  layer: row.layer,
  pipeline: row.pipeline,
  status: row.status,
  read_at: row.openedAt.toISOString(),
})
