// New files of the lake. A file is written once: its bytes never change. Only a file that no commit names can be removed.

import type { Sql } from '../../drizzle/client.ts'
import { localNameOf } from '../../lake/local-names.ts'
import type { Access } from '../core/access.ts'
import type { NewId } from '../core/ids.ts'
import type { WorkFiles } from '../core/work.ts'
import { chunksOf } from '../objects/body.ts'
import type { Body, ObjectStore, StoredObject } from '../objects/port.ts'
import type { S3Caller } from './authenticate.ts'
import type { TableGrant } from './credentials.ts'
import { accessDenied, S3Error, taken } from './errors.ts'
import { checkLakeKey, entityTagOf } from './files.ts'
import { makeMultipart } from './multipart.ts'
import { storeNew } from './new-files.ts'
import { markRemoved, recordUpload, uploadOf } from './store.ts'

/** Engines put partition values into paths, percent-encoded or not. */
const WRITABLE = /^(data|metadata)(\/[^/]+)+$/
/** The limit of file systems for a name. */
const SEGMENT_BYTES_MAX = 255
const NO_DELETE =
  'Access Denied: a commit names the file, or another branch stored it. Files of the lake are removed by its own retention'

export interface WriteDeps {
  sql: Sql
  objects: ObjectStore
  newId: NewId
  /** Whether the caller may still write the table of a grant. Asked for callers with restricted visibility only. */
  mayWrite(grant: TableGrant, access: Access): Promise<boolean>
  /** Whether files may be stored below the namespace of a grant. */
  takesFiles(grant: TableGrant): Promise<boolean>
  /** Throws when the branch of the credentials has ended. */
  mayUse(grant: TableGrant): Promise<void>
  /** The directories of engines that work with a token. */
  works: Pick<WorkFiles<StoredObject>, 'directory'>
}

export function makeLakeWrites({ sql, objects, newId, mayWrite, takesFiles, mayUse, works }: WriteDeps) {
  /** The directory of the table that takes the file, with a slash at its end. Throws AccessDenied for a key that is not writable. */
  async function directoryFor({ grant }: S3Caller, access: Access, key: string): Promise<string> {
    checkLakeKey(key)
    const write = 'work' in grant ? await works.directory(grant.work, key) : grant.write
    if (write === null || !key.startsWith(write) || !WRITABLE.test(key.slice(write.length)))
      throw accessDenied()
    if (
      localNameOf(key)
        .split('/')
        .some((segment) => Buffer.byteLength(segment) > SEGMENT_BYTES_MAX)
    )
      throw new S3Error('KeyTooLongError', 'A name between two slashes is too long.')
    if (!('work' in grant)) {
      const [hasPlace] = await Promise.all([takesFiles(grant), mayUse(grant)])
      if (!access.isAdmin && !(await mayWrite(grant, access))) throw accessDenied()
      if (!hasPlace) throw accessDenied(`Access Denied: namespace ${grant.table.namespace} does not exist`)
    }
    return write
  }

  /** Stores a file. The uploads of an engine with a token belong to no user, so that only retention removes them. */
  async function store({ grant }: S3Caller, key: string, body: Body): Promise<string> {
    const branch = 'work' in grant ? undefined : grant.view.branch
    const stored = await storeNew({ sql, objects }, { key, body }, async (tx, file) => {
      if (branch !== undefined) await recordUpload(tx, { ...file, branch })
    })
    if (stored.kind === 'busy')
      throw new S3Error(
        'SlowDown',
        'Another request is storing an object under this key: repeat the request.',
      )
    if (stored.kind === 'taken') throw taken()
    return entityTagOf(key, stored.size)
  }

  /** Some clients make the folder of a removed file again, by an empty object. Folders need no object, so nothing is stored. */
  async function putFolder(caller: S3Caller, access: Access, key: string, body: Body): Promise<string> {
    await directoryFor(caller, access, `${key}a`)
    for await (const chunk of chunksOf(body)) if (chunk.byteLength > 0) throw accessDenied()
    return entityTagOf(key, 0)
  }

  return {
    ...makeMultipart({ objects, newId, directoryFor, store }),

    /** Stores a new file and returns its entity tag. A repeated request with the same bytes gets the same answer. */
    async put(caller: S3Caller, access: Access, key: string, body: Body): Promise<string> {
      if (key.endsWith('/')) return putFolder(caller, access, key, body)
      await directoryFor(caller, access, key)
      return store(caller, key, body)
    },

    /** Removes a file that the caller's branch stored and that no commit names. A missing file is no error. */
    async remove(caller: S3Caller, access: Access, key: string): Promise<void> {
      await directoryFor(caller, access, key)
      const { grant } = caller
      if (!('work' in grant) && (await markRemoved(sql, key, grant.view.branch))) return objects.delete(key)
      // After `markRemoved`, because a commit may name the file meanwhile.
      if ((await uploadOf(sql, key)) !== null || (await objects.head(key)) !== null)
        throw accessDenied(NO_DELETE)
    },
  }
}
