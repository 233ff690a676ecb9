// Manifests (lists of data files) and manifest lists (lists of manifests). Sources:
// https://iceberg.apache.org/spec/#manifests, #manifest-lists. Fields are found by id and not by name, because engines use
// different names for some fields.

import { Buffer } from 'node:buffer'
import { type Adapt, type AvroRecord, openAvro, writeAvro } from './avro.ts'
import {
  integer,
  integers,
  list,
  nested,
  optionalId,
  optionalInteger,
  optionalText,
  text,
} from './avro-record.ts'
import { BadAvro } from './avro-schema.ts'
import {
  type BoundValue,
  boundValueFrom,
  compareBounds,
  encodeBound,
  lowerBound,
  upperBound,
} from './bounds.ts'
import {
  canonical,
  decimalBytes,
  ENTRY_NAMES,
  LIST_NAMES,
  listSchema,
  manifestSchema,
  type PartitionType,
  partitionIdOf,
  partitionSchema,
  partitionTypes,
} from './manifest-schema.ts'
import type { FormatVersion, PartitionSpec } from './metadata.ts'
import { decimalOf, type Schema } from './types.ts'

export interface ColumnMetrics {
  /** Size in the file, compressed. */
  readonly sizeBytes?: number | undefined
  /** Number of values, nulls included. */
  readonly valueCount?: number | undefined
  readonly nullCount?: number | undefined
  readonly nanCount?: number | undefined
  /** The value in Iceberg's single-value binary form (bounds.ts). */
  readonly lower?: Uint8Array | undefined
  readonly upper?: Uint8Array | undefined
}

/** Values of the partition fields by field id; empty for an unpartitioned table. */
export type PartitionTuple = Readonly<Record<number, BoundValue | null>>

/** Equal tuples, and only equal tuples, have the same text. */
export const tupleText = (tuple: PartitionTuple): string =>
  JSON.stringify(
    Object.entries(tuple).map(([id, value]) => [
      id,
      value instanceof Uint8Array ? [...value] : value === null ? null : String(value),
    ]),
  )

/** Summarizes the values of one partition field over the files of a manifest, for the manifest list. */
interface PartitionSummary {
  readonly containsNull: boolean
  readonly containsNan?: boolean | undefined
  /** The value in Iceberg's single-value binary form; absent when every value is null. */
  readonly lower?: Uint8Array | undefined
  readonly upper?: Uint8Array | undefined
}

export interface DataFile {
  readonly content: 'data' | 'position-deletes' | 'equality-deletes'
  readonly location: string
  readonly format: string
  readonly partition: PartitionTuple
  readonly recordCount: number
  readonly sizeBytes: number
  /** Metrics by field id. */
  readonly columns: ReadonlyMap<number, ColumnMetrics>
  readonly splitOffsets?: readonly number[]
  readonly equalityIds?: readonly number[]
  readonly sortOrderId?: number
  /** The id of the file's first row. Only data files of format version 3 have row ids. */
  readonly firstRowId?: number
  /** The only data file whose rows a position delete file or a deletion vector deletes. */
  readonly referencedDataFile?: string
  /** The part of a Puffin file that is a deletion vector. */
  readonly contentOffset?: number
  readonly contentSizeBytes?: number
}

export interface ManifestEntry {
  readonly status: 'existing' | 'added' | 'deleted'
  /** The snapshot that added or deleted the file. In an added entry, null means the manifest's own snapshot. */
  readonly snapshotId: bigint | null
  /** In an added entry, null means the manifest's own number, which is known only when the commit succeeds. */
  readonly sequenceNumber: number | null
  readonly fileSequenceNumber: number | null
  readonly file: DataFile
}

/** The entry of a manifest in a manifest list. */
export interface ManifestFile {
  readonly location: string
  readonly sizeBytes: number
  readonly specId: number
  readonly content: 'data' | 'deletes'
  readonly sequenceNumber: number
  readonly minSequenceNumber: number
  readonly addedSnapshotId: bigint
  readonly addedFiles: number
  readonly existingFiles: number
  readonly deletedFiles: number
  readonly addedRows: number
  readonly existingRows: number
  readonly deletedRows: number
  /** One summary per field of the partition spec, in order; absent when the writer stored none. */
  readonly partitions?: readonly PartitionSummary[] | undefined
  /** The id of the first row in the files that have no `firstRowId` of their own. */
  readonly firstRowId?: number | undefined
}

