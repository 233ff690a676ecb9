// An upload has three parts: claim a name while the bytes arrive, receive the bytes, and record the file.
//
// The bytes are invisible until the object has its name. No pipeline reads the object until its row exists. If two uploads want
// one name, the first row wins. The claim stores an intent in the database. An upload may be killed when its object has a name
// but no row. A cleanup then finds the object by the intent (effects.ts). The transaction of the row also records an event, if
// triggers listen for the file.
import type { Sql, SqlTx } from '../../drizzle/client.ts'
import type { Clock } from '../core/clock.ts'
import { AppError, invalid } from '../core/errors.ts'
import type { NewId } from '../core/ids.ts'
import { limits } from '../core/limits.ts'
import { noZone, type ZoneRef, zonePrefix } from '../core/zone-ref.ts'
import { type IdempotencyKey, uploadOnce } from '../http/idempotency.ts'
import { type KeyOf, withoutKey } from '../http/idempotency-key.ts'
import type { IncomingFile, UploadForm } from '../http/upload-form.ts'
import type { ObjectStore, StagedObject } from '../objects/port.ts'
import { baseName, isControlFree, isPlainName } from '../wire/paths.ts'
import type { LandingFile } from './schema.ts'
import type { FileRow } from './store/files.ts'
import { forgetIntent, intend, type NewFile, type Recorded, recordFile } from './store/uploads.ts'

export interface UploadDeps {
  sql: Sql
  objects: ObjectStore
  clock: Clock
  newId: NewId
  /** A hint for the trigger evaluator. A sweep finds events whose hint was lost. */
  eventRecorded(): void
}

/** Seconds that a name may lie in the future, when files of one name arrive faster than one per second. */
const NAME_SECONDS = 3_600
/** Maximum number of later names that an upload tries after collisions with uploads on other replicas. */
const TRIES_MAX = 20
/** Maximum length of a name. Leaves room in a key of 1,024 bytes for the zone's prefix, the time, and the archive folder. */
const NAME_BYTES = 512

export function makeUpload(deps: UploadDeps) {
  const claims = makeClaims(deps)
  const receive = makeReceive(deps, claims)
  const record = makeRecord(deps, claims)

  /** Uploads a file and returns its record. Throws 404 if the zone does not exist or was deleted meanwhile. */
  return async function upload(
    ref: ZoneRef,
    form: UploadForm,
    keyOf: KeyOf = withoutKey,
    /** Rejects if the caller has lost the right to upload. Called after the bytes arrived, which can take minutes. */
    permit: () => Promise<void> = async () => {},
  ): Promise<LandingFile> {
    const {
      filename,
      contentType,
      sha256,
      stored: received,
    } = await form.receive((file) => receive(ref, file))
    let key: IdempotencyKey | null
    try {
      await permit()
      key = keyOf({ filename, contentType, sha256 })
    } catch (error) {
      await received.discard()
      throw error
    }
    try {
      return await record(ref, received, key)
    } finally {
      claims.release(received.claim)
      // Removes only an object without a name. The cleanup finds a named object without a row by its intent.
      await received.staged.discard()
    }
  }
}

/** The API representation of a landing file. */
export const landingFileOf = (
  file: NewFile & Pick<FileRow, 'uploadedAt'> & Partial<Pick<FileRow, 'archivedAt' | 'quarantinedAt'>>,
): LandingFile => ({
  id: file.id,
  zone_id: file.zoneId,
  filename: file.filename,
  s3_path: file.path,
  size_bytes: file.sizeBytes,
  content_type: file.contentType,
  uploaded_at: file.uploadedAt.toISOString(),
  status: statusOf({ archivedAt: file.archivedAt ?? null, quarantinedAt: file.quarantinedAt ?? null }),
})

/** Archiving wins: the rows of an archived file are in a table. */
export const statusOf = ({ archivedAt, quarantinedAt }: Pick<FileRow, 'archivedAt' | 'quarantinedAt'>) =>
  archivedAt !== null ? 'archived' : quarantinedAt !== null ? 'quarantined' : 'active'

/** A claimed name, and the intent to use it. */
interface Claim {
  zoneId: string
  filename: string
  path: string
  intentId: string
}
type Claims = ReturnType<typeof makeClaims>

function makeClaims({ sql, clock }: Pick<UploadDeps, 'sql' | 'clock'>) {
  /** Paths that uploads of this process are about to use. */
  const claimed = new Set<string>()

  /**
   * Claims the first name, counted from now, that no file and no upload of this process has. Throws 404 if the zone does not
   * exist.
   */
  async function claim(ref: ZoneRef, original: string): Promise<Claim> {
    const now = clock.now()
    // The search starts one second earlier, because the database's locale decides how the text after the digits sorts.
    const from = storedName('', new Date(now.getTime() - 1000))
    const prefix = zonePrefix(ref)
    let takenNames = new Set<string>()
    for (let second = 0; second < NAME_SECONDS; second++) {
      const filename = storedName(original, new Date(now.getTime() + second * 1000))
      const path = prefix + filename
      if (takenNames.has(filename) || claimed.has(path)) continue
      claimed.add(path)
      try {
        const { zoneId, intentId, ...others } = await intend(sql, ref, { path, filename, original, from })
        if (intentId !== null) return { zoneId, filename, path, intentId }
        claimed.delete(path)
        takenNames = new Set(others.occupiedPaths)
      } catch (error) {
        claimed.delete(path)
        throw error
      }
    }
    throw new AppError(429, 'RATE_LIMITED', `too many uploads of files named ${original}: retry in 60 s`, {
      headers: { 'retry-after': '60' },
    })
  }

  const release = ({ path }: Claim) => void claimed.delete(path)

  return {
    claim,
    release,
    /**
     * Releases the claim of an upload without an object. Removing the intent is optional, because an intent without an object
     * does nothing.
     */
    async abandon(claim: Claim) {
      release(claim)
      await forgetIntent(sql, claim.intentId).catch(() => {})
    },
  }
}

