// The distribution of rows over files. A change rewrites whole files, so files are small compared to their table. A reader
// opens every file, so files are no smaller than necessary (docs/adr/0014-copy-on-write.md).

/**
 * Rows per file of a table with a key, and per row group. A row group of this size reads as fast as a larger one. The engine
 * holds a whole row group, and twice as many rows of 8 kB exhaust 1 GiB.
 */
export const FILE_ROWS = 65_536
/** The largest number of rows per file of a large table. Rewriting such a file takes about a second. */
const FILE_ROWS_LIMIT = 1_048_576
/** The size of a new file of a table without a key. */
export const FILE_BYTES = 134_217_728
/** A large table has at least this many files, so that a change in one place rewrites at most two of them. */
const FILES_OF_LARGE_TABLE = 160

/** The number of rows per new file in a table with `tableRows` rows. */
export const fileRowsFor = (tableRows: number): number =>
  Math.min(FILE_ROWS_LIMIT, Math.max(FILE_ROWS, Math.ceil(tableRows / FILES_OF_LARGE_TABLE)))

/** Snappy, because queries of TPC-H need 1.3 times the processor time with zstd (docs/adr/0051-file-size.md). */
export const CODEC = 'snappy'

/** Properties of new tables. Other writers read them, so all files of a table have the same layout. */
export const LAYOUT_PROPERTIES = {
  'write.parquet.compression-codec': CODEC,
  'write.parquet.row-group-limit': String(FILE_ROWS),
} as const
export const FILE_SIZE_PROPERTY = 'write.target-file-size-bytes'
/** Another engine may have stored any size. */
const FILE_BYTES_MIN = 1_048_576
const FILE_BYTES_MAX = 536_870_912

/** The file size that a table's properties ask for, within the limits. */
export function fileBytesOf(properties: Readonly<Record<string, string>> | undefined): number {
  const bytes = Number(properties?.[FILE_SIZE_PROPERTY] ?? FILE_BYTES)
  return Number.isFinite(bytes)
    ? Math.min(FILE_BYTES_MAX, Math.max(FILE_BYTES_MIN, Math.floor(bytes)))
    : FILE_BYTES
}

/** A file may grow by this factor before it is split. */
const GROWTH = 1.5

/** Divides rows into ranges of about equal size, one per file. */
export function cut(rows: number, fileRows: number): { from: number; to: number }[] {
  if (rows === 0) return []
  const count = rows <= GROWTH * fileRows ? 1 : Math.ceil(rows / fileRows)
  const size = Math.ceil(rows / count)
  return Array.from({ length: Math.ceil(rows / size) }, (_, i) => ({
    from: i * size,
    to: Math.min(rows, (i + 1) * size),
  }))
}

/** When a partition has more small files than this, they are combined. */
export const SMALL_FILES_LIMIT = 8
/** A file with a smaller share of a full file's rows or bytes is small. */
export const SMALL_SHARE = 0.25
/**
 * Files of a table without a key are combined with files of a similar size: the factor between two sizes, and the first size. So
 * a row is rewritten at most four times, however small its first file was.
 */
export const TIER_FACTOR = 8
export const TIER_BYTES = 65_536
/** Rows can be wide, so a larger file is not small. One write combines at most `GATHERED_BYTES` of small files. */
export const SMALL_BYTES = 33_554_432
export const GATHERED_BYTES = 134_217_728
/** The largest number of partitions per write. Each partition needs a file, and a larger number is usually a mistake. */
export const PARTITIONS_LIMIT = 10_000

/**
 * A merge that touches more bytes than this, and than this share of the table, marks rows as deleted instead of rewriting their
 * files (docs/adr/0050-position-deletes.md).
 */
const REWRITTEN_BYTES = 16_777_216
const REWRITTEN_SHARE = 0.05
/** A file with a larger share of deleted rows is rewritten. Readers pay for each deleted row. */
const DELETED_SHARE = 0.1
/** A file with more delete files is rewritten. Readers open each of them. */
export const DELETE_FILES_LIMIT = 32

/** When a merge marks rows as deleted. */
export interface Marking {
  /** Touched files of this size are rewritten. */
  readonly rewrittenBytes: number
  /** A file with a larger share of deleted rows is rewritten. */
  readonly deletedShare: number
}

/** The marking of a table with `tableBytes` bytes. */
export const markingFor = (tableBytes: number): Marking => ({
  rewrittenBytes: Math.max(REWRITTEN_BYTES, tableBytes * REWRITTEN_SHARE),
  deletedShare: DELETED_SHARE,
})

/** The reserved field ids of a position delete file. */
export const FILE_PATH_ID = 2_147_483_546
export const POSITION_ID = 2_147_483_545
