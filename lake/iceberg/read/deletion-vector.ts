// Reads deletion vectors: bitmaps of deleted rows in Puffin files. Sources:
// https://iceberg.apache.org/puffin-spec/#deletion-vector-v1-blob-type, https://github.com/RoaringBitmap/RoaringFormatSpec

import { crc32 } from 'node:zlib'
import { AuthorError } from '../../pipeline/author-error.ts'

const MAGIC = 0xd1d33964
/** The bytes of the length and of the magic number before the bitmaps. The length counts the magic number. */
const LENGTH_BYTES = 4
const MAGIC_BYTES = 4
const CRC_BYTES = 4
const COOKIE_WITHOUT_RUNS = 12_346
const COOKIE_WITH_RUNS = 12_347
/** With runs, fewer containers have no list of offsets. */
const CONTAINERS_WITH_OFFSETS = 4
/** A container with more values is a bitmap. */
const ARRAY_VALUES_MAX = 4_096
const BITMAP_WORDS = 2_048
const CONTAINER_VALUES = 65_536
const BITMAP_VALUES = 2 ** 32
/** Positions above the safe integers do not exist: no file has as many rows. */
const KEY_MAX = 2 ** 21 - 1

/** A blob is held in memory. A bitmap of this size covers 500 million rows. */
export const VECTOR_BYTES_MAX = 64 * 1_048_576

/** The bytes are not a deletion vector, or not the expected one. */
export class BadDeletionVector extends AuthorError {
  override readonly name = 'BadDeletionVector'
}

const damaged = (reason: string) => new BadDeletionVector(`damaged deletion vector: ${reason}`)

/** Deleted rows from `from` up to `to` (exclusive). */
interface Run {
  readonly from: number
  readonly to: number
}

/**
 * Yields the deleted rows of a blob, in order. Memory does not grow with the number of rows. The count is checked at the end.
 * @throws BadDeletionVector
 */
export function* deletedRuns(blob: Uint8Array, rows: number): Generator<Run> {
  const bytes = new Reader(blob)
  let found = 0
  try {
    checkFrame(blob)
    bytes.at = LENGTH_BYTES + MAGIC_BYTES
    const bitmaps = bytes.u64()
    let lastKey = -1
    for (let i = 0; i < bitmaps; i++) {
      const key = bytes.u32()
      if (key <= lastKey || key > KEY_MAX) throw damaged(`unexpected key ${key} of a bitmap`)
      lastKey = key
      for (const { from, to } of runsOfBitmap(bytes)) {
        found += to - from
        if (found > rows) throw damaged(`it deletes more than its ${rows} rows`)
        yield { from: key * BITMAP_VALUES + from, to: key * BITMAP_VALUES + to }
      }
    }
  } catch (cause) {
    // A read behind the end.
    if (cause instanceof RangeError) throw damaged('the bitmap is cut off')
    throw cause
  }
  if (bytes.at !== blob.length - CRC_BYTES)
    throw damaged(`${blob.length - CRC_BYTES - bytes.at} bytes follow the last bitmap`)
  if (found !== rows) throw damaged(`it deletes ${found} rows instead of ${rows}`)
}

function checkFrame(blob: Uint8Array): void {
  const view = new DataView(blob.buffer, blob.byteOffset, blob.byteLength)
  const end = blob.length - CRC_BYTES
  if (view.getUint32(0) !== end - LENGTH_BYTES)
    throw damaged(`its length is ${view.getUint32(0)} instead of ${end - LENGTH_BYTES}`)
  if (view.getUint32(LENGTH_BYTES) !== MAGIC) throw damaged('it has another magic number')
  if (view.getUint32(end) !== crc32(blob.subarray(LENGTH_BYTES, end))) throw damaged('its checksum is wrong')
}

/** Reads integers with the least significant byte first. A read behind the end throws a RangeError. */
class Reader {
  at = 0
  readonly #view: DataView

  constructor(bytes: Uint8Array) {
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  }

  u8 = () => this.#view.getUint8(this.#advance(1))
  u16 = () => this.#view.getUint16(this.#advance(2), true)
  u32 = () => this.#view.getUint32(this.#advance(4), true)
  u64 = () => Number(this.#view.getBigUint64(this.#advance(8), true))

  #advance(bytes: number): number {
    this.at += bytes
    return this.at - bytes
  }
}

