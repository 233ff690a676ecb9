/**
 * A DuckDB result as an Arrow IPC stream, column by column and without a JavaScript value per cell where the two
 * formats agree. Each field's metadata `sluice.type` holds the engine's type name, nested fields too.
 *
 * What Arrow cannot carry as it is travels as text: HUGEINT, UHUGEINT, BIGNUM, INTERVAL, BIT, UUID, ENUM, UNION,
 * VARIANT, TIME WITH TIME ZONE; a GEOMETRY as its bytes (WKB).
 */
import type { DuckDBDataChunk, DuckDBMaterializedResult, DuckDBResult } from '@duckdb/node-api'
import { makeData, RecordBatch, RecordBatchStreamWriter, Schema, Struct } from 'apache-arrow'
import type { ArrayBufferViewInput } from 'apache-arrow/util/buffer'
import { type ColumnReader, columnReader } from './arrow-column.ts'
import { JsonTooLarge } from './json-bytes.ts'
import { leastJsonBytes, uniqueNames } from './json-shape.ts'
import { nextChunk } from './rows.ts'
import { columnVector, type Rows, type Vector } from './vector.ts'

export interface ArrowLimits {
  /** Rows after it are left out. */
  rowsLimit?: number
  /** Of the whole stream; more is a `ResultTooLarge`. */
  bytesLimit?: number
  /** Most bytes of JSON that the stream may become, as far as its shape tells; more is a `JsonTooLarge`. */
  jsonBytesMax?: number
}

export interface ArrowSummary {
  rows: number
  /** There were more rows than the limit. */
  truncated: boolean
  /** Of the result, to the end of its last chunk that was looked at. */
  rowsRead: number
}

export class ResultTooLarge extends Error {
  override readonly name = 'ResultTooLarge'
  constructor(bytesLimit: number) {
    super(`the result is larger than ${bytesLimit} bytes: select fewer rows or columns`)
  }
}

/**
 * The stream in pieces: the schema first, then a batch per chunk of the engine (2048 rows), then the end. A streaming
 * result is computed while it is read; leaving the loop early leaves the rest uncomputed.
 * Throws `EngineError`, `ResultTooLarge` and `JsonTooLarge`.
 */
export async function* arrowStream(
  result: DuckDBResult,
  limits: ArrowLimits = {},
): AsyncGenerator<Uint8Array, ArrowSummary> {
  const writer = new ChunkWriter(result, limits)
  while (!writer.summary.truncated) {
    yield* writer.take()
    const chunk = await nextChunk(result)
    if (chunk === undefined) break
    writer.add(chunk)
  }
  yield* writer.end()
  return writer.summary
}

/** A result that is whole in memory, at once. Throws `ResultTooLarge` and `JsonTooLarge`. */
export function arrowOf(
  result: DuckDBMaterializedResult,
  limits: ArrowLimits = {},
): ArrowSummary & { bytes: Uint8Array } {
  const writer = new ChunkWriter(result, limits)
  for (let index = 0; index < result.chunkCount && !writer.summary.truncated; index += 1)
    writer.add(result.getChunk(index))
  return { ...writer.summary, bytes: concat(writer.end()) }
}

/** The whole stream at once. Throws `EngineError`, `ResultTooLarge` and `JsonTooLarge`. */
export async function arrowBytes(
  result: DuckDBResult,
  limits: ArrowLimits = {},
): Promise<ArrowSummary & { bytes: Uint8Array }> {
  const pieces: Uint8Array[] = []
  const stream = arrowStream(result, limits)
  for (;;) {
    const next = await stream.next()
    if (next.done) return { ...next.value, bytes: concat(pieces) }
    pieces.push(next.value)
  }
}

/** Chunks of one result become batches of one stream, up to the limits. */
class ChunkWriter {
  readonly #columns: readonly ColumnReader[]
  readonly #writer: PieceWriter
  readonly #rowsLimit: number
  readonly summary: ArrowSummary = { rows: 0, truncated: false, rowsRead: 0 }

  constructor(
    result: DuckDBResult,
    {
      rowsLimit = Number.POSITIVE_INFINITY,
      bytesLimit = Number.POSITIVE_INFINITY,
      jsonBytesMax = Number.POSITIVE_INFINITY,
    }: ArrowLimits,
  ) {
    // Arrow's record batches tell columns apart by name: one that repeats with another type would end the stream.
    const names = uniqueNames(result.columnNames())
    this.#columns = names.map((name, index) => columnReader(name, result.columnType(index)))
    const schema = new Schema(this.#columns.map(({ field }) => field))
    this.#writer = new PieceWriter(schema, { bytesLimit, jsonBytesMax })
    this.#rowsLimit = rowsLimit
  }

  add(chunk: DuckDBDataChunk): void {
    const { summary } = this
    const count = Math.min(chunk.rowCount, this.#rowsLimit - summary.rows)
    if (count > 0) {
      const vectors = this.#columns.map((_, index) => columnVector(chunk, index))
      this.#writer.add(this.#columns, vectors, { size: chunk.rowCount, count })
    }
    summary.rows += count
    summary.rowsRead += chunk.rowCount
    summary.truncated = count < chunk.rowCount
  }

  /** What has been written since the last time. */
  take(): Uint8Array[] {
    return this.#writer.take()
  }

  /** The rest. */
  end(): Uint8Array[] {
    this.#writer.end()
    return this.#writer.take()
  }
}

/** Arrow's own stream writer, with its output in our hands instead of a queue. */
class PieceWriter extends RecordBatchStreamWriter {
  readonly #schema: Schema
  readonly #bytesLimit: number
  readonly #jsonBytesMax: number
  #pieces: Uint8Array[] = []
  #bytes = 0
  #jsonBytes = 0

  constructor(
    schema: Schema,
    { bytesLimit, jsonBytesMax = Number.POSITIVE_INFINITY }: { bytesLimit: number; jsonBytesMax?: number },
  ) {
    super()
    this.#schema = schema
    this.#bytesLimit = bytesLimit
    this.#jsonBytesMax = jsonBytesMax
    this.reset(undefined, schema)
  }

  /** A vector for each column. */
  add(columns: readonly ColumnReader[], vectors: readonly Vector[], rows: Rows): void {
    const children = columns.flatMap(({ read }, index) => {
      const vector = vectors[index]
      return vector === undefined ? [] : [read(vector, rows)]
    })
    const type = new Struct(this.#schema.fields)
    const data = makeData({ type, length: rows.count, nullCount: 0, children })
    this.#jsonBytes += leastJsonBytes(data, data)
    if (this.#jsonBytes > this.#jsonBytesMax) throw new JsonTooLarge(this.#jsonBytesMax)
    this.write(new RecordBatch(this.#schema, data))
  }

  end(): void {
    this.close()
  }

  take(): Uint8Array[] {
    const pieces = this.#pieces
    this.#pieces = []
    return pieces
  }

  protected override _write(input: ArrayBufferViewInput): this {
    if (!this._started || !ArrayBuffer.isView(input) || input.byteLength === 0) return this
    this.#bytes += input.byteLength
    if (this.#bytes > this.#bytesLimit) throw new ResultTooLarge(this.#bytesLimit)
    this.#pieces.push(new Uint8Array(input.buffer, input.byteOffset, input.byteLength))
    this._position += input.byteLength
    return this
  }
}

function concat(pieces: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0))
  let at = 0
  for (const piece of pieces) {
    bytes.set(piece, at)
    at += piece.length
  }
  return bytes
}
