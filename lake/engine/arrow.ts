// Writes a DuckDB result as an Arrow IPC stream, column by column. No JavaScript value is created per cell when the two formats
// have the same layout. Each field's metadata `sluice.type` holds the engine's type name, also for nested fields.
//
// Types without an exact Arrow type are written as text: HUGEINT, UHUGEINT, BIGNUM, INTERVAL, BIT, UUID, ENUM, UNION, VARIANT,
// TIME WITH TIME ZONE. A GEOMETRY is written as its bytes (WKB).
import type { DuckDBDataChunk, DuckDBResult } from '@duckdb/node-api'
import { AsyncByteQueue, makeData, RecordBatch, RecordBatchStreamWriter, Schema, Struct } from 'apache-arrow'
import { type ColumnReader, columnReader } from './arrow-column.ts'
import { JsonTooLarge } from './json-bytes.ts'
import { leastJsonBytes, uniqueNames } from './json-shape.ts'
import { chunksOf } from './rows.ts'
import { columnVector } from './vector.ts'

export interface ArrowLimits {
  /** Further rows are left out. */
  rowsLimit?: number
  /** The size of the whole stream. A larger stream throws `ResultTooLarge`. */
  bytesLimit?: number
  /** A limit for the JSON text of the stream, checked against a lower bound of its size. Throws `JsonTooLarge`. */
  jsonBytesMax?: number
}

export interface ArrowSummary {
  rows: number
  /** True when the result has more rows than the limit. */
  truncated: boolean
  /** Rows of the result up to the end of the last fetched chunk. */
  rowsRead: number
}

export class ResultTooLarge extends Error {
  override readonly name = 'ResultTooLarge'
  constructor(bytesLimit: number) {
    super(`the result is larger than ${bytesLimit} bytes: select fewer rows or columns`)
  }
}

/**
 * Writes the whole stream: the schema, then a batch per chunk of the engine (2048 rows), then the end. A streaming result is
 * computed while it is read, and no further than the row limit. Throws `EngineError`, `ResultTooLarge` and `JsonTooLarge`.
 */
export async function arrowBytes(
  result: DuckDBResult,
  limits: ArrowLimits = {},
): Promise<ArrowSummary & { bytes: Uint8Array }> {
  const writer = new ChunkWriter(result, limits)
  for await (const chunk of chunksOf(result)) {
    writer.add(chunk)
    if (writer.summary.truncated) break
  }
  return { ...writer.summary, bytes: writer.end() }
}

/** Converts the chunks of one result to the batches of one stream, up to the limits. */
class ChunkWriter {
  readonly #columns: readonly ColumnReader[]
  readonly #schema: Schema
  readonly #pieces: LimitedQueue
  readonly #writer = new RecordBatchStreamWriter()
  readonly #rowsLimit: number
  readonly #jsonBytesMax: number
  #jsonBytes = 0
  readonly summary: ArrowSummary = { rows: 0, truncated: false, rowsRead: 0 }

  constructor(
    result: DuckDBResult,
    {
      rowsLimit = Number.POSITIVE_INFINITY,
      bytesLimit = Number.POSITIVE_INFINITY,
      jsonBytesMax = Number.POSITIVE_INFINITY,
    }: ArrowLimits,
  ) {
    // Arrow's record batches identify columns by name. A repeated name with another type would end the stream.
    const names = uniqueNames(result.columnNames())
    this.#columns = names.map((name, index) => columnReader(name, result.columnType(index)))
    this.#schema = new Schema(this.#columns.map(({ field }) => field))
    this.#pieces = new LimitedQueue(bytesLimit)
    this.#rowsLimit = rowsLimit
    this.#jsonBytesMax = jsonBytesMax
    // Writes the schema.
    this.#writer.reset(this.#pieces, this.#schema)
  }

  add(chunk: DuckDBDataChunk): void {
    const { summary } = this
    const count = Math.min(chunk.rowCount, this.#rowsLimit - summary.rows)
    if (count > 0) this.#write(chunk, count)
    summary.rows += count
    summary.rowsRead += chunk.rowCount
    summary.truncated = count < chunk.rowCount
  }

  #write(chunk: DuckDBDataChunk, count: number): void {
    const rows = { size: chunk.rowCount, count }
    const children = this.#columns.map(({ read }, index) => read(columnVector(chunk, index), rows))
    const type = new Struct(this.#schema.fields)
    const data = makeData({ type, length: count, nullCount: 0, children })
    this.#jsonBytes += leastJsonBytes(data, data)
    if (this.#jsonBytes > this.#jsonBytesMax) throw new JsonTooLarge(this.#jsonBytesMax)
    this.#writer.write(new RecordBatch(this.#schema, data))
  }

  /** Closes the stream and returns its bytes. */
  end(): Uint8Array {
    this.#writer.close()
    return this.#pieces.toUint8Array(true)
  }
}

/** The output of Arrow's stream writer, up to a limit. */
class LimitedQueue extends AsyncByteQueue<Uint8Array> {
  readonly #bytesLimit: number
  #bytes = 0

  constructor(bytesLimit: number) {
    super()
    this.#bytesLimit = bytesLimit
  }

  override write(piece: Uint8Array): void {
    this.#bytes += piece.byteLength
    if (this.#bytes > this.#bytesLimit) throw new ResultTooLarge(this.#bytesLimit)
    super.write(piece)
  }
}
