// Decodes Avro values that another engine may have written. A reader only moves forward, never reads beyond the bytes present,
// and does a bounded number of steps per byte. So the time of a file grows with its bytes, whatever its counts claim.

import type { Buffer } from 'node:buffer'
import { type AvroSchema, BadAvro, INT64 } from './avro-schema.ts'

/** Iceberg's schemas have five levels. A deeper schema would exhaust the stack. */
const SCHEMA_LEVELS_MAX = 32
/** Values without bytes (null, empty records) are limited by the bytes present. An entry of a manifest has one per four bytes. */
const EMPTY_VALUES_PER_BYTE = 8
const EMPTY_VALUES_FREE = 1_000
/**
 * Nulls, records, and items of arrays and maps in one record of a file. A manifest entry has twelve for each column of its table. A
 * record is decoded at once, so this bounds its time (0.1 s) and its memory.
 */
const VALUES_PER_RECORD_MAX = 400_000
/** The bytes of the longest 64-bit number. */
const LONG_BYTES_MAX = 10

/** Reads one value and moves the cursor behind it. */
export type ReadValue = (cursor: Cursor) => unknown

/** A position in bytes. Every method throws BadAvro instead of reading beyond the end. */
export class Cursor {
  at = 0
  readonly bytes: Buffer
  /** Nulls, records and items so far. */
  values = 0
  #emptyValuesLeft: number
  #valuesOfRecordMax = VALUES_PER_RECORD_MAX

  constructor(bytes: Buffer) {
    this.bytes = bytes
    this.#emptyValuesLeft = EMPTY_VALUES_FREE + EMPTY_VALUES_PER_BYTE * bytes.length
  }

  get isAtEnd(): boolean {
    return this.at >= this.bytes.length
  }

