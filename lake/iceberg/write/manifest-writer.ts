import { type DataFile, type ManifestEntry, type ManifestFile, tupleText } from '../format/data-file.ts'
import { manifestLocation } from '../format/location.ts'
import { describeManifest, writeManifest } from '../format/manifest.ts'
import { partitionTypes } from '../format/manifest-schema.ts'
import {
  type FormatVersion,
  type PartitionSpec,
  type TableMetadata,
  UnsupportedTable,
} from '../format/metadata.ts'
import { fieldsOf, type Schema } from '../format/types.ts'
import { liveEntries, type ManifestReader } from '../read/scan.ts'
import type { NewDataFile, StoredObject } from './new-files.ts'

/** A manifest with fewer files is small. Merging fills manifests up to this number. */
export const MANIFEST_FILES_LIMIT = 5_000

/** This many small manifests are merged, because a reader opens each manifest. */
export const SMALL_MANIFESTS_LIMIT = 100

export interface Context {
  readonly snapshotId: bigint
  readonly sequenceNumber: number
  readonly schema: Schema
  readonly isNewSchema: boolean
  /** The spec of the new files, with the id that the catalog will assign. */
  readonly spec: PartitionSpec
  readonly table: TableMetadata
  readonly formatVersion: FormatVersion
  readonly uuid: string
}

/** The entry loses its metrics, because no reader prunes deleted files. */
const asDeleted = (entry: ManifestEntry, snapshotId: bigint): ManifestEntry => ({
  ...entry,
  status: 'deleted',
  snapshotId,
  file: { ...entry.file, columns: new Map() },
})

export const asExisting = (entry: ManifestEntry): ManifestEntry => ({ ...entry, status: 'existing' })

export const addedEntry = (
  { specId: _, ...file }: NewDataFile & Pick<DataFile, 'content'> & { readonly specId?: number },
  snapshotId: bigint,
) =>
  ({
    status: 'added',
    snapshotId,
    sequenceNumber: null,
    fileSequenceNumber: null,
    file: { format: 'PARQUET', partition: {}, ...file },
  }) satisfies ManifestEntry

/** Collects the manifests of a snapshot: retained manifests and newly written ones. */
export class ManifestWriter {
  readonly manifests: ManifestFile[] = []
  readonly stored: StoredObject[] = []

  constructor(private readonly context: Context) {}

  carryOver(manifests: readonly ManifestFile[]) {
    this.manifests.push(...manifests)
  }

  /** Rewrites the live entries of manifests through `change`, one manifest per spec and content. Returns the original entries. */
  async rewrite(
    manifests: readonly ManifestFile[],
    reader: ManifestReader,
    change: (entry: ManifestEntry) => ManifestEntry,
  ): Promise<ManifestEntry[]> {
    const all: ManifestEntry[] = []
    for (const group of Map.groupBy(manifests, ({ specId, content }) => `${specId} ${content}`).values()) {
      const entries = await liveEntries(group, reader)
      this.add(entries.map(change), group[0])
      all.push(...entries)
    }
    return all
  }

  /** Rewrites manifests and marks some of their files as deleted. Returns these files. */
  async remove(
    manifests: readonly ManifestFile[],
    reader: ManifestReader,
    isRemoved: (entry: ManifestEntry) => boolean,
  ): Promise<DataFile[]> {
    const { snapshotId } = this.context
    const before = await this.rewrite(manifests, reader, (entry) =>
      isRemoved(entry) ? asDeleted(entry, snapshotId) : asExisting(entry),
    )
    return before.filter(isRemoved).map((entry) => entry.file)
  }

  /**
   * Removes all existing files and adds the new ones. One manifest lists both, if they have the same spec. Returns the removed
   * files.
   */
  async replace(
    manifests: readonly ManifestFile[],
    reader: ManifestReader,
    added: readonly ManifestEntry[],
  ): Promise<DataFile[]> {
    const { snapshotId, spec } = this.context
    const newSpecId = spec['spec-id']
    const hasNewSpec = ({ specId }: ManifestFile) => specId === newSpecId
    const others = await this.remove(
      manifests.filter((manifest) => !hasNewSpec(manifest)),
      reader,
      () => true,
    )
    const removedEntries = await liveEntries(manifests.filter(hasNewSpec), reader)
    this.add([...removedEntries.map((entry) => asDeleted(entry, snapshotId)), ...added])
    return [...others, ...removedEntries.map((entry) => entry.file)]
  }

  add(
    entries: readonly ManifestEntry[],
    { specId, content }: Pick<ManifestFile, 'specId' | 'content'> = {
      specId: this.context.spec['spec-id'],
      content: 'data',
    },
  ) {
    const { table, formatVersion, snapshotId, sequenceNumber, uuid } = this.context
    const spec = this.specOf(specId)
    const schema = this.schemaOf(spec)
    const partitions = partitionTypes(spec, schema)
    for (let from = 0; from < entries.length; from += MANIFEST_FILES_LIMIT) {
      const part = entries.slice(from, from + MANIFEST_FILES_LIMIT)
      const location = manifestLocation(table.location, uuid, this.stored.length)
      const bytes = writeManifest({ schema, spec, content, formatVersion }, part)
      this.stored.push({ location, bytes })
      const described = {
        location,
        sizeBytes: bytes.length,
        specId,
        snapshotId,
        sequenceNumber,
        content,
        partitions,
      }
      this.manifests.push(describeManifest(part, described))
    }
  }

  private specOf(id: number): PartitionSpec {
    const { spec, table } = this.context
    const match =
      id === spec['spec-id']
        ? spec
        : table['partition-specs'].find((candidate) => candidate['spec-id'] === id)
    if (!match) throw new UnsupportedTable(`the table has no partition spec ${id}`)
    return match
  }

  /** The newest schema with all source columns of a spec. An old spec may use columns that no longer exist. */
  private schemaOf({ fields }: PartitionSpec): Schema {
    const { schema, table } = this.context
    const hasSources = (candidate: Schema) => {
      const ids = new Set([...fieldsOf(candidate)].map(({ id }) => id))
      return fields.every((field) => ids.has(field['source-id']))
    }
    return [schema, ...table.schemas.toReversed()].find(hasSources) ?? schema
  }
}

/** The partitions of files, each as a unique text. */
export const partitionsIn = (files: readonly Pick<NewDataFile, 'partition'>[]): Set<string> =>
  new Set(files.map(({ partition = {} }) => tupleText(partition)))
