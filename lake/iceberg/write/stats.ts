// Converts the statistics of DuckDB's COPY (RETURN_STATS) to the metrics of an Iceberg data file.

import { quoteIdentifier } from '../../quote.ts'
import { boundsFromText, InfiniteValue } from '../format/bounds.ts'
import type { ColumnMetrics } from '../format/data-file.ts'
import { fieldsOf, type LeafOrBranch, type StructType, UnsupportedColumn } from '../format/types.ts'
import { sqlType } from '../sql/sql.ts'

/**
 * One row of COPY's result from DuckDBResultReader.getRowObjectsJS(), which returns maps as lists of entries. The keys of the
 * statistics are quoted paths: `"l"."element"`.
 */
export interface CopyResult {
  readonly filename: string
  readonly count: bigint
  readonly file_size_bytes: bigint
  readonly column_statistics: readonly Entry<readonly Entry<string>[]>[]
}

interface Entry<V> {
  readonly key: string
  readonly value: V
}

/** Checks one row of COPY's result. @throws TypeError for any other row, for example without RETURN_STATS */
export function copyResultFrom(row: Readonly<Record<string, unknown>>): CopyResult {
  const { filename, count, file_size_bytes, column_statistics } = row
  if (
    typeof filename !== 'string' ||
    typeof count !== 'bigint' ||
    typeof file_size_bytes !== 'bigint' ||
    !Array.isArray(column_statistics)
  ) {
    throw new TypeError('unexpected result of COPY: columns of RETURN_STATS are missing')
  }
  return { filename, count, file_size_bytes, column_statistics }
}

/** The metrics of a data file that was written locally and is not yet in the lake. */
export interface FileMetrics {
  readonly recordCount: number
  readonly sizeBytes: number
  /** Metrics by field id. */
  readonly columns: ReadonlyMap<number, ColumnMetrics>
}

/**
 * The metrics of a file that COPY wrote with the fields of `written`.
 * @throws UnsupportedColumn for an infinite date or timestamp, which a table cannot hold
 */
export function metricsOf(written: StructType, result: CopyResult): FileMetrics {
  const statistics = new Map(result.column_statistics.map(({ key, value }) => [key, value]))
  const columns = new Map<number, ColumnMetrics>()
  for (const field of fieldsOf(written)) {
    const entries = statistics.get(field.path.map(quoteIdentifier).join('.'))
    if (entries)
      columns.set(field.id, columnMetrics(field, new Map(entries.map(({ key, value }) => [key, value]))))
  }
  return { recordCount: Number(result.count), sizeBytes: Number(result.file_size_bytes), columns }
}

function columnMetrics(field: LeafOrBranch, statistics: ReadonlyMap<string, string>): ColumnMetrics {
  const count = (name: string) => {
    const text = statistics.get(name)
    return text === undefined ? undefined : Number(text)
  }
  return {
    sizeBytes: count('column_size_bytes'),
    valueCount: count('num_values'),
    nullCount: count('null_count'),
    // DuckDB reports whether NaNs exist, but not their number.
    nanCount: statistics.get('has_nan') === 'false' ? 0 : undefined,
    ...bounds(field, statistics),
  }
}

function bounds(field: LeafOrBranch, statistics: ReadonlyMap<string, string>) {
  const min = statistics.get('min')
  const max = statistics.get('max')
  if (min === undefined || max === undefined || typeof field.type !== 'string') return {}
  // Iceberg's bounds exclude NaN, but DuckDB sorts NaN as the greatest number. No bounds are safe for all readers.
  if (statistics.get('has_nan') === 'true') return {}
  try {
    const encoded = boundsFromText(field.type, min, max)
    // Bounds of repeated values do not bound rows, so readers expect none.
    return field.isRepeated ? {} : encoded
  } catch (cause) {
    if (!(cause instanceof InfiniteValue)) throw cause
    const type = sqlType(field.type)
    throw new UnsupportedColumn(
      field.path.join('.'),
      `infinite ${type}`,
      null,
      'replace it, for example by NULL',
    )
  }
}
