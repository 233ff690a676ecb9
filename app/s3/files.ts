// Files of the lake for holders of credentials.
import { createHash } from 'node:crypto'
import { isLakeFileKey } from '../../lake/iceberg/format/location.ts'
import type { Access } from '../core/access.ts'
import { checkKey, InvalidKey } from '../objects/key.ts'
import type { ByteRange, ObjectBody, ObjectInfo, ObjectStore } from '../objects/port.ts'
import type { S3Caller } from './authenticate.ts'
import type { Grant } from './credentials.ts'
import { accessDenied, S3Error } from './errors.ts'

/** Parts of incomplete uploads are in `<directory of the table>/uploads/`. Nobody reads or lists them. */
const PART = /^_lake\/[^/]+\/[^/]+\/[^/]+\/uploads\//
export const isUploadPart = (key: string) => PART.test(key)

export interface FileDeps {
  objects: ObjectStore
  /** Whether the caller may still see the table of a grant. Asked for callers with restricted visibility only. */
  maySee(grant: Grant, access: Access): Promise<boolean>
}

export type LakeFiles = ReturnType<typeof makeLakeFiles>

export function makeLakeFiles({ objects, maySee }: FileDeps) {
  /** Throws AccessDenied without telling whether the object exists. */
  async function checkReadable({ grant }: S3Caller, access: Access, key: string): Promise<void> {
    checkLakeKey(key)
    if (isUploadPart(key) || !grant.prefixes.some((prefix) => key.startsWith(prefix))) throw accessDenied()
    await checkVisible(grant, access)
  }

  /** Rights may have ended since the credentials were issued. */
  async function checkVisible(grant: Grant, access: Access): Promise<void> {
    if (!access.isAdmin && !(await maySee(grant, access))) throw accessDenied()
  }

  return {
    checkVisible,

    async describe(caller: S3Caller, access: Access, key: string): Promise<ObjectInfo> {
      await checkReadable(caller, access, key)
      const found = await objects.head(key)
      if (found === null) throw noSuchKey()
      return found
    },

    /** Call `describe` first: it checks the rights. */
    async read(key: string, range: ByteRange | undefined): Promise<ObjectBody> {
      const found = await objects.get(key, undefined, range)
      if (found === null) throw noSuchKey()
      return found
    },
  }
}

const noSuchKey = () => new S3Error('NoSuchKey', 'The specified key does not exist.')

/** Throws AccessDenied for a key that is no lake key, or that leads elsewhere after percent-decoding. */
export function checkLakeKey(key: string): void {
  try {
    checkKey(key)
  } catch (error) {
    if (!(error instanceof InvalidKey)) throw error
    throw accessDenied()
  }
  if (!isLakeFileKey(key)) throw accessDenied()
}

/**
 * The entity tag of a lake file. A lake file never changes, so its name and its size identify its bytes. The tag ends as that of a
 * multipart upload, so that no client takes it for an MD5.
 */
export function entityTagOf(key: string, size: number): string {
  return `${createHash('sha256').update(`${size} ${key}`).digest('hex').slice(0, 32)}-1`
}