  /** Counts a value that may have no bytes. */
  countEmpty(): void {
    this.#emptyValuesLeft -= 1
    if (this.#emptyValuesLeft < 0) throw new BadAvro('more values than the Avro file has bytes for')
    this.countItem()
  }

  /** Counts an item of an array or a map. */
  countItem(): void {
    this.values += 1
    if (this.values > this.#valuesOfRecordMax)
      throw new BadAvro(`a record of an Avro file has more than ${VALUES_PER_RECORD_MAX} values`)
  }

  /** Begins another record of the file. */
  beginRecord(): void {
    this.#valuesOfRecordMax = this.values + VALUES_PER_RECORD_MAX
  }

  byte(): number {
    const byte = this.bytes[this.at]
    if (byte === undefined) throw truncated()
    this.at += 1
    return byte
  }

  /** A view of the next bytes. */
  take(length: number): Buffer {
    if (!(length >= 0 && length <= this.bytes.length - this.at)) throw truncated()
    const start = this.at
    this.at += length
    return this.bytes.subarray(start, this.at)
  }

  /** An integer of at most 53 bits. */
  long(): number {
    let byte = this.byte()
    // Most numbers are short, and 32-bit operators suffice for four bytes.
    let low = byte & 0x7f
    for (let shift = 7; byte >= 0x80 && shift < 28; shift += 7) {
      byte = this.byte()
      low |= (byte & 0x7f) << shift
    }
    if (byte < 0x80) return (low >>> 1) ^ -(low & 1)
    let unsigned = low
    let factor = 2 ** 28
    for (let length = 5; byte >= 0x80; length += 1, factor *= 128) {
      if (length > LONG_BYTES_MAX) throw new BadAvro('an Avro integer of more than 64 bits')
      byte = this.byte()
      unsigned += (byte & 0x7f) * factor
    }
    const value = low & 1 ? -(unsigned + 1) / 2 : unsigned / 2
    if (!Number.isSafeInteger(value) || unsigned > 2 * Number.MAX_SAFE_INTEGER)
      throw new BadAvro('an Avro integer of more than 53 bits')
    return value
  }

  int64(): bigint {
    let unsigned = 0n
    for (let length = 0; length < LONG_BYTES_MAX; length += 1) {
      const byte = this.byte()
      unsigned |= BigInt(byte & 0x7f) << BigInt(7 * length)
      if (byte < 0x80) return BigInt.asIntN(64, (unsigned >> 1n) ^ -(unsigned & 1n))
    }
    throw new BadAvro('an Avro integer of more than 64 bits')
  }

  text(): string {
    const length = this.long()
    if (!(length >= 0 && length <= this.bytes.length - this.at)) throw truncated()
    const start = this.at
    this.at += length
    return this.bytes.toString('utf8', start, this.at)
  }

  /** Begins a block of an array or a map, and returns its number of items; 0 after the last block. */
  block(): number {
    const count = this.long()
    // A negative count is followed by the size of the block in bytes.
    if (count < 0) this.long()
    return Math.abs(count)
  }
}

const truncated = () => new BadAvro('truncated Avro file')

const float = (cursor: Cursor) => cursor.take(4).readFloatLE(0)
const double = (cursor: Cursor) => cursor.take(8).readDoubleLE(0)

function boolean(cursor: Cursor): boolean {
  const byte = cursor.byte()
  if (byte > 1) throw new BadAvro(`an Avro boolean with the value ${byte}`)
  return byte === 1
}

function nothing(cursor: Cursor): null {
  cursor.countEmpty()
  return null
}

const PRIMITIVES: ReadonlyMap<unknown, ReadValue> = new Map<unknown, ReadValue>([
  ['null', nothing],
  ['boolean', boolean],
  ['int', (cursor) => cursor.long()],
  ['long', (cursor) => cursor.long()],
  ['float', float],
  ['double', double],
  ['bytes', (cursor) => cursor.take(cursor.long())],
  ['string', (cursor) => cursor.text()],
])

/** Returns the reader of a schema. A type cannot contain itself, because no file of Iceberg needs that. @throws BadAvro */
export function readerOfSchema(schema: AvroSchema): ReadValue {
  return compiled(schema, new Map(), 1)
}

type Named = Map<string, ReadValue>

function compiled(schema: AvroSchema, named: Named, level: number): ReadValue {
  if (level > SCHEMA_LEVELS_MAX) throw new BadAvro(`an Avro schema of more than ${SCHEMA_LEVELS_MAX} levels`)
  const known = PRIMITIVES.get(schema) ?? (typeof schema === 'string' ? named.get(schema) : undefined)
  if (known !== undefined) return known
  if (Array.isArray(schema)) return union(schema.map((branch) => compiled(branch, named, level + 1)))
  if (typeof schema !== 'object' || schema === null) throw unknown(schema)
  const parts: object = schema
  const get = (name: string): unknown => Reflect.get(parts, name)
  switch (get('type')) {
    case 'record':
      return define(get('name'), record(get('fields'), named, level), named)
    case 'array':
      return array(compiled(get('items') as AvroSchema, named, level + 1))
    case 'map':
      return map(compiled(get('values') as AvroSchema, named, level + 1))
    case 'fixed':
      return define(get('name'), fixed(get('size')), named)
    case 'enum':
      return define(get('name'), symbol(get('symbols')), named)
    case 'long':
      return get('logicalType') === INT64.logicalType ? (cursor) => cursor.int64() : (cursor) => cursor.long()
    default:
      return compiled(get('type') as AvroSchema, named, level + 1)
  }
}

const unknown = (type: unknown) =>
  new BadAvro(`the unknown Avro type ${String(JSON.stringify(type)).slice(0, 100)}`)

function define(name: unknown, read: ReadValue, named: Named): ReadValue {
  if (typeof name !== 'string') throw new BadAvro('an Avro type without a name')
  named.set(name, read)
  return read
}

function union(branches: readonly ReadValue[]): ReadValue {
  return (cursor) => {
    const index = cursor.long()
    const read = branches[index]
    if (read === undefined) throw new BadAvro(`the unknown branch ${index} of an Avro union`)
    return read(cursor)
  }
}

function record(fields: unknown, named: Named, level: number): ReadValue {
  if (!Array.isArray(fields)) throw new BadAvro('an Avro record without fields')
  const names: string[] = []
  const reads: ReadValue[] = []
  for (const { name, type } of fields) {
    if (typeof name !== 'string' || name === '__proto__')
      throw new BadAvro('a field of an Avro record has no name')
    names.push(name)
    reads.push(compiled(type, named, level + 1))
  }
  return (cursor) => {
    cursor.countEmpty()
    const values: Record<string, unknown> = {}
    for (let i = 0; i < names.length; i += 1) values[names[i] as string] = (reads[i] as ReadValue)(cursor)
    return values
  }
}

const array =
  (read: ReadValue): ReadValue =>
  (cursor) => {
    const values: unknown[] = []
    // Each item needs bytes or counts as empty, so a claimed count cannot exceed them.
    for (let left = cursor.block(); left > 0; left = cursor.block())
      for (; left > 0; left -= 1) {
        cursor.countItem()
        values.push(read(cursor))
      }
    return values
  }

const map =
  <T>(read: (cursor: Cursor) => T) =>
  (cursor: Cursor): Record<string, T> => {
    const entries: [string, T][] = []
    for (let left = cursor.block(); left > 0; left = cursor.block())
      for (; left > 0; left -= 1) {
        cursor.countItem()
        entries.push([cursor.text(), read(cursor)])
      }
    return Object.fromEntries(entries)
  }

/** Reads a map of texts, as in the header of a file. */
export const readTexts = map((cursor) => cursor.text())

function fixed(size: unknown): ReadValue {
  if (typeof size !== 'number' || !Number.isSafeInteger(size) || size < 1)
    throw new BadAvro('a fixed Avro type without a size')
  return (cursor) => cursor.take(size)
}

function symbol(symbols: unknown): ReadValue {
  if (!Array.isArray(symbols)) throw new BadAvro('an Avro enum without symbols')
  return (cursor) => {
    const index = cursor.long()
    const name: unknown = symbols[index]
    if (typeof name !== 'string') throw new BadAvro(`the unknown symbol ${index} of an Avro enum`)
    return name
  }
}
