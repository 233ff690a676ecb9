// Finds the data files of a snapshot.

import assert from 'node:assert/strict'
import { LRUCache } from 'lru-cache'
import { BadAvro } from '../format/avro-schema.ts'
import type { DataFile, ManifestEntry, ManifestFile } from '../format/data-file.ts'
import { entryBatches, manifestBatches } from '../format/manifest.ts'
import { snapshotById, type TableMetadata, UnsupportedTable } from '../format/metadata.ts'
import { type IsOwn, ownFiles } from '../format/own-files.ts'
import type { Snapshot } from '../format/wire.ts'
import { type DeletesOf, deletesIndex, type RowDeletes, type SpecEntry } from './deletes.ts'
import { inTurns } from './in-turns.ts'
import type { Lineage } from './lineage.ts'

/** Reads a whole object of the lake by its location. */
type ReadObject = (location: string) => Promise<Uint8Array>

/** The largest number of parallel reads. */
export const READS_AT_ONCE_LIMIT = 16
/** The number of cached column metrics, about 300 bytes each. The weight of a file is its number of columns. */
const CACHED_METRICS_LIMIT = 100_000

/** Reads manifest lists and manifests. Manifests never change, so they are cached. One reader serves many tables. */
export interface ManifestReader {
  manifests(snapshot: Snapshot): Promise<ManifestFile[]>
  /** Returns all entries, including deleted ones. */
  entries(manifest: ManifestFile): Promise<readonly ManifestEntry[]>
}

export function makeManifestReader(
  readObject: ReadObject,
  cachedMetricsLimit = CACHED_METRICS_LIMIT,
): ManifestReader {
  const cache = new LRUCache<string, readonly ManifestEntry[]>({
    maxSize: cachedMetricsLimit,
    sizeCalculation: weightOf,
  })
  return {
    manifests: async (snapshot) => inTurns(manifestBatches(await readObject(snapshot['manifest-list']))),
    entries: async (manifest) => {
      // Row ids are inherited from the list, so two lists may give them different ids.
      const key = `${manifest.location} ${manifest.firstRowId}`
      const cached = cache.get(key)
      if (cached) return cached
      const bytes = await readObject(manifest.location)
      // A manifest that is cut off between two blocks is still a valid Avro file, but with fewer rows.
      if (bytes.length !== manifest.sizeBytes)
        throw new BadAvro(
          `the manifest ${manifest.location} has ${bytes.length} bytes instead of ${manifest.sizeBytes}`,
        )
      const entries = await inTurns(entryBatches(bytes, manifest))
      cache.set(key, entries)
      return entries
    },
  }
}

/** A reader that also finds objects that are not stored yet. */
export function readerWith(
  objects: readonly { location: string; bytes: Uint8Array }[],
  reader: ManifestReader,
): ManifestReader {
  const bytesOf = new Map(objects.map(({ location, bytes }) => [location, bytes]))
  const unstored = makeManifestReader(async (location) => {
    const bytes = bytesOf.get(location)
    assert(bytes !== undefined, `${location} is not among the new objects`)
    return bytes
  })
  const readerOf = (location: string) => (bytesOf.has(location) ? unstored : reader)
  return {
    manifests: (snapshot) => readerOf(snapshot['manifest-list']).manifests(snapshot),
    entries: (manifest) => readerOf(manifest.location).entries(manifest),
  }
}

const weightOf = (entries: readonly ManifestEntry[]): number =>
  entries.reduce((sum, entry) => sum + 1 + entry.file.columns.size, 1)

/** A data file of a snapshot. */
export interface LiveFile extends DataFile {
  /** Absent when no row of the file is deleted. */
  readonly deletes?: RowDeletes
  /** Absent before format version 3. */
  readonly lineage?: Lineage
}

/**
 * The data files of a snapshot, in the order in which they were added.
 * @throws UnsupportedTable for formats other than Parquet, for deletes that cannot be applied, and for files of other tables
 */
export async function dataFilesOf(
  metadata: TableMetadata,
  snapshotId: bigint,
  reader: ManifestReader,
): Promise<LiveFile[]> {
  const live = await liveManifestsOf(metadata, snapshotId, reader)
  return (await tableFilesOf(live, reader)).map(({ file }) => file)
}

/** The manifests of a snapshot that have live data files, and its row-level deletes. */
interface LiveManifests {
  readonly data: readonly ManifestFile[]
  readonly deletesOf: DeletesOf
  readonly isOwn: IsOwn
}