/** A file whose bytes have arrived, as an object without a name. */
interface Received {
  original: string
  contentType: string
  claim: Claim
  staged: StagedObject
  discard(): Promise<void>
}

/** Claims a name and receives the bytes at the same time. */
const makeReceive =
  ({ objects }: Pick<UploadDeps, 'objects'>, { claim, abandon }: Claims) =>
  async (ref: ZoneRef, { filename, contentType, body }: IncomingFile): Promise<Received> => {
    const original = originalName(filename)
    const claiming = claim(ref, original)
    const key = claiming.then(({ path }) => path)
    // Some stores do not await `key`; this avoids an unhandled rejection.
    key.catch(() => {})
    const staging = objects.stage(unlessFailed(claiming, body), {
      contentType,
      maxBytes: limits.uploadBytes,
      key,
    })
    try {
      const [claim, staged] = await Promise.all([claiming, staging])
      const discard = async () => void (await Promise.all([abandon(claim), staged.discard()]))
      return { original, contentType, claim, staged, discard }
    } catch (error) {
      await Promise.all([
        claiming.then(abandon, () => {}),
        staging.then((staged) => staged.discard()).catch(() => {}),
      ])
      throw error
    }
  }

/** A claim whose object exists. */
interface Named extends Claim {
  versionId: string
}

/**
 * Gives the object its name and records the file. If a file of another replica has that name, uses a later name. Each try is a
 * separate transaction; with a key, the answer may already be stored. The object moves between transactions. So the intent for
 * its new path survives a rollback.
 */
function makeRecord({ sql, objects, newId, eventRecorded }: UploadDeps, { claim, release }: Claims) {
  return async (
    ref: ZoneRef,
    { original, contentType, claim: claimed, staged, discard }: Received,
    key: IdempotencyKey | null,
  ): Promise<LandingFile> => {
    let namedObject: Named | undefined
    const named = async () => {
      namedObject ??= { ...claimed, ...(await staged.commit(claimed.path)) }
      return namedObject
    }

    for (let tryNumber = 1; ; tryNumber++) {
      const tried: { recorded?: Recorded } = {}
      const attempt = async (on: Sql | SqlTx) => {
        const { intentId, ...location } = await named()
        const file = { id: newId(), ...location, originalName: original, sizeBytes: staged.size, contentType }
        // If this call throws, the row may or may not exist. The cleanup by the intent handles both cases.
        const recorded = await recordFile(on, ref, intentId, file)
        tried.recorded = recorded
        return recorded.kind === 'recorded' ? landingFileOf({ ...file, ...recorded }) : null
      }
      const prepare = async () => void (await named())
      const answer = await (key === null ? attempt(sql) : uploadOnce(sql, key, attempt, prepare))
      if (answer !== null) {
        if (tried.recorded?.kind === 'recorded' && tried.recorded.hasEvent) eventRecorded()
        // Another request with the same key has finished first.
        if (tried.recorded === undefined) await (namedObject === undefined ? discard() : forget(namedObject))
        return answer
      }
      const previous = await named()
      if (tried.recorded?.kind !== 'taken' || tryNumber === TRIES_MAX) {
        await forget(previous)
        throw refusal(tried.recorded, ref, original)
      }
      namedObject = await moved(ref, original, previous, contentType)
    }
  }

  async function forget({ path, versionId, intentId }: Named) {
    await objects.deleteVersion(path, versionId)
    await forgetIntent(sql, intentId)
  }

  /** Copies the object to a later name and removes the original. */
  async function moved(ref: ZoneRef, original: string, from: Named, contentType: string): Promise<Named> {
    const to = await claim(ref, original)
    release(to)
    const source = await objects.get(from.path, from.versionId)
    if (source === null) throw new Error(`the object ${from.path} was deleted before its upload was recorded`)
    const { versionId } = await objects.put(to.path, source.body, { contentType, usesReserve: true })
    await forget(from)
    return { ...to, versionId }
  }
}

function refusal(recorded: Recorded | undefined, ref: ZoneRef, original: string): AppError {
  switch (recorded?.kind) {
    case 'gone':
      return noZone(ref)
    case 'late':
      return new AppError(503, 'UNAVAILABLE', `file ${original} was not recorded in time: upload it again`)
    default:
      return new AppError(
        409,
        'ALREADY_EXISTS',
        `too many concurrent uploads of files named ${original}: upload it again`,
      )
  }
}

/** Forwards chunks; throws as soon as `condition` has failed. */
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

/**
 * The base name of an uploaded file. Throws 400 for control characters, and for a name that is a path at any level of
 * percent-decoding.
 */
function originalName(name: string): string {
  const base = baseName(name)
  if (base === '') throw invalid('file', 'must have a file name')
  if (!isControlFree(base) || !base.isWellFormed())
    throw invalid('file', 'the file name must not contain control characters')
  if (!isPlainName(base)) throw invalid('file', 'the file name must not be an encoded path')
  if (Buffer.byteLength(base) > NAME_BYTES)
    throw invalid('file', `the file name must have at most ${NAME_BYTES} bytes`)
  return base
}

/** The stored name: `YYYYMMDD_HHMMSS_name`, in UTC. */
const storedName = (original: string, at: Date) =>
  `${at.toISOString().slice(0, 19).replaceAll(/[-:]/g, '').replace('T', '_')}_${original}`
