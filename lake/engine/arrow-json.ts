// Converts Arrow IPC from `arrow.ts` to JSON in chunks, without the engine. Bytes are counted while they are written. After
// each slice of a few milliseconds other tasks run, also inside one long value.
import { setImmediate as turn } from 'node:timers/promises'
import { type Data, type Field, makeData, RecordBatchReader, Struct } from 'apache-arrow'
import { type Batch, batchesOf } from './arrow-batches.ts'
import { JsonBytes, JsonTooLarge } from './json-bytes.ts'
import { fieldsOf, valuesOf } from './json-cells.ts'
import { type JsonColumn, jsonColumns, leastJsonBytes } from './json-shape.ts'

export interface JsonRows {
  columns: JsonColumn[]
  /** The rows with commas between them, in UTF-8: `{"a":1},{"a":2}`. */
  chunks: Uint8Array<ArrayBuffer>[]
}

export interface JsonOptions {
  /** `objects` are keyed by column name, `arrays` have the order of the columns. */
  shape: 'objects' | 'arrays'
  /** The largest number of rows that the stream may hold. */
  rows: number
  /** The largest size of the text; unlimited when absent. */
  bytesMax?: number
  /** Awaited once, when the text exceeds 1 MB. The caller can limit how many large texts are written at once. */
  beforeLarge?: () => Promise<void>
  signal?: AbortSignal
}

/** The names and types of a result's columns need more bytes than `SCHEMA_BYTES_MAX`. */
export class SchemaTooLarge extends Error {
  override readonly name = 'SchemaTooLarge'
}

/** Throws `JsonTooLarge`, `SchemaTooLarge`, RangeError when the stream contradicts itself, and the signal's reason. */
export async function arrowToJson(
  ipc: Uint8Array,
  { shape, rows, bytesMax = Number.POSITIVE_INFINITY, beforeLarge, signal }: JsonOptions,
): Promise<JsonRows> {
  const schemaBytes = schemaBytesOf(ipc)
  // Each step on a schema of many columns takes up to 0.1 s, so other tasks run between two steps.
  const pauseIfWide = async () => {
    if (schemaBytes > WIDE_SCHEMA_BYTES) await turn()
  }
  const reader = RecordBatchReader.from(ipc).open()
  const { fields } = reader.schema
  await pauseIfWide()
  const columns = jsonColumns(fields)
  const rowsOf = fieldsOf(fields, shape === 'arrays')
  await pauseIfWide()
  const out = new JsonBytes(bytesMax)
  const chunks: Uint8Array<ArrayBuffer>[] = []
  let [bytes, isLarge] = [0, false]
  let least = 0
  let isFirst = true
  for (const batch of batchesOf(reader, { rows, bytes: ipc.byteLength })) {
    await pauseIfWide()
    const data = asStruct(fields, batch)
    least += shape === 'objects' ? leastJsonBytes(data, data) : 0
    if (least > bytesMax) throw new JsonTooLarge(bytesMax)
    if (!isFirst) out.byte(COMMA)
    isFirst = false
    const slices = valuesOf(rowsOf(data, { out, bytesMax }), 0, batch.rows, out)
    await pauseIfWide()
    while (!slices.next().done) {
      if (out.length >= CHUNK_BYTES) {
        bytes += out.length
        chunks.push(out.drain())
      }
      if (!isLarge && bytes > LARGE_BYTES) {
        isLarge = true
        await beforeLarge?.()
      }
      await turn()
      signal?.throwIfAborted()
    }
  }
  if (out.length > 0) chunks.push(out.drain())
  return { columns, chunks }
}

const COMMA = 44
/** Large enough for an efficient network write, and small enough to be compressed in a few milliseconds. */
const CHUNK_BYTES = 65_536
const LARGE_BYTES = 1_048_576

/** Arrow reads a schema in one step: a schema of this size takes 30 ms. Ten thousand plain columns need 1.5 MB. */
const SCHEMA_BYTES_MAX = 2 * 1_048_576
/** Precedes the length of a message in the stream (https://arrow.apache.org/docs/format/Columnar.html). */
const CONTINUATION = -1
const CONTINUATION_BYTES = 4

/** A step on a schema of this size, 400 plain columns, takes a few milliseconds. */
const WIDE_SCHEMA_BYTES = 65_536

/** The length of the schema, which is the first message of the stream and follows its length. Throws SchemaTooLarge. */
function schemaBytesOf(ipc: Uint8Array): number {
  if (ipc.byteLength < 2 * CONTINUATION_BYTES) return 0
  const start = new DataView(ipc.buffer, ipc.byteOffset)
  const first = start.getInt32(0, true)
  // Arrow also reads streams of its first format, which have no marker before the length.
  const length = first === CONTINUATION ? start.getInt32(CONTINUATION_BYTES, true) : first
  if (length > SCHEMA_BYTES_MAX)
    throw new SchemaTooLarge(
      `column names and types need ${length} bytes, more than the limit of ${SCHEMA_BYTES_MAX}: select fewer columns`,
    )
  return length
}

/** The batch as one column of objects. */
const asStruct = (fields: readonly Field[], { columns, rows }: Batch): Data =>
  makeData({ type: new Struct([...fields]), length: rows, nullCount: 0, children: columns })
