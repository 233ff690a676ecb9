// Manifests (lists of data files) and manifest lists (lists of manifests). Sources:
// https://iceberg.apache.org/spec/#manifests, #manifest-lists. Fields are found by id and not by name, because engines use
// different names for some fields.

import { type Adapt, type AvroRecord, openAvro, writeAvro } from './avro.ts'
import { integer, nested, optionalId, optionalInteger } from './avro-record.ts'
import { BadAvro } from './avro-schema.ts'
import {
  type BoundValue,
  boundValueFrom,
  compareBounds,
  encodeBound,
  lowerBound,
  upperBound,
} from './bounds.ts'
import type { ManifestEntry, ManifestFile, PartitionSummary } from './data-file.ts'
import {
  dataFile,
  entryRecord,
  listedManifest,
  manifestRecord,
  partitionRecord,
  STATUS,
} from './manifest-records.ts'
import {
  canonical,
  ENTRY_NAMES,
  LIST_NAMES,
  listSchema,
  manifestSchema,
  type PartitionType,
  partitionSchema,
  partitionTypes,
} from './manifest-schema.ts'
import type { FormatVersion, PartitionSpec } from './metadata.ts'
import type { Schema } from './types.ts'

interface ManifestContext {
  readonly schema: Schema
  readonly spec: PartitionSpec
  readonly content?: ManifestFile['content']
  /** Default: 2. */
  readonly formatVersion?: FormatVersion
}

/** The bytes of a manifest of data files, or of delete files. */
export function writeManifest(
  { schema, spec, content = 'data', formatVersion = 2 }: ManifestContext,
  entries: readonly ManifestEntry[],
): Uint8Array {
  const metadata = {
    schema: JSON.stringify(schema),
    'schema-id': String(schema['schema-id']),
    'partition-spec': JSON.stringify(spec.fields),
    'partition-spec-id': String(spec['spec-id']),
    'format-version': String(formatVersion),
    content,
  }
  const types = partitionTypes(spec, schema)
  const records = entries.map((entry) => entryRecord(entry, partitionRecord(entry.file.partition, types)))
  return writeAvro(manifestSchema(partitionSchema(spec, schema), formatVersion), metadata, records)
}

const canonicalEntries: Adapt = (schema) => canonical(schema, ENTRY_NAMES)
const canonicalList: Adapt = (schema) => canonical(schema, LIST_NAMES)

/** Values of a list that the entries of a manifest inherit. */
type Inherited = Pick<ManifestFile, 'sequenceNumber' | 'addedSnapshotId' | 'firstRowId'>

/**
 * Returns the entries of a manifest, including deleted ones. Values that an entry inherits from the manifest are filled in.
 * @throws BadAvro
 */
export const readManifest = (bytes: Uint8Array, inherited: Inherited): ManifestEntry[] =>
  [...entryBatches(bytes, inherited)].flat()

/** Yields the entries of a manifest. Each batch takes some milliseconds. @throws BadAvro */
export function* entryBatches(bytes: Uint8Array, inherited: Inherited): Generator<ManifestEntry[]> {
  let nextRowId = inherited.firstRowId
  const entryOf = (record: AvroRecord): ManifestEntry => {
    const code = integer(record, 'status')
    const status = STATUS[code]
    if (!status) throw new BadAvro(`manifest entry with unknown status ${code}`)
    const file = dataFile(nested(record, 'data_file'))
    const inheritsRowId = file.content === 'data' && status !== 'deleted' && file.firstRowId === undefined
    const firstRowId = inheritsRowId ? nextRowId : file.firstRowId
    if (inheritsRowId && nextRowId !== undefined) nextRowId += file.recordCount
    const inheritedNumber = status === 'added' ? inherited.sequenceNumber : null
    return {
      status,
      snapshotId: optionalId(record, 'snapshot_id') ?? inherited.addedSnapshotId,
      sequenceNumber: optionalInteger(record, 'sequence_number') ?? inheritedNumber,
      fileSequenceNumber: optionalInteger(record, 'file_sequence_number') ?? inheritedNumber,
      file: { ...file, ...(firstRowId !== undefined && { firstRowId }) },
    }
  }
  for (const batch of openAvro(bytes, canonicalEntries).batches) yield batch.map(entryOf)
}

