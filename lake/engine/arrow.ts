/**
 * A DuckDB result as an Arrow IPC stream, column by column and without a JavaScript value per cell where the two
 * formats agree. Each field's metadata `sluice.type` holds the engine's type name, nested fields too.
 *
 * What Arrow cannot carry as it is travels as text: HUGEINT, UHUGEINT, BIGNUM, INTERVAL, BIT, UUID, ENUM, UNION,
 * VARIANT, TIME WITH TIME ZONE; a GEOMETRY as its bytes (WKB).
 */
import type { DuckDBDataChunk, DuckDBResult } from '@duckdb/node-api'
import { makeData, RecordBatch, RecordBatchStreamWriter, Schema, Struct } from 'apache-arrow'
import type { ArrayBufferViewInput } from 'apache-arrow/util/buffer'
import { type ColumnReader, columnReader } from './arrow-column.ts'
import { nextChunk } from './rows.ts'
import { columnVector } from './vector.ts'

export interface ArrowLimits {
  /** Rows after it are left out. */
  rowsLimit?: number
  /** Of the whole stream; more is a `ResultTooLarge`. */
  bytesLimit?: number
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
 * Throws `EngineError` and `ResultTooLarge`.
 */
export async function* arrowStream(
  result: DuckDBResult,
  { rowsLimit = Number.POSITIVE_INFINITY, bytesLimit = Number.POSITIVE_INFINITY }: ArrowLimits = {},
): AsyncGenerator<Uint8Array, ArrowSummary> {
  const columns = result.columnNames().map((name, index) => columnReader(name, result.columnType(index)))
  const writer = new PieceWriter(new Schema(columns.map(({ field }) => field)), bytesLimit)
  let rows = 0
  let rowsRead = 0
  let truncated = false
  for (;;) {
    yield* writer.take()
    const chunk = await nextChunk(result)
    if (chunk === undefined) break
    const count = Math.min(chunk.rowCount, rowsLimit - rows)
    if (count > 0) writer.add(columns, chunk, count)
    rows += count
    rowsRead += chunk.rowCount
    truncated = count < chunk.rowCount
    if (truncated) break
  }
  writer.end()
  yield* writer.take()
  return { rows, truncated, rowsRead }
}

/** The whole stream at once. Throws `EngineError` and `ResultTooLarge`. */
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

/** Arrow's own stream writer, with its output in our hands instead of a queue. */
class PieceWriter extends RecordBatchStreamWriter {
  readonly #schema: Schema
  readonly #bytesLimit: number
  #pieces: Uint8Array[] = []
  #bytes = 0

  constructor(schema: Schema, bytesLimit: number) {
    super()
    this.#schema = schema
    this.#bytesLimit = bytesLimit
    this.reset(undefined, schema)
  }

  add(columns: readonly ColumnReader[], chunk: DuckDBDataChunk, count: number): void {
    const rows = { size: chunk.rowCount, count }
    const children = columns.map(({ read }, index) => read(columnVector(chunk, index), rows))
    const type = new Struct(this.#schema.fields)
    this.write(new RecordBatch(this.#schema, makeData({ type, length: count, nullCount: 0, children })))
  }

  end(): void {
    this.close()
  }

  /** What has been written since the last time. */
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
