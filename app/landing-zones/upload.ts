import type { Sql, SqlTx } from '../../drizzle/client.ts'
import type { Clock } from '../core/clock.ts'
import { AppError } from '../core/errors.ts'
import type { NewId } from '../core/ids.ts'
import { limits } from '../core/limits.ts'
import { noZone, type ZoneRef } from '../core/zone-ref.ts'
import type { IdempotencyKey } from '../http/idempotency.ts'
import { uploadOnce } from '../http/idempotency.ts'
import { type KeyOf, withoutKey } from '../http/idempotency-key.ts'
import type { IncomingFile, UploadForm } from '../http/upload-form.ts'
import type { ObjectStore, StagedObject } from '../objects/port.ts'
import type { HearAtOnce } from '../triggers/at-once.ts'
import { uploadOf } from './announcements.ts'
import { forgetIntent, intend, type NewFile, type Recorded, record } from './arrivals.ts'
import { candidateNames, originalName, storedName } from './filenames.ts'
import type { LandingFile } from './schema.ts'

export interface UploadDeps {
  sql: Sql
  objects: ObjectStore
  clock: Clock
  newId: NewId
  /** A hint for the evaluator of triggers; its sweep finds what a lost one missed. */
  eventRecorded(): void
  /** Fires the triggers that hear an upload in its own transaction; null: they are all left to the evaluator. */
  hearAtOnce?: HearAtOnce | null
}

/** How far into the future a name may reach when files of one name arrive faster than one per second. */
const NAME_SECONDS = 3_600
/** Uploads of one name through different replicas can meet; each time one of them takes a later second. */
const MEETINGS = 20
/** Of an object that a disk has taken before its row is written. */
const SOON_DURABLE_BYTES = 262_144

export const zonePrefix = ({ namespace, name }: ZoneRef) => `${namespace}/landing/${name}/`

/** What an upload is going to be, while its bytes arrive. */
interface Place {
  zoneId: string
  filename: string
  path: string
  /** What finds the object should we be killed before its row is there. */
  intentId: string
}

/**
 * While the bytes arrive, nothing is held and nobody sees them; meanwhile a name is claimed and the intent to use it is
 * written down. Then the object gets its name, and one statement makes its row, its event, and the end of the intent: the
 * row decides whose a name is, and without its row an object is nobody's input. An intent that is left finds such an object
 * (abandoned.ts).
 */
