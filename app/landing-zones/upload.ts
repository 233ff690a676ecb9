import type { Db } from '../../drizzle/client.ts'
import type { Clock } from '../clock.ts'
import { AppError } from '../http/errors.ts'
import type { NewId } from '../ids.ts'
import { limits } from '../limits.ts'
import type { ObjectStore } from '../objects/port.ts'
import { announceUpload } from './announcements.ts'
import { candidateNames, originalName, storedName } from './filenames.ts'
import { type FileRow, insertFile, lockZone, takenNames, type ZoneRow } from './queries.ts'

export interface UploadDeps {
  db: Db
  objects: ObjectStore
  clock: Clock
  newId: NewId
  /** A hint for the evaluator of triggers; its sweep finds what a lost one missed. */
  eventRecorded(): void
}

/** How far into the future a name may reach when files of one name arrive faster than one per second. */
const NAME_SECONDS = 3_600
/** Uploads of one name through different replicas can meet; each time one of them takes a later second. */
const MEETINGS = 20

export const zonePrefix = ({ namespace, name }: { namespace: string; name: string }) =>
  `${namespace}/landing/${name}/`

/**
 * Uploads go to the store without a transaction being held. The row decides whose a name is: whoever finds it taken
 * takes his own version of the object back and tries a later second. Without its row, an object is nobody's input.
 */
export function makeUpload({ db, objects, clock, newId, eventRecorded }: UploadDeps) {
  /** Names that uploads of this process are about to take. */
  const claimed = new Set<string>()

  async function claimName(zone: ZoneRow, original: string): Promise<string> {
    const now = clock.now()
    // A second earlier, because how the database sorts what follows the digits is its locale's business.
    const from = storedName('', new Date(now.getTime() - 1000))
    const taken = await takenNames(db, zone.id, { original, from })
    const filename = candidateNames(original, now, NAME_SECONDS).find(
      (name) => !taken.has(name) && !claimed.has(zonePrefix(zone) + name),
    )
    if (filename === undefined)
      throw new AppError(429, 'RATE_LIMITED', `too many files named ${original} at once`, {
        headers: { 'retry-after': '60' },
      })
    claimed.add(zonePrefix(zone) + filename)
    return filename
  }

  /** Null: the zone has got a file of that name meanwhile. 'gone': there is no such zone any more. */
  async function record(
    zone: ZoneRow,
    file: Omit<FileRow, 'seq' | 'uploadedAt' | 'archivedByRun' | 'archivedAt'>,
  ): Promise<FileRow | null | 'gone'> {
    const { outcome, isHeard } = await db.transaction(async (tx) => {
      if (!(await lockZone(tx, zone.id, 'key share'))) return { outcome: 'gone' as const, isHeard: false }
      const row = await insertFile(tx, file)
      return { outcome: row, isHeard: row !== null && (await announceUpload(tx, zone, row)) }
    })
    if (isHeard) eventRecorded()
    return outcome
  }

  /** The file's row, or 'gone' when the zone was deleted meanwhile. */
  return async function upload(zone: ZoneRow, file: File): Promise<FileRow | 'gone'> {
    const original = originalName(file.name)
    const contentType = file.type || 'application/octet-stream'
    for (let meeting = 0; meeting < MEETINGS; meeting++) {
      const filename = await claimName(zone, original)
      const path = zonePrefix(zone) + filename
      try {
        const { versionId, size } = await objects.put(path, file.stream(), {
          contentType,
          maxBytes: limits.uploadBytes,
        })
        const outcome = await record(zone, {
          id: newId(),
          zoneId: zone.id,
          filename,
          originalName: original,
          path,
          versionId,
          sizeBytes: size,
          contentType,
        })
        if (outcome !== null && outcome !== 'gone') return outcome
        await objects.deleteVersion(path, versionId)
        if (outcome === 'gone') return 'gone'
      } finally {
        claimed.delete(path)
      }
    }
    throw new AppError(409, 'ALREADY_EXISTS', `file ${original} is being uploaded by too many at once`)
  }
}