const STATUS = ['existing', 'added', 'deleted'] as const
const CONTENT = ['data', 'position-deletes', 'equality-deletes'] as const
const MANIFEST_CONTENT = ['data', 'deletes'] as const

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

const listedManifest = (record: AvroRecord): ManifestFile => ({
  location: text(record, 'manifest_path'),
  sizeBytes: integer(record, 'manifest_length'),
  specId: integer(record, 'partition_spec_id'),
  content: MANIFEST_CONTENT[optionalInteger(record, 'content') ?? 0] ?? 'deletes',
  sequenceNumber: optionalInteger(record, 'sequence_number') ?? 0,
  minSequenceNumber: optionalInteger(record, 'min_sequence_number') ?? 0,
  addedSnapshotId: optionalId(record, 'added_snapshot_id') ?? 0n,
  addedFiles: integer(record, 'added_files_count'),
  existingFiles: integer(record, 'existing_files_count'),
  deletedFiles: integer(record, 'deleted_files_count'),
  addedRows: integer(record, 'added_rows_count'),
  existingRows: integer(record, 'existing_rows_count'),
  deletedRows: integer(record, 'deleted_rows_count'),
  firstRowId: optionalInteger(record, 'first_row_id'),
  ...(Array.isArray(record.partitions) && {
    partitions: list(record, 'partitions').map((summary) => ({
      containsNull: summary.contains_null !== false,
      ...(typeof summary.contains_nan === 'boolean' && { containsNan: summary.contains_nan }),
      lower: bytesOf(summary.lower_bound),
      upper: bytesOf(summary.upper_bound),
    })),
  }),
})

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

function partitionRecord(tuple: PartitionTuple, types: readonly PartitionType[]): AvroRecord {
  return Object.fromEntries(
    types.map(({ id, avroName, type }) => {
      const value = tuple[id] ?? null
      return [avroName, value === null ? null : avroValue(type, value)]
    }),
  )
}

/** Converts a partition value to its Avro form. */
function avroValue(type: string, value: BoundValue): unknown {
  const decimal = decimalOf(type)
  const plain = boundValueFrom(type, value)
  if (decimal && typeof plain === 'bigint') return fixedTwosComplement(plain, decimalBytes(decimal.precision))
  if (type === 'uuid' || plain instanceof Uint8Array) return asBuffer(encodeBound(type, plain))
  return plain
}

function fixedTwosComplement(value: bigint, length: number): Buffer {
  const hex = BigInt.asUintN(length * 8, value)
    .toString(16)
    .padStart(length * 2, '0')
  return Buffer.from(hex, 'hex')
}

function entryRecord(
  { status, snapshotId, sequenceNumber, fileSequenceNumber, file }: ManifestEntry,
  partition: AvroRecord,
): AvroRecord {
  return {
    status: STATUS.indexOf(status),
    snapshot_id: snapshotId,
    sequence_number: sequenceNumber,
    file_sequence_number: fileSequenceNumber,
    data_file: {
      content: CONTENT.indexOf(file.content),
      file_path: file.location,
      file_format: file.format,
      partition,
      record_count: file.recordCount,
      file_size_in_bytes: file.sizeBytes,
      column_sizes: pairs(file.columns, (metrics) => metrics.sizeBytes),
      value_counts: pairs(file.columns, (metrics) => metrics.valueCount),
      null_value_counts: pairs(file.columns, (metrics) => metrics.nullCount),
      nan_value_counts: pairs(file.columns, (metrics) => metrics.nanCount),
      lower_bounds: pairs(file.columns, (metrics) => asBuffer(metrics.lower)),
      upper_bounds: pairs(file.columns, (metrics) => asBuffer(metrics.upper)),
      key_metadata: null,
      split_offsets: file.splitOffsets ?? null,
      equality_ids: file.equalityIds ?? null,
      sort_order_id: file.sortOrderId ?? null,
      first_row_id: file.firstRowId ?? null,
      referenced_data_file: file.referencedDataFile ?? null,
      content_offset: file.contentOffset ?? null,
      content_size_in_bytes: file.contentSizeBytes ?? null,
    },
  }
}

