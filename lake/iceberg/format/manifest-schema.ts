// The Avro schemas of manifests and manifest lists, with Iceberg's field ids. Sources:
// https://iceberg.apache.org/spec/#manifests, #manifest-lists, #avro

import { type AvroField, type AvroSchema, INT64, int64As } from './avro-schema.ts'
import type { FormatVersion, PartitionSpec } from './metadata.ts'
import { decimalOf, fieldsOf, type IcebergType, type Schema } from './types.ts'

const field = (id: number, name: string, type: AvroSchema): AvroField => ({ name, type, 'field-id': id })
const optional = (id: number, name: string, type: AvroSchema): AvroField => ({
  name,
  type: ['null', type],
  default: null,
  'field-id': id,
})

/** Iceberg writes maps with integer keys as arrays of pairs. */
const mapOf = (keyId: number, valueId: number, value: AvroSchema): AvroSchema => ({
  type: 'array',
  logicalType: 'map',
  items: {
    type: 'record',
    name: `k${keyId}_v${valueId}`,
    fields: [field(keyId, 'key', 'int'), field(valueId, 'value', value)],
  },
})

const listOf = (elementId: number, items: AvroSchema): AvroSchema => ({
  type: 'array',
  items,
  'element-id': elementId,
})

/** Fields of a file entry that only format version 3 has. */
const FILE_FIELDS_V3 = [
  optional(142, 'first_row_id', 'long'),
  optional(143, 'referenced_data_file', 'string'),
  optional(144, 'content_offset', 'long'),
  optional(145, 'content_size_in_bytes', 'long'),
]

export const manifestSchema = (partition: AvroSchema, version: FormatVersion): AvroSchema => ({
  type: 'record',
  name: 'manifest_entry',
  fields: [
    field(0, 'status', 'int'),
    optional(1, 'snapshot_id', INT64),
    optional(3, 'sequence_number', 'long'),
    optional(4, 'file_sequence_number', 'long'),
    field(2, 'data_file', {
      type: 'record',
      name: 'r2',
      fields: [
        field(134, 'content', 'int'),
        field(100, 'file_path', 'string'),
        field(101, 'file_format', 'string'),
        field(102, 'partition', partition),
        field(103, 'record_count', 'long'),
        field(104, 'file_size_in_bytes', 'long'),
        optional(108, 'column_sizes', mapOf(117, 118, 'long')),
        optional(109, 'value_counts', mapOf(119, 120, 'long')),
        optional(110, 'null_value_counts', mapOf(121, 122, 'long')),
        optional(137, 'nan_value_counts', mapOf(138, 139, 'long')),
        optional(125, 'lower_bounds', mapOf(126, 127, 'bytes')),
        optional(128, 'upper_bounds', mapOf(129, 130, 'bytes')),
        optional(131, 'key_metadata', 'bytes'),
        optional(132, 'split_offsets', listOf(133, 'long')),
        optional(135, 'equality_ids', listOf(136, 'int')),
        optional(140, 'sort_order_id', 'int'),
        ...(version >= 3 ? FILE_FIELDS_V3 : []),
      ],
    }),
  ],
})

export const listSchema = (version: FormatVersion): AvroSchema => ({
  type: 'record',
  name: 'manifest_file',
  fields: [
    field(500, 'manifest_path', 'string'),
    field(501, 'manifest_length', 'long'),
    field(502, 'partition_spec_id', 'int'),
    field(517, 'content', 'int'),
    field(515, 'sequence_number', 'long'),
    field(516, 'min_sequence_number', 'long'),
    field(503, 'added_snapshot_id', INT64),
    field(504, 'added_files_count', 'int'),
    field(505, 'existing_files_count', 'int'),
    field(506, 'deleted_files_count', 'int'),
    field(512, 'added_rows_count', 'long'),
    field(513, 'existing_rows_count', 'long'),
    field(514, 'deleted_rows_count', 'long'),
    optional(
      507,
      'partitions',
      listOf(508, {
        type: 'record',
        name: 'r508',
        fields: [
          field(509, 'contains_null', 'boolean'),
          optional(518, 'contains_nan', 'boolean'),
          optional(510, 'lower_bound', 'bytes'),
          optional(511, 'upper_bound', 'bytes'),
        ],
      }),
    ),
    ...(version >= 3 ? [optional(520, 'first_row_id', 'long')] : []),
  ],
})

/** The Avro schema of partition tuples in a manifest of this spec. */
export function partitionSchema(spec: PartitionSpec, schema: Schema): AvroSchema {
  const fields = partitionTypes(spec, schema).map(({ id, avroName, type }) =>
    optional(id, avroName, avroPartition(type)),
  )
  return { type: 'record', name: 'r102', fields }
}

export interface PartitionType {
  readonly id: number
  /** The field's name in the characters that Avro allows. Readers use the id. */
  readonly avroName: string
  /** The Iceberg type of the field's values. Readers see `day` as a date; the value is a number of days in both cases. */
  readonly type: string
}

/** @throws TypeError for a source that the schema does not have, or that has children */
export function partitionTypes({ fields }: PartitionSpec, schema: Schema): PartitionType[] {
  const types = new Map([...fieldsOf(schema)].map(({ id, type }) => [id, type]))
  return fields.map((part) => ({
    id: part['field-id'],
    avroName: avroName(part.name),
    type: partitionType(part.transform, types.get(part['source-id'])),
  }))
}

