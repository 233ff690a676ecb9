// Samples are read by previews of zones without files. They have no rows; the object store lists them.
import type { Sql, SqlTx } from '../../drizzle/client.ts'
import { invalid, notFound } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import type { Page } from '../core/pagination.ts'
import { noZone, type ZoneRef, zonePrefix } from '../core/zone-ref.ts'
import { makeCommits } from '../files/commits.ts'
import { fileTypeOf } from '../files/file-type.ts'
import { everyObject } from '../files/listing.ts'
import { uploadOnce } from '../http/idempotency.ts'
import { type KeyOf, withoutKey } from '../http/idempotency-key.ts'
import type { UploadForm } from '../http/upload-form.ts'
import type { ObjectStore } from '../objects/port.ts'
import { baseName, filePath } from '../wire/paths.ts'
import type { SampleUploaded } from './schema.ts'
import { isZoneThere } from './store/zones.ts'

const folderOf = (ref: ZoneRef) => `${zonePrefix(ref)}_samples/`

/** The key of a sample. Throws 400 naming the field if the file name contains a folder. */
function sampleKey(ref: ZoneRef, filename: string, field: string): string {
  if (filename.includes('/')) throw invalid(field, 'must be a file name without a /')
  return filePath(folderOf(ref) + filename, field)
}

export function makeSamples({ sql, objects }: { sql: Sql; objects: ObjectStore }) {
  const commits = makeCommits({ sql, objects })

  /** Throws 404 if the zone does not exist. With a transaction, also locks the zone until the transaction ends. */
  async function requireZone(ref: ZoneRef, tx?: SqlTx) {
    if (!(await isZoneThere(sql, ref, tx))) throw noZone(ref)
  }

  return {
    async list(ref: ZoneRef, page: Page) {
      await requireZone(ref)
      const files = []
      let total = 0
      for await (const { key, size, modified } of everyObject(objects, folderOf(ref))) {
        total += 1
        if (total <= page.offset || files.length === page.limit) continue
        files.push({ path: key, size, modified: modified.toISOString(), type: fileTypeOf(key) })
      }
      return { files, total }
    },

    /** Stores the sample under its own name and replaces an older sample of that name. */
    async upload(
      ref: ZoneRef,
      form: UploadForm,
      keyOf: KeyOf = withoutKey,
      /** As for an upload to the zone: rejects if the caller has lost the right meanwhile. */
      permit: () => Promise<void> = async () => {},
    ): Promise<SampleUploaded> {
      await requireZone(ref)
      const keyFor = (filename: string) => {
        const name = baseName(filename)
        if (name === '') throw invalid('file', 'must have a file name')
        return sampleKey(ref, name, 'file')
      }
      const { filename, contentType, sha256, stored } = await form.receive((file) =>
        objects.stage(file.body, {
          contentType: file.contentType,
          maxBytes: limits.uploadBytes,
          key: keyFor(file.filename),
        }),
      )
      try {
        await permit()
        const path = keyFor(filename)
        const perform = async (tx: SqlTx): Promise<SampleUploaded> => {
          // The lock makes a concurrent deletion of the zone wait. After a deletion, this throws 404.
          await requireZone(ref, tx)
          await commits.commit(path, stored, { tx })
          return { path, filename: baseName(filename), size: stored.size, status: 'uploaded' }
        }
        const key = keyOf({ path, contentType, sha256 })
        if (key === null) return (await sql.begin(async (tx) => ({ body: await perform(tx) }))).body
        return await uploadOnce(sql, key, perform)
      } finally {
        await stored.discard()
      }
    },

    async remove(ref: ZoneRef, filename: string) {
      await requireZone(ref)
      if (!(await commits.remove(sampleKey(ref, filename, 'filename')))) throw notFound(`sample ${filename}`)
    },
  }
}