export function makeUpload({ sql, objects, clock, newId, eventRecorded, hearAtOnce = null }: UploadDeps) {
  /** Paths that uploads of this process are about to take. */
  const claimed = new Set<string>()

  /** Rejects with 404 when there is no such zone. */
  async function claim(ref: ZoneRef, original: string): Promise<Place> {
    const now = clock.now()
    // A second earlier, because how the database sorts what follows the digits is its locale's business.
    const from = storedName('', new Date(now.getTime() - 1000))
    const prefix = zonePrefix(ref)
    let taken = new Set<string>()
    for (const filename of candidateNames(original, now, NAME_SECONDS)) {
      const path = prefix + filename
      if (taken.has(filename) || claimed.has(path)) continue
      claimed.add(path)
      try {
        const intended = await intend(sql, ref, { path, filename, original, from })
        if (intended.intentId !== null) return { ...intended, intentId: intended.intentId, filename, path }
        claimed.delete(path)
        taken = new Set(intended.taken)
      } catch (error) {
        claimed.delete(path)
        throw error
      }
    }
    throw new AppError(429, 'RATE_LIMITED', `too many files named ${original} at once`, {
      headers: { 'retry-after': '60' },
    })
  }

  const release = ({ path }: Place) => claimed.delete(path)

  /** An intent that stays finds nothing to do: this only spares its waiting. */
  const giveUp = async (place: Place) => {
    release(place)
    await forgetIntent(sql, place.intentId).catch(() => {})
  }

  /** Claims a name and receives the bytes at the same time. */
  async function arrive(ref: ZoneRef, file: IncomingFile): Promise<Arrived> {
    const original = originalName(file.filename)
    const placing = claim(ref, original)
    const key = placing.then(({ path }) => path)
    // Not every store wants to know it; who does hears of its failure.
    key.catch(() => {})
    const staging = objects.stage(unlessFailed(placing, file.body), {
      contentType: file.contentType,
      maxBytes: limits.uploadBytes,
      key,
      isDurableLater: true,
    })
    try {
      const [place, staged] = await Promise.all([placing, staging])
      const discard = async () => {
        await Promise.all([giveUp(place), staged.discard()])
      }
      return { original, place, staged, discard }
    } catch (error) {
      await Promise.all([
        placing.then(giveUp, () => {}),
        staging.then((staged) => staged.discard()).catch(() => {}),
      ])
      throw error
    }
  }

  /**
   * Names the object and records it; where another replica has a file of that name, under a later one. Each try is a
   * transaction of its own; with a key it may know the answer already. The object moves between two of them: what says where
   * it is going to be must be there whatever becomes of a transaction.
   */
  async function settle(
    ref: ZoneRef,
    contentType: string,
    { original, place, staged, discard }: Arrived,
    key: IdempotencyKey | null,
  ): Promise<LandingFile> {
    let { filename, path, intentId } = place
    let isNamed = false
    let durable = Promise.resolve()
    let versionId = ''
    const named = async () => {
      if (!isNamed) ({ versionId, durable } = await staged.name(path))
      isNamed = true
      // A disk is waited for where nothing is held; beside the first statements only for little, on a connection of their own.
      if (key !== null || staged.size > SOON_DURABLE_BYTES) await durable
    }
    const forget = async () => {
      await objects.deleteVersion(path, versionId)
      await forgetIntent(sql, intentId)
    }
    for (let meeting = 1; ; meeting++) {
      const tried: { recorded: Heard | null } = { recorded: null }
      const attempt = async (on: Sql | SqlTx) => {
        const file = {
          id: newId(),
          zoneId: place.zoneId,
          filename,
          original,
          path,
          versionId,
          sizeBytes: staged.size,
          contentType,
        }
        // Should this fail, nobody knows whether there is a row: the intent does.
        tried.recorded = await recorded(on, ref, intentId, file, durable)
        const { outcome } = tried.recorded
        return outcome.kind === 'recorded' ? shapeOf(file, outcome.uploadedAt) : null
      }
      const answer =
        key === null ? await named().then(() => attempt(sql)) : await uploadOnce(sql, key, attempt, named)
      if (answer !== null) {
        if (tried.recorded?.isLeft) eventRecorded()
        // Another request under the same key had come to its end.
        if (tried.recorded === null) await (isNamed ? forget() : discard())
        return answer
      }
      const kind = tried.recorded?.outcome.kind
      if (kind !== 'taken' || meeting === MEETINGS) {
        await forget()
        if (kind === 'gone') throw noZone(ref)
        if (kind === 'late')
          throw new AppError(
            503,
            'UNAVAILABLE',
            `file ${original} took too long to be recorded: upload it again`,
          )
        throw new AppError(409, 'ALREADY_EXISTS', `file ${original} is being uploaded by too many at once`)
      }
      // Ours goes where a later second is free.
      const next = await claim(ref, original)
      release(next)
      const moving = { path, versionId, contentType }
      versionId = await moved(moving, next.path)
      await forgetIntent(sql, intentId)
      ;({ filename, path, intentId } = next)
    }
  }

  /** Alone in its transaction it may fire its triggers there; `isLeft`: the evaluator has to. The object is `durable` before its row. */
  async function recorded(
    on: Sql | SqlTx,
    ref: ZoneRef,
    intentId: string,
    file: NewFile,
    durable: Promise<void>,
  ): Promise<Heard> {
    const heard =
      on === sql && hearAtOnce !== null
        ? await hearAtOnce(
            uploadOf(ref, file),
            async (tx) => {
              const fact = await record(tx, ref, intentId, file)
              return { fact, eventId: eventOf(fact) }
            },
            durable,
          )
        : null
    if (heard !== null) return { outcome: heard.fact, isLeft: heard.isLeft }
    await durable
    const outcome = await record(on, ref, intentId, file)
    return { outcome, isLeft: eventOf(outcome) !== null }
  }

  async function moved(
    { path, versionId, contentType }: { path: string; versionId: string; contentType: string },
    to: string,
  ) {
    const source = await objects.get(path, versionId)
    if (source === null) throw new Error(`the upload ${path} went away before it was recorded`)
    const there = await objects.put(to, source.body, { contentType, usesReserve: true })
    await objects.deleteVersion(path, versionId)
    return there.versionId
  }

  /** The file's record. 404: there is no such zone (any more). */
  return async function upload(
    ref: ZoneRef,
    form: UploadForm,
    keyOf: KeyOf = withoutKey,
    /** Rejects when the caller may not do this any more; asked when the bytes are there, which can take minutes. */
    permit: () => Promise<void> = async () => {},
  ): Promise<LandingFile> {
    const { filename, contentType, sha256, stored: arrived } = await form.receive((file) => arrive(ref, file))
    let isSettling = false
    try {
      await permit()
      const key = keyOf({ filename, contentType, sha256 })
      isSettling = true
      return await settle(ref, contentType, arrived, key)
    } finally {
      if (isSettling) release(arrived.place)
      // What has got a name stays, for whoever knows what became of it.
      await (isSettling ? arrived.staged.discard() : arrived.discard())
    }
  }
}

interface Heard {
  outcome: Recorded
  isLeft: boolean
}

const eventOf = (outcome: Recorded) => (outcome.kind === 'recorded' ? outcome.eventId : null)

interface Arrived {
  original: string
  place: Place
  staged: StagedObject
  discard(): Promise<void>
}

/** Chunks, until it is known that they come in vain. */
async function* unlessFailed(condition: Promise<unknown>, chunks: AsyncIterable<Uint8Array>) {
  let failed: { error: unknown } | undefined
  condition.catch((error) => {
    failed = { error }
  })
  for await (const chunk of chunks) {
    if (failed !== undefined) throw failed.error
    yield chunk
  }
}

const shapeOf = (
  file: {
    id: string
    zoneId: string
    filename: string
    path: string
    sizeBytes: number
    contentType: string
  },
  uploadedAt: Date,
): LandingFile => ({
  id: file.id,
  zone_id: file.zoneId,
  filename: file.filename,
  s3_path: file.path,
  size_bytes: file.sizeBytes,
  content_type: file.contentType,
  uploaded_at: uploadedAt.toISOString(),
})
