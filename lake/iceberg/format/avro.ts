// Reads and writes Avro object container files in memory. The library avsc reads and writes containers only as streams, but
// manifests are small and always read whole. Source: https://avro.apache.org/docs/1.12.0/specification/#object-container-files

import { Buffer } from 'node:buffer'
import { createHash } from 'node:crypto'
import { deflateRawSync, inflateRawSync } from 'node:zlib'
import avsc, { type Schema, type Type } from 'avsc'

/** An Avro schema as stored in a file, with Iceberg's attributes (`field-id`, `element-id`). */
export type AvroSchema =
  | string
  | readonly AvroSchema[]
  | { readonly type: 'record'; readonly name: string; readonly fields: readonly AvroField[] }
  | {
      readonly type: 'array'
      readonly items: AvroSchema
      readonly 'element-id'?: number
      readonly logicalType?: string
    }
  | { readonly type: 'map'; readonly values: AvroSchema }
  | {
      readonly type: 'fixed'
      readonly name: string
      readonly size: number
      readonly [attribute: string]: unknown
    }
  | { readonly type: string; readonly logicalType?: string; readonly [attribute: string]: unknown }

export interface AvroField {
  readonly name: string
  readonly type: AvroSchema
  readonly default?: null
  readonly 'field-id'?: number
}

export interface AvroFile {
  /** The schema as JSON text. */
  readonly schema: string
  /** Key metadata of the file, without avro.schema and avro.codec. */
  readonly metadata: Readonly<Record<string, string>>
  readonly records: readonly AvroRecord[]
}

export type AvroRecord = Readonly<Record<string, unknown>>

/** The bytes are not an Avro file, or the reader does not support the file. */
export class BadAvro extends Error {
  override readonly name = 'BadAvro'
}

/** The number of records per block. A reader holds one decoded block at a time. */
const BLOCK_RECORDS = 1_000
/** Smaller files are not compressed: their schema is larger than their records, and compression takes 0.5 ms. */
const DEFLATED_BYTES_MIN = 8_192
/** A block that inflates to more bytes is refused. */
const BLOCK_BYTES_LIMIT = 256 * 1024 * 1024
/** The size of the cache of compiled schemas. All manifests of one table share one schema. */
const COMPILED_LIMIT = 256

const MAGIC = Buffer.from('Obj\x01', 'latin1')
const SYNC_BYTES = 16

/** The logical type of longs that need all 64 bits (snapshot ids). Values are read and written as bigint. */
export const INT64 = { type: 'long', logicalType: 'sluice-int64' } as const

/** INT64 that a file declares as `declared`, for example as a timestamp. */
export const int64As = (declared: AvroSchema): AvroSchema => ({ ...INT64, declared })

const int64 = avsc.types.LongType.__with({
  fromBuffer: (buffer: Buffer) => buffer.readBigInt64LE(),
  toBuffer: (value: bigint) => {
    const buffer = Buffer.alloc(8)
    buffer.writeBigInt64LE(value)
    return buffer
  },
  fromJSON: BigInt,
  toJSON: Number,
  isValid: (value: unknown) => typeof value === 'bigint' && BigInt.asIntN(64, value) === value,
  compare: (a: bigint, b: bigint) => (a === b ? 0 : a < b ? -1 : 1),
})

const headerType = avsc.Type.forSchema({
  type: 'record',
  name: 'Header',
  fields: [
    { name: 'magic', type: { type: 'fixed', name: 'Magic', size: MAGIC.length } },
    { name: 'meta', type: { type: 'map', values: 'bytes' } },
    { name: 'sync', type: { type: 'fixed', name: 'Sync', size: SYNC_BYTES } },
  ],
})
const longType = avsc.Type.forSchema('long')

interface Compiled {
  readonly type: Type
  /** The schema text as written to files. */
  readonly text: string
}

const compiled = new Map<string, Compiled>()

function compile(schema: AvroSchema): Compiled {
  const key = JSON.stringify(schema)
  const cached = compiled.get(key)
  if (cached) return cached
  // Our schema type includes Iceberg's attributes, which avsc's own type lacks.
  const type = avsc.Type.forSchema(schema as Schema, {
    typeHook: (part) =>
      typeof part === 'object' && 'logicalType' in part && part.logicalType === INT64.logicalType
        ? int64
        : undefined,
  })
  const entry = { type, text: JSON.stringify(withoutInt64(schema)) }
  if (compiled.size >= COMPILED_LIMIT) compiled.clear()
  compiled.set(key, entry)
  return entry
}

/** Changes a writer's schema without changing the encoding: renames fields and marks INT64. */
export type Adapt = (schema: AvroSchema) => AvroSchema

/** Compiled readers by adaptation and schema text. Parsing and walking an 8 KB schema costs more than reading the records. */
const readers = new WeakMap<Adapt, Map<string, Type>>()

function readerOf(text: string, adapt: Adapt): Type {
  const cachedTypes = readers.get(adapt) ?? new Map<string, Type>()
  readers.set(adapt, cachedTypes)
  const cachedType = cachedTypes.get(text)
  if (cachedType) return cachedType
  const { type } = compile(adapt(JSON.parse(text)))
  if (cachedTypes.size >= COMPILED_LIMIT) cachedTypes.clear()
  cachedTypes.set(text, type)
  return type
}

