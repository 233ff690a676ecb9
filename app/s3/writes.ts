// New files of the lake. A file is written once: an existing key is refused, and nothing is ever deleted.
import type { Sql } from '../../drizzle/client.ts'
import type { Access } from '../core/access.ts'
import type { NewId } from '../core/ids.ts'
import { limits } from '../core/limits.ts'
import type { WorkFiles } from '../core/work.ts'
import type { Body, ObjectStore, StoredObject } from '../objects/port.ts'
import type { S3Caller } from './authenticate.ts'
import type { TableGrant } from './credentials.ts'
import { accessDenied, S3Error } from './errors.ts'
import { checkLakeKey, entityTagOf } from './files.ts'
import { alone } from './store.ts'

/** Maximum size of a file, and of a part. Engines split their output long before this limit. */
const FILE_BYTES_MAX = 1_073_741_824
/** Highest number of a part; the limit of S3. */
const PART_NUMBER_MAX = 10_000
/**
 * Engines put partition values into paths, percent-encoded or not. A tilde marks files of the disk store, and the other excluded
 * characters are patterns for the engine that reads the file.
 */
const WRITABLE = /^(data|metadata)(\/[^/~*?[\]{}]+)+$/
/** The limit of file systems for a name. */
const SEGMENT_BYTES_MAX = 255
const UPLOAD_ID = /^[0-9a-f-]{36}$/

export interface WriteDeps {
  sql: Sql
  objects: ObjectStore
  newId: NewId
  /** Whether the caller may still write the table of a grant. Asked for callers with restricted visibility only. */
  mayWrite(grant: TableGrant, access: Access): Promise<boolean>
  /** The directories of engines that work with a token. */
  works: Pick<WorkFiles<StoredObject>, 'directory'>
}

/** A part in the order of a client: its number and its entity tag. */
export interface NamedPart {
  number: number
  etag: string
}

export type LakeWrites = ReturnType<typeof makeLakeWrites>

/**
 * The parts of an incomplete upload are lake files below `<directory of the table>/uploads/`. No table refers to them, so the
 * duty for unreferenced files removes abandoned ones (catalog/unreferenced-files.ts). Any replica can continue an upload.
 */
export function makeLakeWrites({ sql, objects, newId, mayWrite, works }: WriteDeps) {
  /** The directory that takes the parts of uploads. Throws AccessDenied for a key that is not writable. */
  async function uploadsFor({ grant }: S3Caller, access: Access, key: string): Promise<string> {
    checkLakeKey(key)
    const write = 'work' in grant ? await works.directory(grant.work, key) : grant.write
    if (write === null || !key.startsWith(write) || !WRITABLE.test(key.slice(write.length)))
      throw accessDenied()
    if (key.split('/').some((segment) => Buffer.byteLength(segment) > SEGMENT_BYTES_MAX))
      throw new S3Error('KeyTooLongError', 'A name between two slashes is too long.')
    if (!('work' in grant) && !access.isAdmin && !(await mayWrite(grant, access))) throw accessDenied()
    return `${write}uploads/`
  }

  /** The lock covers only the end of the write. Otherwise two replicas could both find the key absent. */
  async function store(key: string, body: Body): Promise<string> {
    await checkAbsent(key)
    const staged = await objects.stage(body, { key, maxBytes: FILE_BYTES_MAX, usesReserve: false })
    try {
      const wasAlone = await alone(sql, key, async () => {
        await checkAbsent(key)
        await staged.commit(key)
      })
      if (!wasAlone)
        throw new S3Error('OperationAborted', 'Another request is storing an object under this key.')
      return entityTagOf(key, staged.size)
    } finally {
      await staged.discard()
    }
  }

  async function checkAbsent(key: string): Promise<void> {
    if ((await objects.head(key)) !== null)
      throw new S3Error(
        'PreconditionFailed',
        'The key exists, and files of the lake never change: use a new name.',
      )
  }

  /** The folder of an upload's parts. Throws NoSuchUpload for an upload of another key. */
  async function folderOf(uploads: string, key: string, uploadId: string): Promise<string> {
    const folder = `${uploads}${uploadId}/`
    const begun = UPLOAD_ID.test(uploadId) ? await objects.text(`${folder}${MARKER}`) : null
    if (begun?.text !== key)
      throw new S3Error('NoSuchUpload', 'The upload does not exist: it was completed or aborted.')
    return folder
  }

  async function partsIn(folder: string): Promise<Map<number, StoredObject>> {
    const { objects: found } = await objects.list(folder, { limit: PART_NUMBER_MAX })
    return new Map(
      found
        .filter(({ key }) => !key.endsWith(MARKER))
        .map((part) => [Number(part.key.slice(folder.length)), part]),
    )
  }

  return {
    /** Stores a new file and returns its entity tag. */
    async put(caller: S3Caller, access: Access, key: string, body: Body): Promise<string> {
      await uploadsFor(caller, access, key)
      return store(key, body)
    },

    /** Begins an upload in parts and returns its id. */
    async begin(caller: S3Caller, access: Access, key: string): Promise<string> {
      const uploads = await uploadsFor(caller, access, key)
      await checkAbsent(key)
      const { truncated } = await objects.list(uploads, { limit: limits.listCap })
      if (truncated)
        throw new S3Error('SlowDown', `More than ${limits.listCap} parts of uploads to this table wait.`)
      const id = newId()
      await objects.put(`${uploads}${id}/${MARKER}`, new TextEncoder().encode(key), { usesReserve: false })
      return id
    },

    /** Stores a part and returns its entity tag. A part with the same number replaces the earlier one. */
    async addPart(
      caller: S3Caller,
      access: Access,
      { key, uploadId, number }: { key: string; uploadId: string; number: string },
      body: Body,
    ): Promise<string> {
      const folder = await folderOf(await uploadsFor(caller, access, key), key, uploadId)
      if (!/^[1-9]\d{0,4}$/.test(number) || Number(number) > PART_NUMBER_MAX)
        throw new S3Error('InvalidArgument', `Part number must be from 1 to ${PART_NUMBER_MAX}`)
      const part = `${folder}${number.padStart(5, '0')}`
      const { size } = await objects.put(part, body, { maxBytes: FILE_BYTES_MAX, usesReserve: false })
      return entityTagOf(part, size)
    },

    /** The parts of an upload that have arrived, by their numbers. */
    async parts(caller: S3Caller, access: Access, key: string, uploadId: string) {
      const found = await partsIn(await folderOf(await uploadsFor(caller, access, key), key, uploadId))
      return [...found].map(([number, part]) => ({ number, ...part, etag: entityTagOf(part.key, part.size) }))
    },

    /** Stores the named parts as one file and returns its entity tag. */
    async complete(
      caller: S3Caller,
      access: Access,
      { key, uploadId, named }: { key: string; uploadId: string; named: readonly NamedPart[] },
    ): Promise<string> {
      const folder = await folderOf(await uploadsFor(caller, access, key), key, uploadId)
      const chosen = chosenParts(named, await partsIn(folder))
      const etag = await store(key, joined(objects, chosen))
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

function chosenParts(named: readonly NamedPart[], found: ReadonlyMap<number, StoredObject>): StoredObject[] {
  let previous = 0
  return named.map(({ number, etag }) => {
    if (number <= previous)
      throw new S3Error('InvalidPartOrder', 'The list of parts was not in ascending order.')
    previous = number
    const part = found.get(number)
    if (part === undefined || entityTagOf(part.key, part.size) !== etag)
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