/** @throws UnsupportedTable for deletes that cannot be applied, and for files of other tables */
export async function liveManifestsOf(
  metadata: TableMetadata,
  snapshotId: bigint,
  reader: ManifestReader,
): Promise<LiveManifests> {
  const snapshot = snapshotById(metadata, snapshotId)
  if (!snapshot) throw new UnsupportedTable(`the table has no snapshot ${snapshotId}`)
  const isOwn = ownFiles(metadata)
  requireOwn(isOwn, snapshot['manifest-list'])
  const manifests = (await reader.manifests(snapshot)).filter((manifest) => liveFiles(manifest) > 0)
  for (const { location } of manifests) requireOwn(isOwn, location)
  const deletes = manifests.filter(({ content }) => content === 'deletes')
  return {
    data: manifests.filter(({ content }) => content === 'data'),
    deletesOf: deletesIndex(await specEntries(deletes, reader, isOwn), metadata),
    isOwn,
  }
}

/** Other engines write manifests themselves. A file of another table may not be read by the readers of this one. */
function requireOwn(isOwn: IsOwn, location: string): void {
  if (!isOwn(location))
    throw new UnsupportedTable(
      `the file ${location} is not in data/ or metadata/ of its table: restore an earlier state of the table`,
    )
}

/**
 * The data manifests with the live files from `offset` to `offset + limit`, and the number of live files before these manifests.
 * Manifests state how many files they have, so the others need not be read.
 */
export function manifestsOfPage(
  data: readonly ManifestFile[],
  { offset, limit }: { offset: number; limit: number },
): { manifests: ManifestFile[]; filesBefore: number } {
  const manifests: ManifestFile[] = []
  let filesBefore = 0
  let end = 0
  for (const manifest of data) {
    const start = end
    end += liveFiles(manifest)
    if (end <= offset) filesBefore = end
    else if (start < offset + limit) manifests.push(manifest)
  }
  return { manifests, filesBefore }
}

/** A live data file with its manifest and its partition spec. */
export interface TableFile {
  /** The location of the file's manifest. */
  readonly manifest: string
  readonly specId: number
  readonly file: LiveFile
}

/** The live files of manifests. @throws UnsupportedTable for formats other than Parquet, and for files of other tables */
export async function tableFilesOf(
  { data, deletesOf, isOwn }: LiveManifests,
  reader: ManifestReader,
): Promise<TableFile[]> {
  const entries = await specEntries(data, reader, isOwn)
  const files = entries.map((each): TableFile => {
    const deletes = deletesOf(each)
    const { manifest, specId, entry } = each
    const lineage = lineageOf(entry)
    const file = lineage ? { ...entry.file, lineage } : entry.file
    return { manifest, specId, file: deletes ? { ...file, deletes } : file }
  })
  const other = files.find(({ file }) => file.format !== 'PARQUET')
  if (other)
    throw new UnsupportedTable(
      `${other.file.format} files are not supported, only Parquet: ${other.file.location}`,
    )
  return files
}

const lineageOf = ({ file: { firstRowId }, sequenceNumber }: ManifestEntry): Lineage | undefined =>
  firstRowId === undefined ? undefined : { firstRowId, sequenceNumber: sequenceNumber ?? 0 }

/** The live entries of manifests, each with the location of its manifest. */
async function specEntries(
  manifests: readonly ManifestFile[],
  reader: ManifestReader,
  isOwn: IsOwn,
): Promise<(SpecEntry & { manifest: string })[]> {
  const lists = await mapBounded(manifests, async (manifest) => {
    const { location, specId } = manifest
    const entries = (await reader.entries(manifest)).filter(({ status }) => status !== 'deleted')
    for (const { file } of entries) requireOwn(isOwn, file.location)
    return entries.map((entry) => ({ manifest: location, specId, entry }))
  })
  return lists.flat()
}

/** The number of files that a manifest adds or retains. */
export const liveFiles = (manifest: ManifestFile): number => manifest.addedFiles + manifest.existingFiles

/** The live entries of manifests. */
export async function liveEntries(
  manifests: readonly ManifestFile[],
  reader: ManifestReader,
): Promise<ManifestEntry[]> {
  const live = manifests.filter((manifest) => liveFiles(manifest) > 0)
  const lists = await mapBounded(live, (manifest) => reader.entries(manifest))
  return lists.flat().filter((entry) => entry.status !== 'deleted')
}

/** Maps items in batches, so that not all objects are read at the same time. */
export async function mapBounded<A, B>(items: readonly A[], map: (item: A) => Promise<B>): Promise<B[]> {
  const results: B[] = []
  for (let from = 0; from < items.length; from += READS_AT_ONCE_LIMIT) {
    results.push(...(await Promise.all(items.slice(from, from + READS_AT_ONCE_LIMIT).map(map))))
  }
  return results
}
