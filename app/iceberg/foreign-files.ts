/**
 * Checks of what engines of users commit. An engine writes manifests and data files itself, so a commit may name any file. All
 * new files must be in the directory of the table, and the manifests must be readable.
 */
import type { Sql } from '../../drizzle/client.ts'
import { BadAvro } from '../../lake/iceberg/format/avro-schema.ts'
import type { DataFile, ManifestFile } from '../../lake/iceberg/format/data-file.ts'
import { BadLocation, keyIn, rootIn } from '../../lake/iceberg/format/location.ts'
import { entryBatches, manifestBatches } from '../../lake/iceberg/format/manifest.ts'
import {
  type FormatVersion,
  type TableMetadata,
  UnsupportedTable,
} from '../../lake/iceberg/format/metadata.ts'
import { type IsOwn, ownFiles } from '../../lake/iceberg/format/own-files.ts'
import type { Snapshot } from '../../lake/iceberg/format/wire.ts'
import { vectorOf } from '../../lake/iceberg/read/deletes.ts'
import { VECTOR_BYTES_MAX } from '../../lake/iceberg/read/deletion-vector.ts'
import { inTurns } from '../../lake/iceberg/read/in-turns.ts'
import { liveManifestsOf, makeManifestReader } from '../../lake/iceberg/read/scan.ts'
import { bytesOf } from '../objects/body.ts'
import type { ObjectStore } from '../objects/port.ts'
import { badRequest } from './errors.ts'
import { NamedFiles } from './named-files.ts'

/** A manifest of 10,000 files takes some ten megabytes. */
const MANIFEST_BYTES_MAX = 64 * 1_048_576
/** New manifests of one commit. An engine writes one for each of its tasks. */
const NEW_MANIFESTS_MAX = 1_000
const READS_AT_ONCE = 4
/** A Puffin file begins with a magic number. */
const PUFFIN_MAGIC_BYTES = 4
/** Length, magic number, number of bitmaps, and checksum. */
const VECTOR_BYTES_MIN = 20

interface ForeignCommit {
  /** Null: the commit creates the table. */
  base: TableMetadata | null
  next: TableMetadata
}

/**
 * Checks the snapshots of `next` that `base` does not have, and returns the keys of their files. Throws 400 for a file outside of
 * the table's directory, and for one that is not stored.
 */
export async function checkNewSnapshots(
  { sql, objects }: { sql: Sql; objects: ObjectStore },
  { base, next }: ForeignCommit,
): Promise<string[]> {
  const existing = new Map(base?.snapshots.map((snapshot) => [snapshot['snapshot-id'], snapshot]))
  const added = next.snapshots.filter((snapshot) => !existing.has(snapshot['snapshot-id']))
  if (added.length === 0) return []
  const files = new TableFiles(objects, next)
  const known = new Set<string>()
  const parents = new Set([base?.['current-snapshot-id'], ...added.map((each) => each['parent-snapshot-id'])])
  for (const id of parents) {
    const parent = id === undefined ? undefined : existing.get(id)
    if (parent !== undefined)
      for (const manifest of await files.manifests(parent)) known.add(identityOf(manifest))
  }
  const specs = new Set(next['partition-specs'].map((spec) => spec['spec-id']))
  const version = next['format-version']
  for (const snapshot of added) {
    files.requireOwn('manifest-list', snapshot['manifest-list'])
    files.named.addRead(snapshot['manifest-list'])
    const manifests = (await files.manifests(snapshot)).filter((manifest) => !known.has(identityOf(manifest)))
    if (manifests.length > NEW_MANIFESTS_MAX)
      throw badRequest(`manifest-list: has ${manifests.length} new manifests, more than ${NEW_MANIFESTS_MAX}`)
    for (let from = 0; from < manifests.length; from += READS_AT_ONCE)
      await Promise.all(
        manifests
          .slice(from, from + READS_AT_ONCE)
          .map((manifest) => files.checkManifest(manifest, { specs, version })),
      )
    for (const manifest of manifests) known.add(identityOf(manifest))
    await checkDeletes(files, next, snapshot)
  }
  await files.named.checkStored(sql, objects)
  return files.named.keys
}

/** Throws 400 for delete files that no reader could apply, such as two deletion vectors of one data file. */
async function checkDeletes(files: TableFiles, next: TableMetadata, snapshot: Snapshot): Promise<void> {
  const { entries } = makeManifestReader((location) => files.read('manifest', location))
  const manifests = (each: Snapshot) => files.manifests(each)
  try {
    await liveManifestsOf(next, snapshot['snapshot-id'], { manifests, entries })
  } catch (error) {
    if (error instanceof UnsupportedTable || error instanceof BadAvro)
      throw badRequest(`delete file: ${error.message}`)
    throw error
  }
}

