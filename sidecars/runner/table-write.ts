import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { type NextSchema, schemaForAppend, schemaForReplace } from '../../lake/iceberg/evolution.ts'
import { dataLocation, keyOf, tableLocation } from '../../lake/iceberg/location.ts'
import { currentSchema, newTable, type TableMetadata } from '../../lake/iceberg/metadata.ts'
import { fieldIdsLiteral, fieldsWritten, selectForWrite } from '../../lake/iceberg/sql.ts'
import { metricsOf } from '../../lake/iceberg/stats.ts'
import { type NewDataFile, planCommit } from '../../lake/iceberg/write.ts'
import type { TableName } from '../../lake/pipeline/names.ts'
import { LAKE_ROOT } from '../lake-access.ts'
import type { EngineLease } from './engine-pool.ts'
import type { LakeSession } from './lake-session.ts'

// The result of a pipeline on its way into its table: rows to Parquet, Parquet to the lake, one commit to the branch.

/** What becomes of the table's rows: they are replaced, or more are added. */
export type Mode = 'replace' | 'append'

/** The result as local files, and what they are to the table. */
export interface WrittenResult {
  schema: NextSchema
  rowCount: number
  sizeBytes: number
  files: (Omit<NewDataFile, 'location'> & { path: string })[]
}

/** Writes the result of a SELECT. Throws EngineFault, UnsupportedColumn, IncompatibleColumn. */
export async function writeResult(
  { sql, mode, table }: { sql: string; mode: Mode; table: TableMetadata | null },
  { engine, instance, directory }: { engine: EngineLease; instance: number; directory: string },
  signal: AbortSignal,
): Promise<WrittenResult> {
  const columns = await engine.call({ kind: 'define', number: instance, sql }, signal)
  const previous = table ? { schema: currentSchema(table), lastColumnId: table['last-column-id'] } : undefined
  const schema =
    mode === 'append' && previous ? schemaForAppend(columns, previous) : schemaForReplace(columns, previous)
  const fields = fieldsWritten(columns, schema.schema)
  const copied = await engine.call(
    {
      kind: 'write',
      number: instance,
      projection: selectForWrite(columns, schema.schema),
      fieldIds: fieldIdsLiteral(fields),
      directory: join(directory, 'result'),
    },
    signal,
  )
  const files = copied
    .filter(({ count }) => count > 0n)
    .map((file) => ({ ...metricsOf({ type: 'struct', fields }, file), path: file.filename }))
  return {
    schema,
    files,
    rowCount: files.reduce((sum, { recordCount }) => sum + recordCount, 0),
    sizeBytes: files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
  }
}

/** Data files on their way into the lake, where nothing refers to them yet. */
export interface StoredResult {
  metadata: TableMetadata
  /** The table does not exist before the commit. */
  isStaged: boolean
  files: NewDataFile[]
  /** Resolves when they are there, to where each can be read on this machine. */
  placed: Promise<string[]>
}

export function storeResult(
  { files, schema }: WrittenResult,
  { name, table }: { name: TableName; table: TableMetadata | null },
  lake: LakeSession,
): StoredResult {
  const metadata = table ?? stagedTable(name, schema)
  const stored = files.map(({ path, ...metrics }) => ({
    path,
    file: { ...metrics, location: dataLocation(metadata.location, randomUUID()) },
  }))
  const placed = Promise.all(
    stored.map(({ path, file }) => lake.files.adopt(keyOf(LAKE_ROOT, file.location), path)),
  )
  // Whoever awaits it learns of it.
  placed.catch(() => {})
  return { metadata, isStaged: table === null, files: stored.map(({ file }) => file), placed }
}

function stagedTable(name: TableName, { schema }: NextSchema): TableMetadata {
  const uuid = randomUUID()
  return newTable({ uuid, location: tableLocation(LAKE_ROOT, name, uuid), schema, at: Date.now() })
}

/** Commits the files to the branch, once. Answers the branch's commit. Throws CatalogError, HttpFailure. */
export async function commitResult(
  { metadata, isStaged, files, placed }: StoredResult,
  { name, mode, schema, runId }: { name: TableName; mode: Mode; schema: NextSchema; runId: string },
  lake: LakeSession,
): Promise<string> {
  const plan = await planCommit({
    metadata,
    isStaged,
    operation: mode === 'append' ? 'append' : 'overwrite',
    schema: schema.schema,
    files,
    at: Date.now(),
    uuid: randomUUID(),
    reader: lake.reader,
    summary: { 'sluice.run-id': runId },
  })
  await Promise.all([
    placed,
    ...plan.objects.map(({ location, bytes }) => lake.files.write(keyOf(LAKE_ROOT, location), bytes)),
  ])
  return lake.catalog.commit(name, plan)
}