function pairs<V>(columns: DataFile['columns'], metric: (metrics: ColumnMetrics) => V | undefined) {
  const all = [...columns].flatMap(([key, metrics]) => {
    const value = metric(metrics)
    return value === undefined ? [] : [{ key, value }]
  })
  return all.length === 0 ? null : all
}

const asBuffer = (bytes: Uint8Array | undefined) =>
  bytes && Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)

const bytesOf = (value: unknown): Uint8Array | undefined =>
  value instanceof Uint8Array ? new Uint8Array(value) : undefined

function dataFile(record: AvroRecord): DataFile {
  const splitOffsets = integers(record, 'split_offsets')
  const equalityIds = integers(record, 'equality_ids')
  const present = {
    sortOrderId: optionalInteger(record, 'sort_order_id'),
    firstRowId: optionalInteger(record, 'first_row_id'),
    referencedDataFile: optionalText(record, 'referenced_data_file'),
    contentOffset: optionalInteger(record, 'content_offset'),
    contentSizeBytes: optionalInteger(record, 'content_size_in_bytes'),
  }
  return {
    content: CONTENT[optionalInteger(record, 'content') ?? 0] ?? 'equality-deletes',
    location: text(record, 'file_path'),
    format: text(record, 'file_format').toUpperCase(),
    partition: partitionTuple(nested(record, 'partition')),
    recordCount: integer(record, 'record_count'),
    sizeBytes: integer(record, 'file_size_in_bytes'),
    columns: columnsMetrics(record),
    ...(splitOffsets && { splitOffsets }),
    ...(equalityIds && { equalityIds }),
    ...withoutUndefined(present),
  }
}

const withoutUndefined = <T extends object>(fields: T) =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>
  }

const partitionTuple = (record: AvroRecord): PartitionTuple =>
  Object.fromEntries(Object.entries(record).map(([key, value]) => [partitionIdOf(key), valueFrom(value)]))

function valueFrom(value: unknown): BoundValue | null {
  if (value instanceof Uint8Array) return new Uint8Array(value)
  return typeof value === 'number' ||
    typeof value === 'bigint' ||
    typeof value === 'string' ||
    typeof value === 'boolean'
    ? value
    : null
}

type WritableMetrics = { -readonly [K in keyof ColumnMetrics]: ColumnMetrics[K] }

const METRICS = [
  ['column_sizes', 'sizeBytes'],
  ['value_counts', 'valueCount'],
  ['null_value_counts', 'nullCount'],
  ['nan_value_counts', 'nanCount'],
] as const
const BOUNDS = [
  ['lower_bounds', 'lower'],
  ['upper_bounds', 'upper'],
] as const

function columnsMetrics(record: AvroRecord): Map<number, ColumnMetrics> {
  const columns = new Map<number, WritableMetrics>()
  const metricsOf = (id: number): WritableMetrics => {
    const metrics = columns.get(id) ?? {}
    columns.set(id, metrics)
    return metrics
  }
  for (const [name, metric] of METRICS) {
    for (const pair of list(record, name)) metricsOf(integer(pair, 'key'))[metric] = integer(pair, 'value')
  }
  for (const [name, bound] of BOUNDS) {
    for (const pair of list(record, name)) {
      const { value } = pair
      if (value instanceof Uint8Array) metricsOf(integer(pair, 'key'))[bound] = new Uint8Array(value)
    }
  }
  return columns
}

const manifestRecord = (manifest: ManifestFile): AvroRecord => ({
  manifest_path: manifest.location,
  manifest_length: manifest.sizeBytes,
  partition_spec_id: manifest.specId,
  content: MANIFEST_CONTENT.indexOf(manifest.content),
  sequence_number: manifest.sequenceNumber,
  min_sequence_number: manifest.minSequenceNumber,
  added_snapshot_id: manifest.addedSnapshotId,
  added_files_count: manifest.addedFiles,
  existing_files_count: manifest.existingFiles,
  deleted_files_count: manifest.deletedFiles,
  added_rows_count: manifest.addedRows,
  existing_rows_count: manifest.existingRows,
  deleted_rows_count: manifest.deletedRows,
  first_row_id: manifest.firstRowId ?? null,
  partitions:
    manifest.partitions?.map(({ containsNull, containsNan, lower, upper }) => ({
      contains_null: containsNull,
      contains_nan: containsNan ?? null,
      lower_bound: asBuffer(lower) ?? null,
      upper_bound: asBuffer(upper) ?? null,
    })) ?? null,
})
