/**
 * A small DuckDB result as the JSON text of its rows, at once: the text that `arrow-json-text.ts` makes of the Arrow stream of
 * `arrow.ts`, without the stream, which is most of the work where rows are few.
 */
import type { DuckDBMaterializedResult } from '@duckdb/node-api'
import type { ArrowSummary } from './arrow.ts'
import { columnReader } from './arrow-column.ts'
import type { JsonColumn } from './arrow-json.ts'
import { rowWriter } from './arrow-json-text.ts'
import { JsonBytes } from './json-bytes.ts'
import { columnVector } from './vector.ts'

export interface SmallJson extends Omit<ArrowSummary, 'rowsRead'> {
  columns: JsonColumn[]
  /** Rows as objects keyed by column name, in UTF-8: `{"a":1},{"a":2}`. */
  text: Uint8Array
}

export interface SmallJsonLimits {
  /** Rows after it are left out. */
  rowsLimit?: number
  /** Of the values, as Arrow has them, and of the names that stand before each. */
  bytesMax: number
}

const COMMA = 44

/** Null: the result is not small. */
export function smallJsonOf(
  result: DuckDBMaterializedResult,
  { rowsLimit = Number.POSITIVE_INFINITY, bytesMax }: SmallJsonLimits,
): SmallJson | null {
  const readers = result.columnNames().map((name, index) => columnReader(name, result.columnType(index)))
  const { columns, keysLength, write } = rowWriter(readers.map(({ field }) => field))
  const out = new JsonBytes()
  let rows = 0
  let bytes = 0
  let truncated = false
  for (let index = 0; index < result.chunkCount && !truncated; index += 1) {
    const chunk = result.getChunk(index)
    const count = Math.min(chunk.rowCount, rowsLimit - rows)
    truncated = count < chunk.rowCount
    if (count === 0) continue
    const children = readers.map(({ read }, column) =>
      read(columnVector(chunk, column), { size: chunk.rowCount, count }),
    )
    for (const { byteLength } of children) bytes += byteLength
    bytes += count * keysLength
    if (bytes > bytesMax) return null
    if (rows > 0) out.byte(COMMA)
    write(children, count, out)
    rows += count
  }
  return { columns, text: out.end(), rows, truncated }
}
