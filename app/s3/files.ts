// Files of the lake for holders of credentials.
import { createHash } from 'node:crypto'
import { isLakeFileKey } from '../../lake/iceberg/format/location.ts'
import type { Access } from '../core/access.ts'
import type { WorkFiles, WorkObject } from '../core/work.ts'
import { checkKey, InvalidKey } from '../objects/key.ts'
import type {
  ByteRange,
  ObjectBody,
  ObjectInfo,
  ObjectPage,
  ObjectStore,
  StoredObject,
} from '../objects/port.ts'
import type { S3Caller } from './authenticate.ts'
import type { TableGrant } from './credentials.ts'
import { accessDenied, S3Error } from './errors.ts'

/** An earlier version stored parts of uploads in `<directory of the table>/uploads/`. Nobody reads or lists them. */
const PART = /^_lake\/[^/]+\/[^/]+\/[^/]+\/uploads\//
export const isUploadPart = (key: string) => PART.test(key)

export interface FileDeps {
  objects: ObjectStore
  /** Whether the caller may still see the table of a grant. Asked for callers with restricted visibility only. */
  maySee(grant: TableGrant, access: Access): Promise<boolean>
  /** Throws when the branch of the credentials has ended. */
  mayUse(grant: TableGrant): Promise<void>
  /** The files of engines that work with a token. */
  works: WorkFiles<StoredObject>
}

/** A readable file: its object in the store, and its facts. */
interface ReadableFile extends ObjectInfo {
  object: WorkObject
}

/** A page of keys that begin with a prefix. */
export type ListFiles = (prefix: string, page: { limit: number; after?: string }) => Promise<ObjectPage>

export function makeLakeFiles({ objects, maySee, mayUse, works }: FileDeps) {
  /** Throws AccessDenied without telling whether the object exists. */
  async function objectOf({ grant }: S3Caller, access: Access, key: string): Promise<WorkObject> {
    if (isUploadPart(key)) throw accessDenied()
    if ('work' in grant) {
      checkPlainKey(key)
      const object = await works.object(grant.work, key)
      if (object === null) throw accessDenied()
      return object
    }
    checkLakeKey(key)
    if (!grant.prefixes.some((prefix) => key.startsWith(prefix))) throw accessDenied()
    await checkVisible(grant, access)
    return { key }
  }

  /** The branch and the rights may have ended since the credentials were issued. */
  async function checkVisible(grant: TableGrant, access: Access): Promise<void> {
    await mayUse(grant)
    if (!access.isAdmin && !(await maySee(grant, access))) throw accessDenied()
  }

  return {
    async describe(caller: S3Caller, access: Access, key: string): Promise<ReadableFile> {
      const object = await objectOf(caller, access, key)
      const found = await objects.head(object.key, object.version)
      if (found === null) throw noSuchKey()
      return { ...found, object }
    },

    /** Call `describe` first: it checks the rights. */
    async read({ key, version }: WorkObject, range: ByteRange | undefined): Promise<ObjectBody> {
      const found = await objects.get(key, version, range)
      if (found === null) throw noSuchKey()
      return found
    },

    /** Lists keys that begin with this prefix. Throws AccessDenied for a prefix that the credentials do not reach. */
    async lister({ grant }: S3Caller, access: Access, prefix: string): Promise<ListFiles> {
      if ('work' in grant) {
        checkPlainKey(`${prefix}a`)
        const found = await works.list(grant.work, prefix)
        if (found === null) throw accessDenied()
        return async (_, { after = '' }) => ({
          objects: found.filter(({ key }) => key > after),
          truncated: false,
        })
      }
      // A shorter prefix would name files of other tables.
      if (!grant.prefixes.some((allowed) => prefix.startsWith(allowed))) throw accessDenied()
      // The folder itself is valid, and its name must be a plain key.
      checkLakeKey(`${prefix}a`)
      await checkVisible(grant, access)
      return (from, page) => objects.list(from, page)
    },
  }
}

const noSuchKey = () => new S3Error('NoSuchKey', 'The specified key does not exist.')

/** Throws AccessDenied for a key that is no lake key, or that leads elsewhere after percent-decoding. */
export function checkLakeKey(key: string): void {
  checkPlainKey(key)
  if (!isLakeFileKey(key)) throw accessDenied()
}

function checkPlainKey(key: string): void {
  try {
    checkKey(key)
  } catch (error) {
    if (!(error instanceof InvalidKey)) throw error
    throw accessDenied()
  }
}

/**
 * The entity tag of a lake file. A lake file never changes, so its name and its size identify its bytes. The tag ends as that of a
 * multipart upload, so that no client takes it for an MD5.
 */
export function entityTagOf(key: string, size: number): string {
  return `${createHash('sha256').update(`${size} ${key}`).digest('hex').slice(0, 32)}-1`
}