/** The Iceberg type of a transform's result. */
export function partitionType(transform: string, source: IcebergType | undefined): string {
  if (transform === 'day') return 'date'
  if (/^(year|month|hour|bucket)/.test(transform)) return 'int'
  if (typeof source !== 'string')
    throw new TypeError(`a table cannot be partitioned by a nested or missing column: transform ${transform}`)
  return source
}

/** Spells a name like Iceberg's own writer: `größe 2` becomes `gr_xF6_xDFe_x202`. */
const avroName = (name: string): string =>
  name
    .replace(/[^A-Za-z0-9_]/g, (char) => `_x${char.charCodeAt(0).toString(16).toUpperCase()}`)
    .replace(/^(?=[0-9])/, '_')

function avroPartition(type: string): AvroSchema {
  const avro = avroPrimitive(type)
  // Microseconds and keys may need all 64 bits.
  return isLong(avro) ? int64As(avro) : avro
}

/** Source: https://iceberg.apache.org/spec/#avro */
function avroPrimitive(type: string): AvroSchema {
  const decimal = decimalOf(type)
  if (decimal) {
    const { precision, scale } = decimal
    const size = decimalBytes(precision)
    return {
      type: 'fixed',
      name: `decimal_${precision}_${scale}`,
      size,
      logicalType: 'decimal',
      precision,
      scale,
    }
  }
  switch (type) {
    case 'binary':
      return 'bytes'
    case 'uuid':
      return { type: 'fixed', name: 'uuid_fixed', size: 16, logicalType: 'uuid' }
    case 'date':
      return { type: 'int', logicalType: 'date' }
    case 'time':
      return { type: 'long', logicalType: 'time-micros' }
    case 'timestamp':
    case 'timestamptz':
      return { type: 'long', logicalType: 'timestamp-micros', 'adjust-to-utc': type === 'timestamptz' }
    default:
      return type
  }
}

/** The smallest number of bytes that holds every number with `precision` digits. */
export const decimalBytes = (precision: number): number => Math.ceil((precision * Math.log2(10) + 1) / 8)

type NamesById = ReadonlyMap<number, { readonly name: string; readonly isInt64: boolean }>

/** Renames the fields of a writer's schema to the names in this file, by id. Marks the fields that need 64 bits. */
export function canonical(schema: AvroSchema, names: NamesById): AvroSchema {
  if (isUnion(schema)) return schema.map((branch) => canonical(branch, names))
  if (isArray(schema)) return { ...schema, items: canonical(schema.items, names) }
  if (!isRecord(schema)) return schema
  return { ...schema, fields: schema.fields.map((part) => canonicalField(part, names)) }
}

function canonicalField(part: AvroField, names: NamesById): AvroField {
  const id = part['field-id']
  if (id !== undefined && id >= FIRST_PARTITION_ID)
    return { ...part, name: partitionKey(id), type: withBigLongs(part.type) }
  const definition = id === undefined ? undefined : names.get(id)
  const type = definition?.isInt64 ? withInt64(part.type) : canonical(part.type, names)
  return { ...part, name: definition?.name ?? part.name, type }
}

/** Each table assigns the ids of its partition fields, starting at this number. */
const FIRST_PARTITION_ID = 1_000
/** The key of a partition field in a decoded record. Writers choose the names of partition fields, but the ids are fixed. */
const partitionKey = (id: number): string => `p${id}`
export const partitionIdOf = (key: string): number => Number(key.slice(1))

function withBigLongs(type: AvroSchema): AvroSchema {
  if (isUnion(type)) return type.map(withBigLongs)
  return isLong(type) ? INT64 : type
}

function withInt64(type: AvroSchema): AvroSchema {
  if (isUnion(type)) return type.map(withInt64)
  return type === 'null' ? type : INT64
}

function namesById(schema: AvroSchema): NamesById {
  const names = new Map<number, { name: string; isInt64: boolean }>()
  const visit = (part: AvroSchema) => {
    if (isUnion(part)) part.forEach(visit)
    else if (isArray(part)) visit(part.items)
    else if (isRecord(part)) part.fields.forEach(visitField)
  }
  const visitField = ({ name, type, 'field-id': id }: AvroField) => {
    const isInt64 = type === INT64 || (isUnion(type) && type.includes(INT64))
    if (id !== undefined) names.set(id, { name, isInt64 })
    visit(type)
  }
  visit(schema)
  return names
}

/** Also true for a logical type on long: a time or a timestamp. */
const isLong = (type: AvroSchema): boolean =>
  type === 'long' || (typeof type === 'object' && 'type' in type && type.type === 'long')
const isUnion = (schema: AvroSchema): schema is readonly AvroSchema[] => Array.isArray(schema)
const isArray = (schema: AvroSchema): schema is Extract<AvroSchema, { type: 'array' }> =>
  typeof schema === 'object' && 'items' in schema
const isRecord = (schema: AvroSchema): schema is Extract<AvroSchema, { type: 'record' }> =>
  typeof schema === 'object' && 'fields' in schema

export const ENTRY_NAMES = namesById(manifestSchema({ type: 'record', name: 'r102', fields: [] }, 3))
export const LIST_NAMES = namesById(listSchema(3))
