import type { Db } from '../../drizzle/client.ts'
import { failedPrecondition, notFound } from '../core/errors.ts'
import { noZone, type ZoneRef } from '../core/zone-ref.ts'
import type { LandingFile } from './schema.ts'
import { lockedFile, readingRun, setQuarantine } from './store/files.ts'
import { zoneOf } from './store/zones.ts'
import { landingFileOf } from './upload.ts'

/**
 * Makes the function that puts a file in quarantine, where no run reads it, or takes the file out. It throws 409 if the file is
 * archived, or if a run reads the file now, because that run may archive the file.
 */
export const makeQuarantine =
  (db: Db) =>
  async (ref: ZoneRef, id: string, isIn: boolean): Promise<LandingFile> => {
    const zone = await zoneOf(db, ref)
    if (zone === null) throw noZone(ref)
    const changed = await db.transaction(async (tx) => {
      const file = await lockedFile(tx, zone.id, id)
      if (file === null) throw notFound(`file ${id}`)
      const { filename, archivedByRun: archiver, quarantinedAt } = file
      if (archiver !== null) throw failedPrecondition(`file ${filename} is archived by run ${archiver}`)
      if ((quarantinedAt !== null) === isIn) return file
      const reader = isIn ? await readingRun(tx, id) : null
      if (reader !== null)
        throw failedPrecondition(`run ${reader} reads file ${filename}: wait for its end, or cancel it`)
      return setQuarantine(tx, id, isIn)
    })
    return landingFileOf(changed)
  }
