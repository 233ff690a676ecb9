// How rows are laid out in files. One change rewrites whole files, so files are small next to their table; and a reader
// opens each of them, so they are not smaller than that needs (docs/adr/0014-copy-on-write.md).

/** Rows of a file: a row group of this size reads as fast as a larger one. */
export const FILE_ROWS = 65_536
/** No file of a large table holds more: one is rewritten in about a second. */
export const FILE_ROWS_LIMIT = 1_048_576
/** Rows can be wide; the object gateway takes files of up to 1 GiB. */
export const FILE_BYTES = 536_870_912
/** Into so many files at least a large table is cut: a change in one place rewrites two of them at worst. */
const FILES_OF_LARGE_TABLE = 160

/** The rows of a new file in a table of so many rows. */
export const fileRowsFor = (tableRows: number): number =>
  Math.min(FILE_ROWS_LIMIT, Math.max(FILE_ROWS, Math.ceil(tableRows / FILES_OF_LARGE_TABLE)))

/** A file may grow by this much before it is cut in two. */
const GROWTH = 1.5

/** Sizes of the files that so many rows become, about equal. */
export function cut(rows: number, fileRows: number): { from: number; to: number }[] {
  if (rows === 0) return []
  const count = rows <= GROWTH * fileRows ? 1 : Math.ceil(rows / fileRows)
  const size = Math.ceil(rows / count)
  return Array.from({ length: Math.ceil(rows / size) }, (_, i) => ({
    from: i * size,
    to: Math.min(rows, (i + 1) * size),
  }))
}

/** Small files of one partition are gathered into one when they have become so many. */
export const SMALL_FILES_LIMIT = 8
/** A file with fewer rows than this share of a full one is small. */
export const SMALL_SHARE = 0.25
/** Rows can be wide: a larger file is no small one, and no write rewrites more than this for the sake of order alone. */
export const SMALL_BYTES = 33_554_432
export const GATHERED_BYTES = 134_217_728
/** Partitions one write may fill: each is a file, and most are a mistake. */
export const PARTITIONS_LIMIT = 10_000
