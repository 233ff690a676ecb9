// Replaces files of a table by new files with the same rows. A commit records such files in their own `replace` snapshot.

import { tupleText } from '../format/data-file.ts'
import {
  GATHERED_BYTES,
  SMALL_BYTES,
  SMALL_FILES_LIMIT,
  SMALL_SHARE,
  TIER_BYTES,
  TIER_FACTOR,
} from '../format/layout.ts'
import { currentSchema, currentSnapshot, type TableMetadata } from '../format/metadata.ts'
import type { Schema } from '../format/types.ts'
import { withLineage } from '../read/lineage.ts'
import { liveManifestsOf, type ManifestReader, type TableFile, tableFilesOf } from '../read/scan.ts'
import { readTable } from '../read/table-sql.ts'
import { FileWriter } from './file-writer.ts'
import { type OpenFiles, openCounted, type Target, undeletedRows, type WrittenFile } from './write-engine.ts'

export interface Compacted {
  readonly files: readonly WrittenFile[]
  readonly replaced: readonly TableFile[]
  /** The change of the number of deleted rows in files of the table. */
  readonly deletedRows: number
}

export const NO_FILES: Compacted = { files: [], replaced: [], deletedRows: 0 }

export interface Compaction {
  /** Null when the table does not exist yet. */
  readonly table: TableMetadata | null
  readonly reader: ManifestReader
  readonly open: OpenFiles
  readonly target: Target
  /** The quoted columns by which the rows of a file are sorted. */
  readonly order: readonly string[]
  /** Files that the change itself replaces. */
  readonly replaced: readonly TableFile[]
  /** The number of files that the change has written to the target's directory. */
  readonly written: number
}

/** Widens the files of a table whose types change. Otherwise combines small files. */
export async function compactFiles(compaction: Compaction): Promise<Compacted> {
  const widened = await widenFiles(compaction)
  return widened.replaced.length > 0 ? widened : gatherSmall(keepingLineage(compaction))
}

/** The rows of the new files keep their ids. */
const keepingLineage = (compaction: Compaction): Compaction => {
  const { table, target } = compaction
  return table === null
    ? compaction
    : { ...compaction, target: { ...target, schema: withLineage(target.schema, table) } }
}

/**
 * Rewrites the files with int columns that become long. The vectorized reader of Spark fails on such a file, because DuckDB
 * annotates its int columns with their width. Each file is rewritten alone, so memory holds the rows of one file.
 */
export async function widenFiles(compaction: Compaction): Promise<Compacted> {
  const { table, target } = compaction
  const ids = table === null ? [] : widenedIds(currentSchema(table), target.schema)
  if (table === null || ids.length === 0) return NO_FILES
  const isGone = new Set(compaction.replaced.map(({ file }) => file.location))
  const files = await liveFilesOf(table, compaction.reader)
  const replaced = files.filter(
    ({ file }) => !isGone.has(file.location) && ids.some((id) => file.columns.has(id)),
  )
  if (replaced.length === 0) return NO_FILES
  const { schema } = keepingLineage(compaction).target
  const { engine, opened } = await openCounted(compaction.open, schema, replaced)
  const whole = { ...target, schema, fileRows: Number.POSITIVE_INFINITY, fileBytes: null }
  const writer = new FileWriter(engine, whole, compaction.written)
  for (const { local, rows } of opened) await writer.write(readTable(schema, [local]), rows, compaction.order)
  return { files: writer.files, replaced, deletedRows: undeletedRows(replaced, opened) }
}

/** Whether a schema widens columns of a table, so that files are rewritten. */
export const isWidening = (table: TableMetadata | null, schema: Schema): boolean =>
  table !== null && widenedIds(currentSchema(table), schema).length > 0

/** Nested columns are absent: Spark reads tables with nested columns by its other reader, which accepts such files. */
function widenedIds(before: Schema, after: Schema): number[] {
  const types = new Map(before.fields.map(({ id, type }) => [id, type]))
  return after.fields.filter(({ id, type }) => type === 'long' && types.get(id) === 'int').map(({ id }) => id)
}

/**
 * Combines small files when a partition has many of them. This happens in the commit of the new rows, so readers of the
 * previous commit keep their files.
 */
async function gatherSmall({ table, reader, open, target, order, written }: Compaction): Promise<Compacted> {
  const snapshot = table ? currentSnapshot(table) : undefined
  if (table === null || snapshot === undefined) return NO_FILES
  if (Number(snapshot.summary['total-data-files'] ?? Number.POSITIVE_INFINITY) <= SMALL_FILES_LIMIT)
    return NO_FILES
  const replaced = [...smallFiles(await liveFilesOf(table, reader), target)]
  if (replaced.length === 0) return NO_FILES
  const { engine, opened } = await openCounted(open, target.schema, replaced)
  const rows = opened.reduce((sum, file) => sum + file.rows, 0)
  const writer = new FileWriter(engine, target, written)
  const locals = opened.map(({ local }) => local)
  await writer.write(readTable(target.schema, locals), rows, order)
  return { files: writer.files, replaced, deletedRows: undeletedRows(replaced, opened) }
}

async function liveFilesOf(table: TableMetadata, reader: ManifestReader): Promise<TableFile[]> {
  const snapshot = currentSnapshot(table)
  if (snapshot === undefined) return []
  return tableFilesOf(await liveManifestsOf(table, snapshot['snapshot-id'], reader), reader)
}

/** Selects small files of each partition that has many, up to the size of one full file. */
export function smallFiles(
  files: readonly TableFile[],
  { fileRows, fileBytes }: Pick<Target, 'fileRows' | 'fileBytes'>,
): Set<TableFile> {
  return fileBytes === null ? smallByRows(files, fileRows) : smallByBytes(files, fileBytes)
}

/** Files of one tier have similar sizes. */
export const tierOf = (bytes: number): number =>
  Math.max(0, Math.ceil(Math.log(bytes / TIER_BYTES) / Math.log(TIER_FACTOR)))

/** Selects files of a similar size. Combining the smallest files with a large one would rewrite the large one again and again. */
function smallByBytes(files: readonly TableFile[], fileBytes: number): Set<TableFile> {
  const small = files.filter(({ file }) => file.sizeBytes < fileBytes * SMALL_SHARE)
  const chosen = new Set<TableFile>()
  for (const group of Map.groupBy(
    small,
    ({ specId, file }) => `${tierOf(file.sizeBytes)} ${specId} ${tupleText(file.partition)}`,
  ).values()) {
    if (group.length <= SMALL_FILES_LIMIT) continue
    let bytes = 0
    for (const file of group) {
      bytes += file.file.sizeBytes
      if (bytes > fileBytes) break
      chosen.add(file)
    }
  }
  return chosen
}

function smallByRows(files: readonly TableFile[], fileRows: number): Set<TableFile> {
  const small = files.filter(
    ({ file }) => file.recordCount < fileRows * SMALL_SHARE && file.sizeBytes < SMALL_BYTES,
  )
  const chosen = new Set<TableFile>()
  for (const group of Map.groupBy(
    small,
    ({ specId, file }) => `${specId} ${tupleText(file.partition)}`,
  ).values()) {
    if (group.length <= SMALL_FILES_LIMIT) continue
    let rows = 0
    let bytes = 0
    for (const file of group.toSorted((a, b) => a.file.recordCount - b.file.recordCount)) {
      rows += file.file.recordCount
      bytes += file.file.sizeBytes
      if (rows > fileRows || bytes > GATHERED_BYTES) break
      chosen.add(file)
    }
  }
  return chosen
}
