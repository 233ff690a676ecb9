import { Buffer } from 'node:buffer'
import type { AvroRecord } from './avro.ts'
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
import { type BoundValue, boundValueFrom, encodeBound } from './bounds.ts'
import type { ColumnMetrics, DataFile, ManifestEntry, ManifestFile, PartitionTuple } from './data-file.ts'
import { decimalBytes, type PartitionType, partitionIdOf } from './manifest-schema.ts'
import { decimalOf } from './types.ts'

export const STATUS = ['existing', 'added', 'deleted'] as const

const CONTENT = ['data', 'position-deletes', 'equality-deletes'] as const

const MANIFEST_CONTENT = ['data', 'deletes'] as const

export const listedManifest = (record: AvroRecord): ManifestFile => ({
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

export function partitionRecord(tuple: PartitionTuple, types: readonly PartitionType[]): AvroRecord {
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

export function entryRecord(
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

export function dataFile(record: AvroRecord): DataFile {
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

export const manifestRecord = (manifest: ManifestFile): AvroRecord => ({
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
