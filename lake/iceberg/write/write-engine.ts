// The parts of a write: the engine, the files of the table, and the files that it writes.

import assert from 'node:assert/strict'
import type { PartitionTuple } from '../format/data-file.ts'
import type { Marking } from '../format/layout.ts'
import type { PartitionSpec } from '../format/metadata.ts'
import type { NestedField, Schema } from '../format/types.ts'
import type { Query } from '../read/prune.ts'
import type { TableFile } from '../read/scan.ts'
import { type LocalFile, readTable } from '../read/table-sql.ts'
import type { CopyResult, FileMetrics } from './stats.ts'

/** An instance of the engine that runs SQL of the service. */
export interface WriteEngine {
  run(sql: string): Promise<void>
  /** Returns a small result as text. */
  query: Query
  /** Runs a COPY with RETURN_STATS. */
  copy(sql: string): Promise<readonly CopyResult[]>
}

/** Opens an engine that can read these files of the table. Returns the engine and the local files, in the same order. */
export type OpenFiles = (
  files: readonly TableFile[],
) => Promise<{ engine: WriteEngine; files: readonly LocalFile[] }>

/** A local file of the table, with the number of its rows that are not deleted. */
interface OpenedFile {
  readonly local: LocalFile
  readonly rows: number
}

/** The change of the number of deleted rows when these files are replaced. */
export const undeletedRows = (files: readonly TableFile[], opened: readonly OpenedFile[]): number =>
  opened.reduce((sum, { rows }, i) => sum + rows - (files[i]?.file.recordCount ?? 0), 0)

/** Opens files of the table, and counts the rows of those with deletes. */
export async function openCounted(
  open: OpenFiles,
  schema: Schema,
  files: readonly TableFile[],
): Promise<{ engine: WriteEngine; opened: readonly OpenedFile[] }> {
  const { engine, files: locals } = await open(files)
  assert(locals.length === files.length, `${locals.length} of ${files.length} files of the table were opened`)
  const deleted = locals.filter(({ deletes }) => deletes !== undefined)
  const counts = new Map<string | null | undefined, number>()
  if (deleted.length > 0) {
    const { file } = ownNames(schema)
    const rows = await engine.query(
      `SELECT ${file}, CAST(count(*) AS VARCHAR) FROM ${readTable(schema, deleted, file)} GROUP BY ${file}`,
    )
    for (const [path, rowCount] of rows) counts.set(path, Number(rowCount))
  }
  const opened = locals.map((local, i): OpenedFile => {
    const rows =
      local.deletes === undefined ? (files[i]?.file.recordCount ?? 0) : (counts.get(local.path) ?? 0)
    return { local, rows }
  })
  return { engine, opened }
}

/** A local Parquet file that becomes part of the table. */
export interface WrittenFile extends FileMetrics {
  readonly path: string
  readonly partition: PartitionTuple
}

/** How the rows of a batch change the rows of the table. */
export interface MergeRules {
  /** A row of the table is affected when a row of the batch has the same values in these columns. Never empty. */
  readonly keys: readonly NestedField[]
  /** With a history, affected rows are closed instead of replaced, and only when their values differ. */
  readonly history: History | null
}

export interface History {
  readonly from: NestedField
  readonly to: NestedField
  /** A change in one of these columns makes a new version. */
  readonly values: readonly NestedField[]
  /** The column that orders the versions of a key; null: the order of the result. */
  readonly version: NestedField | null
  /** The time of the change, ISO 8601. */
  readonly at: string
}

export interface Target {
  readonly schema: Schema
  /** The partition spec with the final ids of its fields. */
  readonly spec: PartitionSpec
  /** The number of rows per new file. */
  readonly fileRows: number
  /** The size of a new file; null when files are cut by rows, because their rows are sorted by a key. */
  readonly fileBytes: number | null
  /** The directory of new files. */
  readonly directory: string
  /** Null: no rows are marked as deleted. */
  readonly marking: Marking | null
}

/** A file of the table that the merge may change. */
export interface Candidate extends OpenedFile {
  readonly file: TableFile
  /** The file is small. It is combined with new rows that no other file receives, if any exist. */
  readonly isGathered: boolean
}

/** Names of helper columns that differ from all columns of the table. */
export interface OwnNames {
  readonly row: string
  readonly file: string
  readonly part: string
}

export function ownNames({ fields }: Schema): OwnNames {
  const columnNames = new Set(fields.map(({ name }) => name.toLowerCase()))
  const unusedName = (name: string): string => (columnNames.has(name) ? unusedName(`${name}_`) : name)
  return { row: unusedName('sluice_row'), file: unusedName('sluice_file'), part: unusedName('sluice_part') }
}