/** An entry of a list that describes a known manifest in another way is checked like a new one. */
const identityOf = ({ location, sizeBytes, specId, content }: ManifestFile) =>
  JSON.stringify([location, sizeBytes, specId, content])

class TableFiles {
  readonly named = new NamedFiles()
  readonly #objects: ObjectStore
  readonly #root: string
  readonly #location: string
  readonly #isInFolders: IsOwn
  /** Manifests by the location of their list. */
  readonly #lists = new Map<string, Promise<ManifestFile[]>>()

  constructor(objects: ObjectStore, metadata: TableMetadata) {
    this.#objects = objects
    this.#root = rootIn(metadata.location)
    this.#location = metadata.location
    this.#isInFolders = ownFiles(metadata)
  }

  /** Throws 400 for a file outside of `data/` and `metadata/` of the table's directories. */
  requireOwn(what: string, location: string): void {
    if (!this.#isOwn(location))
      throw badRequest(
        `${what}: ${JSON.stringify(location)} is not a file in the directory of the table: engines write to data/ and metadata/ of ${this.#location}`,
      )
  }

  #isOwn(location: string): boolean {
    try {
      // `keyIn` refuses keys that lead elsewhere at a level of decoding.
      keyIn(location)
      return location.startsWith(this.#root) && this.#isInFolders(location)
    } catch (error) {
      if (error instanceof BadLocation) return false
      throw error
    }
  }

  manifests({ 'manifest-list': location }: Snapshot): Promise<ManifestFile[]> {
    const read = async () => readable(location, manifestBatches(await this.read('manifest-list', location)))
    const manifests = this.#lists.get(location) ?? read()
    this.#lists.set(location, manifests)
    return manifests
  }

  async checkManifest(
    manifest: ManifestFile,
    { specs, version }: { specs: ReadonlySet<number>; version: FormatVersion },
  ): Promise<void> {
    const { location, sizeBytes, specId } = manifest
    this.requireOwn('manifest', location)
    if (!specs.has(specId)) throw badRequest(`manifest: ${location} has the unknown partition spec ${specId}`)
    const bytes = await this.read('manifest', location)
    if (bytes.byteLength !== sizeBytes)
      throw badRequest(`manifest: ${location} has ${bytes.byteLength} bytes, but its list says ${sizeBytes}`)
    this.named.addRead(location)
    const entries = await readable(location, entryBatches(bytes, manifest))
    for (const { status, file } of entries) {
      if (status === 'deleted') continue
      this.requireOwn('data file', file.location)
      this.named.addSized(file.location, file.sizeBytes)
      if (version >= 3 && file.format === 'PUFFIN') this.#checkVector(file)
      else if (file.format !== 'PARQUET')
        throw badRequest(`data file: ${file.location} has the format ${file.format}: only PARQUET is read`)
      else if (version >= 3 && status === 'added' && file.content === 'position-deletes')
        throw badRequest(
          `delete file: ${file.location} lists positions: format version 3 requires deletion vectors`,
        )
    }
  }

  #checkVector(file: DataFile): void {
    const vector = vectorOf(file)
    if (vector === undefined)
      throw badRequest(
        `delete file: ${file.location} is no deletion vector: content, referenced_data_file, content_offset or content_size_in_bytes is missing`,
      )
    this.requireOwn('referenced_data_file', vector.dataFile)
    const end = vector.offset + vector.sizeBytes
    if (vector.sizeBytes > VECTOR_BYTES_MAX)
      throw badRequest(
        `delete file: the deletion vector in ${file.location} has ${vector.sizeBytes} bytes, more than ${VECTOR_BYTES_MAX}`,
      )
    if (vector.offset < PUFFIN_MAGIC_BYTES || vector.sizeBytes < VECTOR_BYTES_MIN || !(end <= file.sizeBytes))
      throw badRequest(
        `delete file: the deletion vector at ${vector.offset} with ${vector.sizeBytes} bytes is not in ${file.location}, which has ${file.sizeBytes} bytes`,
      )
  }

  async read(what: string, location: string): Promise<Uint8Array> {
    const key = keyIn(location)
    const found = await this.#objects.head(key)
    if (found === null) throw badRequest(`${what}: ${location} does not exist`)
    if (found.size > MANIFEST_BYTES_MAX)
      throw badRequest(`${what}: ${location} has ${found.size} bytes, more than ${MANIFEST_BYTES_MAX}`)
    const bytes = await bytesOf(this.#objects, key)
    if (bytes === null) throw badRequest(`${what}: ${location} does not exist`)
    return bytes
  }
}

async function readable<T>(location: string, batches: Iterable<readonly T[]>): Promise<T[]> {
  try {
    return await inTurns(batches)
  } catch (error) {
    if (error instanceof BadAvro) throw badRequest(`${location}: ${error.message}`)
    throw error
  }
}