/** A bitmap of 32-bit numbers: containers of numbers with equal upper 16 bits. */
function* runsOfBitmap(bytes: Reader): Generator<Run> {
  const cookie = bytes.u32()
  const hasRuns = (cookie & 0xffff) === COOKIE_WITH_RUNS
  if (!hasRuns && cookie !== COOKIE_WITHOUT_RUNS) throw damaged(`a bitmap begins with ${cookie}`)
  const count = hasRuns ? (cookie >>> 16) + 1 : bytes.u32()
  if (count > CONTAINER_VALUES) throw damaged(`a bitmap has ${count} containers`)
  const runFlags = hasRuns ? Array.from({ length: Math.ceil(count / 8) }, bytes.u8) : []
  const containers = Array.from({ length: count }, (_, i) => {
    const isRun = ((runFlags[i >> 3] ?? 0) & (1 << (i & 7))) !== 0
    return { isRun, key: bytes.u16(), values: bytes.u16() + 1 }
  })
  if (!hasRuns || count >= CONTAINERS_WITH_OFFSETS) bytes.at += 4 * count
  let lastKey = -1
  for (const { isRun, key, values } of containers) {
    if (key <= lastKey) throw damaged(`container ${key} follows container ${lastKey}`)
    lastKey = key
    const start = key * CONTAINER_VALUES
    for (const { from, to } of ordered(containerRuns(bytes, { isRun, values })))
      yield { from: start + from, to: start + to }
  }
}

function containerRuns(bytes: Reader, { isRun, values }: { isRun: boolean; values: number }) {
  if (isRun) return storedRuns(bytes)
  return merged(values > ARRAY_VALUES_MAX ? bitmapValues(bytes, values) : arrayValues(bytes, values))
}

function* storedRuns(bytes: Reader): Generator<Run> {
  const count = bytes.u16()
  for (let i = 0; i < count; i++) {
    const from = bytes.u16()
    yield { from, to: from + bytes.u16() + 1 }
  }
}

function* arrayValues(bytes: Reader, values: number): Generator<number> {
  for (let i = 0; i < values; i++) yield bytes.u16()
}

function* bitmapValues(bytes: Reader, values: number): Generator<number> {
  let found = 0
  for (let word = 0; word < BITMAP_WORDS; word++) {
    for (let bits = bytes.u32(); bits !== 0; bits &= bits - 1) {
      found += 1
      yield word * 32 + (31 - Math.clz32(bits & -bits))
    }
  }
  if (found !== values) throw damaged(`a container has ${found} values instead of ${values}`)
}

function* merged(values: Iterable<number>): Generator<Run> {
  let run: Run | undefined
  for (const value of values) {
    if (run !== undefined && value !== run.to) yield run
    run = { from: run !== undefined && value === run.to ? run.from : value, to: value + 1 }
  }
  if (run !== undefined) yield run
}

/** Runs in disorder could count a row twice. */
function* ordered(runs: Iterable<Run>): Generator<Run> {
  let end = 0
  for (const run of runs) {
    if (run.from < end || run.to > CONTAINER_VALUES)
      throw damaged(`a run from ${run.from} to ${run.to} follows row ${end}`)
    end = run.to
    yield run
  }
}

/**
 * The runs as lines of CSV, in parts, for the engine (`table-sql.ts`). Each part takes some milliseconds.
 * @throws BadDeletionVector
 */
export function* deletedLines(blob: Uint8Array, rows: number): Generator<string> {
  let lines: string[] = []
  let values = 0
  let runs = 0
  for (const { from, to } of deletedRuns(blob, rows)) {
    lines.push(`${from},${to}\n`)
    values += to - from
    runs += 1
    if (runs > RUNS_MAX) throw damaged(`it has more than ${RUNS_MAX} ranges of rows`)
    if (lines.length < LINES_PER_PART && values < VALUES_PER_PART) continue
    yield lines.join('')
    lines = []
    values = 0
  }
  yield lines.join('')
}

const LINES_PER_PART = 16_384
/** A bitmap takes time for each value, also when its values are one range. */
const VALUES_PER_PART = 262_144
/** The lines of more ranges would take more than 200 MB on the disk of each machine that reads the table. */
const RUNS_MAX = 10_000_000