interface ListContext {
  readonly snapshotId: bigint
  readonly parentSnapshotId?: bigint | undefined
  readonly sequenceNumber: number
  /** Default: 2. */
  readonly formatVersion?: FormatVersion
}

/** The bytes of a manifest list. */
export function writeManifestList(
  { formatVersion = 2, ...context }: ListContext,
  manifests: readonly ManifestFile[],
): Uint8Array {
  const metadata = {
    'snapshot-id': String(context.snapshotId),
    'parent-snapshot-id': String(context.parentSnapshotId ?? null),
    'sequence-number': String(context.sequenceNumber),
    'format-version': String(formatVersion),
  }
  return writeAvro(listSchema(formatVersion), metadata, manifests.map(manifestRecord))
}

/** @throws BadAvro */
export const readManifestList = (bytes: Uint8Array): ManifestFile[] => [...manifestBatches(bytes)].flat()

/** Yields the manifests of a list. Each batch takes some milliseconds. @throws BadAvro */
export function* manifestBatches(bytes: Uint8Array): Generator<ManifestFile[]> {
  for (const batch of openAvro(bytes, canonicalList).batches) yield batch.map(listedManifest)
}

/** Makes the manifest list's entry for a manifest with these entries, written by the snapshot `snapshotId`. */
export function describeManifest(
  entries: readonly ManifestEntry[],
  {
    location,
    sizeBytes,
    specId,
    snapshotId,
    sequenceNumber,
    content = 'data',
    partitions = [],
  }: {
    readonly location: string
    readonly sizeBytes: number
    readonly specId: number
    readonly snapshotId: bigint
    readonly sequenceNumber: number
    readonly content?: ManifestFile['content']
    /** The partition fields of the manifest's spec. */
    readonly partitions?: readonly PartitionType[]
  },
): ManifestFile {
  const count = (status: ManifestEntry['status']) => {
    const chosen = entries.filter((entry) => entry.status === status)
    return { files: chosen.length, rows: chosen.reduce((sum, { file }) => sum + file.recordCount, 0) }
  }
  const [added, existing, deleted] = [count('added'), count('existing'), count('deleted')]
  const live = entries.filter((entry) => entry.status !== 'deleted')
  return {
    location,
    sizeBytes,
    specId,
    content,
    sequenceNumber,
    minSequenceNumber: live.reduce(
      (min, entry) => Math.min(min, entry.sequenceNumber ?? sequenceNumber),
      sequenceNumber,
    ),
    addedSnapshotId: snapshotId,
    addedFiles: added.files,
    existingFiles: existing.files,
    deletedFiles: deleted.files,
    addedRows: added.rows,
    existingRows: existing.rows,
    deletedRows: deleted.rows,
    partitions: partitions.map(({ id, type }) =>
      summaryOf(
        type,
        entries.map(({ file }) => file.partition[id] ?? null),
      ),
    ),
  }
}

/** All entries count, including deleted ones, because readers also search for deleted entries. */
function summaryOf(type: string, values: readonly (BoundValue | null)[]): PartitionSummary {
  const isFloat = type === 'float' || type === 'double'
  const present = values.filter((value) => value !== null).map((value) => boundValueFrom(type, value))
  const numbers = present.filter((value) => !Number.isNaN(value))
  const contains = {
    containsNull: present.length < values.length,
    ...(isFloat && { containsNan: numbers.length < present.length }),
  }
  const sorted = numbers.toSorted(compareBounds)
  const [least, greatest] = [sorted[0], sorted.at(-1)]
  if (least === undefined || greatest === undefined) return contains
  const upper = upperBound(type, greatest)
  return {
    ...contains,
    lower: encodeBound(type, lowerBound(type, least)),
    ...(upper !== undefined && { upper: encodeBound(type, upper) }),
  }
}
