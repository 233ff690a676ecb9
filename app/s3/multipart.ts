/**
 * Uploads in parts. The parts of an incomplete upload are below `_uploads/<directory of the table>/`, outside of the lake. No
 * commit and no reader can name them. The reaper removes abandoned ones (uploads.ts). Any replica can continue an upload.
 */
import { LAKE_PREFIX, UPLOADS_PREFIX } from '../../lake/iceberg/format/location.ts'
import type { Access } from '../core/access.ts'
import type { NewId } from '../core/ids.ts'
import { limits } from '../core/limits.ts'
import type { Body, ObjectStore, StoredObject } from '../objects/port.ts'
import type { S3Caller } from './authenticate.ts'
import { S3Error, taken } from './errors.ts'
import { FILE_BYTES_MAX } from './new-files.ts'

/** Highest number of a part; the limit of S3. */
const PART_NUMBER_MAX = 10_000
const UPLOAD_ID = /^[0-9a-f-]{36}$/

/** A part in the order of a client: its number and its entity tag. */
export interface NamedPart {
  number: number
  etag: string
}

interface MultipartDeps {
  objects: ObjectStore
  newId: NewId
  /** The directory of the table that takes the file. Throws AccessDenied for a key that is not writable. */
  directoryFor(caller: S3Caller, access: Access, key: string): Promise<string>
  /** Stores a file and returns its entity tag. */
  store(caller: S3Caller, key: string, body: Body): Promise<string>
}

export function makeMultipart({ objects, newId, directoryFor, store }: MultipartDeps) {
  const uploadsFor = async (caller: S3Caller, access: Access, key: string): Promise<string> =>
    UPLOADS_PREFIX + (await directoryFor(caller, access, key)).slice(LAKE_PREFIX.length)

  /** The folder of an upload's parts. Throws NoSuchUpload for an upload of another key. */
  async function folderOf(uploads: string, key: string, uploadId: string): Promise<string> {
    const folder = `${uploads}${uploadId}/`
    const begun = UPLOAD_ID.test(uploadId) ? await objects.text(`${folder}${MARKER}`) : null
    if (begun?.text !== key)
      throw new S3Error('NoSuchUpload', 'The upload does not exist: it was completed or aborted.')
    return folder
  }

  return {
    /** Begins an upload in parts and returns its id. */
    async begin(caller: S3Caller, access: Access, key: string): Promise<string> {
      const uploads = await uploadsFor(caller, access, key)
      if ((await objects.head(key)) !== null) throw taken()
      const { truncated } = await objects.list(uploads, { limit: limits.listCap })
      if (truncated)
        throw new S3Error('SlowDown', `More than ${limits.listCap} parts of uploads to this table wait.`)
      const id = newId()
      await objects.put(`${uploads}${id}/${MARKER}`, new TextEncoder().encode(key), { usesReserve: false })
      return id
    },

    /** Stores a part and returns its entity tag. A part with the same number leaves the earlier one as it is. */
    async addPart(
      caller: S3Caller,
      access: Access,
      { key, uploadId, number }: { key: string; uploadId: string; number: string },
      body: Body,
    ): Promise<string> {
      const folder = await folderOf(await uploadsFor(caller, access, key), key, uploadId)
      if (!/^[1-9]\d{0,4}$/.test(number) || Number(number) > PART_NUMBER_MAX)
        throw new S3Error('InvalidArgument', `Part number must be from 1 to ${PART_NUMBER_MAX}`)
      // The tag ends as that of a multipart upload, so that no client takes it for an MD5.
      const etag = `${newId().replaceAll('-', '')}-1`
      const part = `${folder}${number.padStart(5, '0')}-${etag}`
      await objects.put(part, body, { maxBytes: FILE_BYTES_MAX, usesReserve: false })
      return etag
    },

    /** The parts of an upload that have arrived, in the order of their numbers. The latest part of each number counts. */
    async parts(caller: S3Caller, access: Access, key: string, uploadId: string): Promise<Part[]> {
      const found = await partsIn(
        objects,
        await folderOf(await uploadsFor(caller, access, key), key, uploadId),
      )
      const latest = new Map<number, Part>()
      for (const part of found) {
        const known = latest.get(part.number)
        if (known === undefined || known.modified <= part.modified) latest.set(part.number, part)
      }
      return [...latest.values()]
    },

    /** Stores the named parts as one file and returns its entity tag. */
    async complete(
      caller: S3Caller,
      access: Access,
      { key, uploadId, named }: { key: string; uploadId: string; named: readonly NamedPart[] },
    ): Promise<string> {
      const folder = await folderOf(await uploadsFor(caller, access, key), key, uploadId)
      const chosen = chosenParts(named, await partsIn(objects, folder))
      const etag = await store(caller, key, joined(objects, chosen))
      await objects.removeAll(folder)
      return etag
    },

    async abort(caller: S3Caller, access: Access, key: string, uploadId: string): Promise<void> {
      await objects.removeAll(await folderOf(await uploadsFor(caller, access, key), key, uploadId))
    },
  }
}

/** The object in an upload's folder that names the key of the upload. */
const MARKER = 'key'

/** A part that has arrived. Its name has its number and a tag that no other part has, so its bytes never change. */
interface Part extends StoredObject, NamedPart {}

async function partsIn(objects: ObjectStore, folder: string): Promise<Part[]> {
  const { objects: found } = await objects.list(folder, { limit: limits.listCap })
  return found.filter(({ key }) => !key.endsWith(MARKER)).map((part) => partOf(folder, part))
}

function partOf(folder: string, stored: StoredObject): Part {
  const name = stored.key.slice(folder.length)
  const at = name.indexOf('-')
  return { ...stored, number: Number(name.slice(0, at)), etag: name.slice(at + 1) }
}

function chosenParts(named: readonly NamedPart[], found: readonly Part[]): StoredObject[] {
  const known = new Map(found.map((part) => [`${part.number} ${part.etag}`, part]))
  let previous = 0
  return named.map(({ number, etag }) => {
    if (number <= previous)
      throw new S3Error('InvalidPartOrder', 'The list of parts was not in ascending order.')
    previous = number
    const part = known.get(`${number} ${etag}`)
    if (part === undefined)
      throw new S3Error('InvalidPart', `Part ${number} could not be found, or its entity tag does not match.`)
    return part
  })
}

async function* joined(objects: ObjectStore, parts: readonly StoredObject[]): AsyncGenerator<Uint8Array> {
  for (const { key } of parts) {
    const part = await objects.get(key)
    if (part === null) throw new S3Error('InvalidPart', 'A part was removed while the upload was completed.')
    yield* part.body
  }
}
