// The files that a commit of an engine names for the first time. Each of them is stored completely before the commit.
import type { Sql, SqlTx } from '../../drizzle/client.ts'
import { keyIn } from '../../lake/iceberg/format/location.ts'
import { CommitFailed } from '../../lake/iceberg/format/requirements.ts'
import { mapBounded } from '../../lake/iceberg/read/scan.ts'
import type { ObjectStore } from '../objects/port.ts'
import { forgetUploads, sizesOfUploads } from '../s3/uploads.ts'
import { badRequest } from './errors.ts'

/** Data files of a commit. Their sizes are what the commit says. */
export class NamedFiles {
  readonly #sizes = new Map<string, number>()
  readonly #others = new Set<string>()

  /** A file that was read, so that its size is known. */
  addRead(location: string): void {
    this.#others.add(keyIn(location))
  }

  /** Throws 400 for a file that the commit names with two sizes. */
  addSized(location: string, sizeBytes: number): void {
    const key = keyIn(location)
    if ((this.#sizes.get(key) ?? sizeBytes) !== sizeBytes)
      throw badRequest(`data file: ${location} is named with two sizes`)
    this.#sizes.set(key, sizeBytes)
  }

  get keys(): string[] {
    return [...new Set([...this.#sizes.keys(), ...this.#others])]
  }

  /** Throws 400 for a file that is not stored, or not with the size that the commit says. */
  async checkStored(sql: Sql, objects: ObjectStore): Promise<void> {
    const uploaded = await sizesOfUploads(sql, [...this.#sizes.keys()])
    await mapBounded([...this.#sizes], async ([key, said]) => {
      // Files of runs, and files that an earlier commit named, have no upload.
      const size = uploaded.get(key) ?? (await objects.head(key))?.size
      if (size === undefined)
        throw badRequest(`data file: ${key} does not exist: upload it before the commit`)
      if (size !== said)
        throw badRequest(`data file: ${key} has ${size} bytes, but its manifest says ${said}`)
    })
  }
}

/** The files of a commit can no longer be removed. Throws 409 for a file that was removed while the commit was checked. */
export async function nameFiles(tx: SqlTx, keys: readonly string[]): Promise<void> {
  const removed = await forgetUploads(tx, keys)
  if (removed !== null) throw new CommitFailed(`file ${removed} was removed: write it again under a new name`)
}
