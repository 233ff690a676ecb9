// Rewrites files of a table without a change of its rows: small files, and files with many deleted rows. The runner commits the
// result as one `replace` snapshot. See ADR 53.

import { quoteIdentifier } from '../../quote.ts'
import { tupleText } from '../format/data-file.ts'
import {
  DELETE_FILES_LIMIT,
  FILE_BYTES,
  fileBytesOf,
  fileRowsFor,
  SMALL_FILES_LIMIT,
  SMALL_SHARE,
} from '../format/layout.ts'
import { currentSnapshot, type TableMetadata } from '../format/metadata.ts'
import type { Schema } from '../format/types.ts'
import { withLineage } from '../read/lineage.ts'
import {
  liveFiles,
  liveManifestsOf,
  type ManifestReader,
  type TableFile,
  tableFilesOf,
} from '../read/scan.ts'
import { type LocalFile, readTable } from '../read/table-sql.ts'
import { tierOf } from './compaction.ts'
import { FileWriter } from './file-writer.ts'
import { MANIFEST_FILES_LIMIT } from './manifest-writer.ts'
import { schemaAndSpecOf } from './write.ts'
import {
  type OpenFiles,
  openCounted,
  undeletedRows,
  type WriteEngine,
  type WrittenFile,
} from './write-engine.ts'

/** More small manifests than this are merged, because a reader opens each of them. */
const MAINTAINED_MANIFESTS_LIMIT = 16
/** A file in which more than this share of the rows is deleted is rewritten. */
const DELETED_SHARE = 0.1
/** A file with more delete files is rewritten, before a merge has to do it. Readers open each of them. */
export const MAINTAINED_DELETES_LIMIT = DELETE_FILES_LIMIT / 2

export interface MaintenanceRules {
  /** One maintenance of a table reads at most this many bytes. */
  readonly bytesLimit: number
  /** Rows are matched by key, so files stay small enough for copy-on-write (ADR 14). */
  readonly isKeyed: boolean
}

/** Files whose rows go to new files together. All have the same partition. */
type FileGroup = readonly TableFile[]

/** The share of a file's rows that its delete files may delete. The number of rows is known only after reading. */
const deletedShareOf = ({ file: { deletes, recordCount } }: TableFile): number =>
  (deletes?.files.reduce((sum, each) => sum + each.recordCount, 0) ?? 0) / Math.max(1, recordCount)

/**
 * Selects the files to rewrite, in the order in which they were added. A group fills about one file of `fileBytes`. Files of a
 * partition are left alone while few of them are small.
 */
function groupsToRewrite(
  files: readonly TableFile[],
  { bytesLimit, isKeyed }: MaintenanceRules,
  fileBytes = FILE_BYTES,
): FileGroup[] {
  const fileRows = fileRowsFor(files.reduce((sum, { file }) => sum + file.recordCount, 0))
  const isSmall = ({ file }: TableFile) =>
    file.sizeBytes < fileBytes * SMALL_SHARE && (!isKeyed || file.recordCount < fileRows * SMALL_SHARE)
  const hasDeletes = (each: TableFile) =>
    deletedShareOf(each) > DELETED_SHARE || (each.file.deletes?.files.length ?? 0) > MAINTAINED_DELETES_LIMIT
  const tier = ({ file }: TableFile) => (isKeyed ? 0 : tierOf(file.sizeBytes))
  const limit = { bytes: fileBytes, rows: isKeyed ? fileRows : Number.POSITIVE_INFINITY }
  const similar = Map.groupBy(
    files,
    (each) => `${tier(each)} ${each.specId} ${tupleText(each.file.partition)}`,
  )
  const groups: TableFile[][] = []
  let bytes = 0
  for (const partition of similar.values()) {
    const hasManySmall = partition.filter(isSmall).length > SMALL_FILES_LIMIT
    const chosen = partition.filter((file) => hasDeletes(file) || (hasManySmall && isSmall(file)))
    for (const group of packed(chosen, limit)) {
      if (group.length < 2 && !group.some(hasDeletes)) continue
      bytes += bytesOf(group)
      if (bytes > bytesLimit) return groups
      groups.push(group)
    }
  }
  return groups
}

