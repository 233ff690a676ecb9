// Reads DuckDB's column memory, which `@duckdb/node-api` wraps, without an object per value. Layouts:
// https://duckdb.org/docs/stable/clients/c/vector. All values are copied, because the memory is freed with
// its chunk.
import type { DuckDBDataChunk } from '@duckdb/node-api'
import duckdb, { type Vector } from '@duckdb/node-bindings'

export type { Vector } from '@duckdb/node-bindings'

/** The items of a vector to read, and their order. */
export interface Rows {
  /** Number of items in the vector. */
  size: number
  /** Number of items to read. */
  count: number
  /** The position of each item. Without it, the first `count` items are read in order. */
  at?: Int32Array
  /** A bitmap over `count`. An item whose parent is NULL has no bit, and its content is never read. */
  within?: Uint8Array
}

/** Marks the rows that are not NULL in a bitmap, least significant bit first, as in both formats. */
export interface Validity {
  /** Absent when no row is NULL. */
  bitmap?: Uint8Array
  nullCount: number
}

export const columnVector = (chunk: DuckDBDataChunk, column: number): Vector =>
  duckdb.data_chunk_get_vector(chunk.chunk, column)

export const listChild = (vector: Vector): { vector: Vector; size: number } => ({
  vector: duckdb.list_vector_get_child(vector),
  size: duckdb.list_vector_get_size(vector),
})

export const structChild = (vector: Vector, index: number): Vector =>
  duckdb.struct_vector_get_child(vector, index)

export const arrayChild = (vector: Vector): Vector => duckdb.array_vector_get_child(vector)

export const hasBit = (bitmap: Uint8Array, index: number): boolean =>
  ((bitmap[index >> 3] ?? 0) & (1 << (index & 7))) !== 0

/** Makes a bitmap of `count` bits. */
export function bitmapOf(count: number, isSet: (index: number) => boolean): Uint8Array {
  const bitmap = new Uint8Array((count + 7) >> 3)
  for (let index = 0; index < count; index += 1)
    if (isSet(index)) bitmap[index >> 3] = (bitmap[index >> 3] ?? 0) | (1 << (index & 7))
  return bitmap
}

export function validityOf(vector: Vector, { size, count, at, within }: Rows): Validity {
  const validity: Uint8Array | null = duckdb.vector_get_validity(vector, Math.ceil(size / 64) * 8)
  if (validity === null && within === undefined) return { nullCount: 0 }
  const bitmap =
    validity === null
      ? within
      : at === undefined && within === undefined
        ? validity.slice(0, (count + 7) >> 3)
        : bitmapOf(
            count,
            (index) =>
              (within === undefined || hasBit(within, index)) && hasBit(validity, at?.[index] ?? index),
          )
  if (bitmap === undefined) return { nullCount: 0 }
  const nullCount = count - setBits(bitmap, count)
  return nullCount === 0 ? { nullCount } : { bitmap, nullCount }
}

const BITS_OF_BYTE = Uint8Array.from(
  { length: 256 },
  (_, byte) => byte.toString(2).replaceAll('0', '').length,
)

/** Bits after the first `count` are ignored. */
function setBits(bitmap: Uint8Array, count: number): number {
  const wholeBytes = count >> 3
  let bits = 0
  for (let index = 0; index < wholeBytes; index += 1) bits += BITS_OF_BYTE[bitmap[index] ?? 0] ?? 0
  for (let index = wholeBytes << 3; index < count; index += 1) if (hasBit(bitmap, index)) bits += 1
  return bits
}

/** The bytes of items with a fixed width, in the order of the rows. */
export function fixedBytes(
  vector: Vector,
  width: number,
  { size, count, at }: Rows,
): Uint8Array<ArrayBuffer> {
  const data = duckdb.vector_get_data(vector, size * width)
  const bytes = new Uint8Array(count * width)
  if (at === undefined) bytes.set(data.subarray(0, bytes.length))
  else
    for (let index = 0; index < count; index += 1) {
      const from = (at[index] ?? 0) * width
      bytes.set(data.subarray(from, from + width), index * width)
    }
  return bytes
}

/** Strings up to this length are stored in the item itself. */
const INLINE_BYTES = 12
const STRING_BYTES = 16

export interface Strings {
  /** `count + 1` offsets into `bytes`. */
  offsets: Int32Array
  bytes: Uint8Array<ArrayBuffer>
}

/** Concatenates texts or blobs. */
export function stringsOf(vector: Vector, { size, count, at }: Rows, { bitmap }: Validity): Strings {
  const data = duckdb.vector_get_data(vector, size * STRING_BYTES)
  const words = new Uint32Array(data.buffer, data.byteOffset, size * 4)
  const offsets = new Int32Array(count + 1)
  let total = 0
  for (let index = 0; index < count; index += 1) {
    if (bitmap === undefined || hasBit(bitmap, index)) total += words[(at?.[index] ?? index) * 4] ?? 0
    offsets[index + 1] = total
  }
  const bytes = new Uint8Array(total)
  for (let index = 0; index < count; index += 1) {
    const to = offsets[index] ?? 0
    const length = (offsets[index + 1] ?? 0) - to
    if (length === 0) continue
    const from = (at?.[index] ?? index) * STRING_BYTES
    if (length <= INLINE_BYTES)
      for (let byte = 0; byte < length; byte += 1) bytes[to + byte] = data[from + 4 + byte] ?? 0
    else bytes.set(duckdb.get_data_from_pointer(ownBuffer(data), data.byteOffset + from + 8, length), to)
  }
  return { offsets, bytes }
}

/** The start and the length of each list in the child vector, as pairs. */
export function listEntries(vector: Vector, { size }: Rows): BigUint64Array {
  const data = duckdb.vector_get_data(vector, size * 16)
  return new BigUint64Array(data.buffer, data.byteOffset, size * 2)
}

/** The binding returns memory of its own, never shared memory. */
function ownBuffer(data: Uint8Array): ArrayBuffer {
  if (data.buffer instanceof ArrayBuffer) return data.buffer
  throw new TypeError('DuckDB column memory is in a shared buffer')
}
