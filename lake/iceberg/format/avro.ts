// Reads and writes Avro object container files in memory. The library avsc encodes values; `avro-values.ts` decodes them, because
// avsc trusts the counts in a file. Source: https://avro.apache.org/docs/1.12.0/specification/#object-container-files

import { Buffer } from 'node:buffer'
import { createHash } from 'node:crypto'
import { deflateRawSync, inflateRawSync } from 'node:zlib'
import avsc, { type Schema, type Type } from 'avsc'
import { type AvroSchema, BadAvro, INT64 } from './avro-schema.ts'
import { Cursor, type ReadValue, readerOfSchema, readTexts } from './avro-values.ts'

export type AvroRecord = Readonly<Record<string, unknown>>

/** The number of records per block. A reader holds one decoded block at a time. */
const BLOCK_RECORDS = 1_000
/** Bytes of records that are decoded at once: some milliseconds. */
const BATCH_BYTES = 65_536
/** Values that are decoded at once. Nulls and empty records have no bytes. */
const BATCH_VALUES = 50_000
/** Smaller files are not compressed: their schema is larger than their records, and compression takes 0.5 ms. */
const DEFLATED_BYTES_MIN = 8_192
/** A file that inflates to more bytes is refused. Iceberg's writers begin another manifest after 8 MB. */
const INFLATED_BYTES_MAX = 256 * 1024 * 1024
/** A block is inflated at once, while other work of the process waits for 0.1 s. Writers begin another block after 64 KB. */
const BLOCK_INFLATED_BYTES_MAX = 64 * 1024 * 1024
/** A file with more records is refused. */
const RECORDS_MAX = 1_000_000
/** A file with more nulls, records and items is refused. They take up to 1 GB of memory. A manifest of 8 MB has some six million. */
const VALUES_MAX = 8_000_000
/** The schema of a manifest has some 10 KB; each partition field adds 100 bytes. */
const SCHEMA_CHARACTERS_MAX = 1024 * 1024
/** The size of the cache of compiled schemas. All manifests of one table share one schema. */
const COMPILED_LIMIT = 256

const MAGIC = Buffer.from('Obj\x01', 'latin1')
const SYNC_BYTES = 16

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
const readers = new WeakMap<Adapt, Map<string, ReadValue>>()

function readerOf(text: string, adapt: Adapt): ReadValue {
  const cached = readers.get(adapt) ?? new Map<string, ReadValue>()
  readers.set(adapt, cached)
  const known = cached.get(text)
  if (known) return known
  if (text.length > SCHEMA_CHARACTERS_MAX)
    throw new BadAvro(`an Avro schema of ${text.length} characters, more than ${SCHEMA_CHARACTERS_MAX}`)
  const read = readerOfSchema(adapt(JSON.parse(text)))
  if (cached.size >= COMPILED_LIMIT) cached.clear()
  cached.set(text, read)
  return read
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

/** A file whose records are decoded while they are read. */
interface OpenAvro {
  /** The schema as JSON text. */
  readonly schema: string
  /** Key metadata of the file, without avro.schema and avro.codec. */
  readonly metadata: Readonly<Record<string, string>>
  /** Each batch takes some milliseconds. @throws BadAvro */
  readonly batches: Generator<readonly AvroRecord[]>
}

/**
 * Reads the header of a file. `adapt` must be a long-lived function, because the compiled readers are cached under it.
 * @throws BadAvro
 */
export function openAvro(bytes: Uint8Array, adapt: Adapt): OpenAvro {
  return readable(() => {
    const cursor = new Cursor(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength))
    if (bytes.length < MAGIC.length || !cursor.take(MAGIC.length).equals(MAGIC))
      throw new BadAvro('not an Avro file')
    const { 'avro.schema': schema, 'avro.codec': codec = 'null', ...metadata } = readTexts(cursor)
    const sync = cursor.take(SYNC_BYTES)
    if (schema === undefined) throw new BadAvro('incomplete Avro header')
    const read = readerOf(schema, adapt)
    return { schema, metadata, batches: batchesOf(cursor, { codec, sync, read }) }
  })
}

function readable<T>(read: () => T): T {
  try {
    return read()
  } catch (cause) {
    if (cause instanceof BadAvro) throw cause
    throw new BadAvro(`not a readable Avro file: ${cause instanceof Error ? cause.message : String(cause)}`, {
      cause,
    })
  }
}

interface Blocks {
  readonly codec: string
  readonly sync: Buffer
  readonly read: ReadValue
}

function* batchesOf(file: Cursor, blocks: Blocks): Generator<readonly AvroRecord[]> {
  let inflatedLeft = INFLATED_BYTES_MAX
  let recordsLeft = RECORDS_MAX
  let valuesLeft = VALUES_MAX
  while (!file.isAtEnd) {
    const { block, count } = readable(() => nextBlock(file, blocks, { inflatedLeft, recordsLeft }))
    if (blocks.codec !== 'null') inflatedLeft -= block.bytes.length
    recordsLeft -= count
    // Blocks without records take time, too.
    if (count === 0) yield []
    for (let left = count; left > 0; ) {
      const batch = readable(() => nextBatch(block, blocks.read, left))
      left -= batch.length
      if (block.values > valuesLeft)
        throw new BadAvro(`an Avro file with more than ${VALUES_MAX} values: write smaller manifests`)
      yield batch
    }
    valuesLeft -= block.values
    if (!block.isAtEnd) throw new BadAvro('an Avro block has more bytes than its records')
  }
}

function nextBlock(
  file: Cursor,
  { codec, sync }: Blocks,
  { inflatedLeft, recordsLeft }: { inflatedLeft: number; recordsLeft: number },
) {
  const count = file.long()
  if (count < 0 || count > recordsLeft)
    throw new BadAvro(`an Avro file with a block of ${count} records: at most ${RECORDS_MAX} can be read`)
  const data = file.take(file.long())
  if (!file.take(SYNC_BYTES).equals(sync)) throw new BadAvro('truncated Avro file')
  return { count, block: new Cursor(inflate(codec, data, Math.min(inflatedLeft, BLOCK_INFLATED_BYTES_MAX))) }
}

function nextBatch(block: Cursor, read: ReadValue, left: number): AvroRecord[] {
  const batch: AvroRecord[] = []
  const end = block.at + BATCH_BYTES
  const valuesEnd = block.values + BATCH_VALUES
  while (batch.length < left && batch.length < BLOCK_RECORDS && block.at < end && block.values < valuesEnd) {
    block.beginRecord()
    const record = read(block)
    if (typeof record !== 'object' || record === null) throw new BadAvro('an Avro file without records')
    batch.push(record as AvroRecord)
  }
  // A batch has at least one record, also when the block is at its end.
  return batch
}

function inflate(codec: string, data: Buffer, maxOutputLength: number): Buffer {
  if (codec === 'null') return data
  if (codec === 'deflate') return inflateRawSync(data, { maxOutputLength: Math.max(1, maxOutputLength) })
  throw new BadAvro(`Avro codec ${codec} is not supported: use null or deflate`)
}

function withoutInt64(schema: AvroSchema): AvroSchema {
  return JSON.parse(
    JSON.stringify(schema, (_name, part) =>
      part?.logicalType === INT64.logicalType ? (part.declared ?? 'long') : part,
    ),
  )
}