/** Divides files into groups below both limits. A single file may exceed a limit. */
function packed(files: readonly TableFile[], limit: { bytes: number; rows: number }): TableFile[][] {
  const groups: TableFile[][] = []
  let room = { bytes: 0, rows: 0 }
  for (const each of files) {
    const { sizeBytes, recordCount } = each.file
    room = { bytes: room.bytes - sizeBytes, rows: room.rows - recordCount }
    const group = groups.at(-1)
    if (group !== undefined && room.bytes >= 0 && room.rows >= 0) {
      group.push(each)
      continue
    }
    groups.push([each])
    room = { bytes: limit.bytes - sizeBytes, rows: limit.rows - recordCount }
  }
  return groups
}

export const bytesOf = (files: readonly TableFile[]): number =>
  files.reduce((sum, { file }) => sum + file.sizeBytes, 0)

/** The work that a table needs. Null: the table needs none. */
export interface MaintenancePlan {
  readonly groups: readonly FileGroup[]
  readonly mergesManifests: boolean
}

/** @throws UnsupportedTable for a table that Sluice cannot read */
export async function planMaintenance(
  table: TableMetadata,
  rules: MaintenanceRules,
  reader: ManifestReader,
): Promise<MaintenancePlan | null> {
  const snapshot = currentSnapshot(table)
  if (snapshot === undefined) return null
  const live = await liveManifestsOf(table, snapshot['snapshot-id'], reader)
  const files = await tableFilesOf(live, reader)
  const groups = groupsToRewrite(files, rules, fileBytesOf(table.properties))
  const small = live.data.filter((manifest) => liveFiles(manifest) < MANIFEST_FILES_LIMIT)
  const mergesManifests = small.length > MAINTAINED_MANIFESTS_LIMIT
  return groups.length === 0 && !mergesManifests ? null : { groups, mergesManifests }
}

/** The rewritten rows differ from the rows of the table. Nothing was committed. */
class RowsDiffer extends Error {
  override readonly name = 'RowsDiffer'
}

interface Rewrite {
  readonly table: TableMetadata
  readonly group: FileGroup
  readonly rules: MaintenanceRules
  readonly open: OpenFiles
  /** An absolute path to a directory that engines may write to. */
  readonly directory: string
  /** The number of files in the directory that an earlier group has written. */
  readonly written: number
  /** Names of columns by which the rows are sorted. Names that the table lacks are ignored. */
  readonly order: readonly string[]
}

interface Rewritten {
  readonly files: readonly WrittenFile[]
  /** The change of the number of deleted rows in files of the table. */
  readonly deletedRows: number
}

/**
 * Writes the rows of a group to new files, and compares the rows.
 * @throws RowsDiffer
 */
export async function rewriteGroup(rewrite: Rewrite): Promise<Rewritten> {
  const { table, group, rules, directory, written } = rewrite
  const { schema: ofTable, spec } = schemaAndSpecOf({ metadata: table })
  const schema = withLineage(ofTable, table)
  const { engine, opened } = await openCounted(rewrite.open, schema, group)
  const locals = opened.map(({ local }) => local)
  const before = await fingerprint(engine, schema, locals)
  const target = {
    schema,
    spec,
    fileRows: fileRowsFor(Number(currentSnapshot(table)?.summary['total-records'] ?? 0)),
    fileBytes: rules.isKeyed ? null : fileBytesOf(table.properties),
    directory,
    marking: null,
  }
  const writer = new FileWriter(engine, target, written)
  const names = new Map(schema.fields.map(({ name }) => [name.toLowerCase(), name]))
  const order = rewrite.order.flatMap((name) => names.get(name.toLowerCase()) ?? []).map(quoteIdentifier)
  await writer.write(readTable(schema, locals), before.rows, order)
  const after = await fingerprint(engine, schema, writer.files)
  if (before.rows !== after.rows || before.sum !== after.sum || before.xor !== after.xor)
    throw new RowsDiffer(
      `rewritten rows differ: ${before.rows} rows with hash ${before.sum}, then ${after.rows} with ${after.sum}`,
    )
  return { files: writer.files, deletedRows: undeletedRows(group, opened) }
}

/** The number of rows, and two hashes of all rows that do not depend on their order. */
async function fingerprint(engine: WriteEngine, schema: Schema, files: readonly LocalFile[]) {
  const columns = schema.fields.map(({ name }) => quoteIdentifier(name)).join(', ')
  const [row] = await engine.query(
    `SELECT CAST(count(*) AS VARCHAR), CAST(coalesce(sum(hash(${columns})), 0) AS VARCHAR),
       CAST(coalesce(bit_xor(hash(${columns})), 0) AS VARCHAR) FROM ${readTable(schema, files)}`,
  )
  const [rows, sum, xor] = row ?? []
  return { rows: Number(rows), sum, xor }
}