/**
 * Returns the bytes of a file. `schema` may contain INT64, which the file declares as long or as the type of `int64As`. Equal input gives equal
 * bytes.
 */
export function writeAvro(
  schema: AvroSchema,
  metadata: Readonly<Record<string, string>>,
  records: readonly AvroRecord[],
) {
  const { type, text } = compile(schema)
  const encoded = records.map((record) => type.toBuffer(record))
  const isSmall = encoded.reduce((sum, { length }) => sum + length, 0) < DEFLATED_BYTES_MIN
  const codec = isSmall ? 'null' : 'deflate'
  const meta = { ...metadata, 'avro.schema': text, 'avro.codec': codec }
  const blocks: Uint8Array[] = []
  for (let from = 0; from < records.length; from += BLOCK_RECORDS) {
    const block = encoded.slice(from, from + BLOCK_RECORDS)
    const bytes = Buffer.concat(block)
    const data = isSmall ? bytes : deflateRawSync(bytes)
    blocks.push(longType.toBuffer(block.length), longType.toBuffer(data.length), data)
  }
  const sync = syncMarker([JSON.stringify(meta), ...blocks])
  const header = headerType.toBuffer({
    magic: MAGIC,
    meta: Object.fromEntries(Object.entries(meta).map(([name, text]) => [name, Buffer.from(text)])),
    sync,
  })
  const parts = blocks.flatMap((part, i) => (i % 3 === 2 ? [part, sync] : [part]))
  return new Uint8Array(Buffer.concat([header, ...parts]))
}

/** The marker can be any 16 bytes that are unlikely in the data. A digest of the content gives equal files equal bytes. */
function syncMarker(parts: readonly (string | Uint8Array)[]): Buffer {
  const hash = createHash('sha256')
  for (const part of parts) hash.update(part)
  return hash.digest().subarray(0, SYNC_BYTES)
}

/**
 * Reads a file. `adapt` must be a long-lived function, because the compiled readers are cached under it.
 * @throws BadAvro
 */
export function readAvro(bytes: Uint8Array, adapt: Adapt): AvroFile {
  try {
    return readContainer(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), adapt)
  } catch (cause) {
    if (cause instanceof BadAvro) throw cause
    throw new BadAvro(`not a readable Avro file: ${cause instanceof Error ? cause.message : String(cause)}`, {
      cause,
    })
  }
}

interface Header {
  readonly magic: Buffer
  readonly meta: Readonly<Record<string, Buffer>>
  readonly sync: Buffer
}

function readContainer(buffer: Buffer, adapt: Adapt): AvroFile {
  if (!buffer.subarray(0, MAGIC.length).equals(MAGIC)) throw new BadAvro('not an Avro file')
  const decoded = headerType.decode(buffer)
  const header: Header = decoded.value
  const metadata = Object.fromEntries(
    Object.entries(header.meta).map(([name, value]) => [name, value.toString()]),
  )
  const { 'avro.schema': schema, 'avro.codec': codec = 'null', ...customMetadata } = metadata
  if (schema === undefined || decoded.offset < 0) throw new BadAvro('incomplete Avro header')
  const type = readerOf(schema, adapt)
  const records: AvroRecord[] = []
  let offset = decoded.offset
  while (offset < buffer.length) {
    const count = longType.decode(buffer, offset)
    const size = longType.decode(buffer, count.offset)
    const end = size.offset + size.value
    const sync = buffer.subarray(end, end + SYNC_BYTES)
    if (count.offset < 0 || size.offset < 0 || !sync.equals(header.sync))
      throw new BadAvro('truncated Avro file')
    readBlock(type, inflate(codec, buffer.subarray(size.offset, end)), count.value, records)
    offset = end + SYNC_BYTES
  }
  return { schema, metadata: customMetadata, records }
}

function readBlock(type: Type, block: Buffer, count: number, records: AvroRecord[]) {
  let offset = 0
  for (let i = 0; i < count; i += 1) {
    const record = type.decode(block, offset)
    if (record.offset < 0) throw new BadAvro('truncated Avro record')
    records.push(record.value)
    offset = record.offset
  }
}

/**
 * Copies a file with changed records. The schema and the metadata stay the same, and so does every value that `changeFor`
 * leaves as it is. `adapt` must mark every long as INT64, or large values would change.
 * @throws BadAvro
 */
export function mapAvro(
  bytes: Uint8Array,
  adapt: Adapt,
  changeFor: (schema: AvroSchema) => (record: AvroRecord) => AvroRecord,
): Uint8Array {
  const { schema: text, metadata, records } = readAvro(bytes, adapt)
  const schema = adapt(JSON.parse(text))
  return writeAvro(schema, metadata, records.map(changeFor(schema)))
}

function inflate(codec: string, data: Buffer): Buffer {
  if (codec === 'null') return data
  if (codec === 'deflate') return inflateRawSync(data, { maxOutputLength: BLOCK_BYTES_LIMIT })
  throw new BadAvro(`Avro codec ${codec} is not supported: use null or deflate`)
}

function withoutInt64(schema: AvroSchema): AvroSchema {
  return JSON.parse(
    JSON.stringify(schema, (_name, part) =>
      part?.logicalType === INT64.logicalType ? (part.declared ?? 'long') : part,
    ),
  )
}
