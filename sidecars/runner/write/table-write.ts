import { randomUUID } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import type { TableName } from '../../../ground/names.ts'
import { ROWS_WRITTEN } from '../../../lake/iceberg/format/content-change.ts'
import { dataLocation, keyIn, tableLocation } from '../../../lake/iceberg/format/location.ts'
import { currentSchema, type TableMetadata } from '../../../lake/iceberg/format/metadata.ts'
import { type Column, columnsOf } from '../../../lake/iceberg/format/types.ts'
import { pathsOf } from '../../../lake/iceberg/read/table-sql.ts'
import { IncompatibleColumn, misfitIn, misfitText } from '../../../lake/iceberg/write/fit.ts'
import { foreignResult, type Result } from '../../../lake/iceberg/write/foreign-result.ts'
import { type NewDataFile, replacedFiles } from '../../../lake/iceberg/write/new-files.ts'
import { newTable } from '../../../lake/iceberg/write/new-table.ts'
import { namesWithoutValues } from '../../../lake/iceberg/write/refreshed-types.ts'
import {
  addedFiles,
  type ResultWrite,
  storedParts,
  type TableChange,
  UnsupportedWrite,
  type WriteRules,
} from '../../../lake/iceberg/write/result-write.ts'
import { schemaDifference, settleSchema } from '../../../lake/iceberg/write/schema-change.ts'
import { copyResultFrom } from '../../../lake/iceberg/write/stats.ts'
import { checkWrite, writeByStrategy } from '../../../lake/iceberg/write/strategy.ts'
import { type CommitPlan, planCommit } from '../../../lake/iceberg/write/write.ts'
import type { WriteEngine, WrittenFile } from '../../../lake/iceberg/write/write-engine.ts'
import { quoteIdentifier } from '../../../lake/quote.ts'
import { reasonOf } from '../author/wording.ts'
import type { EngineLease } from '../engine/engine-lease.ts'
import { EngineFault, RESULT } from '../engine/engine-messages.ts'
import { type LakeSession, openInstance } from '../session/lake-session.ts'

// Writes the result of a pipeline to its table: rows to Parquet, Parquet to the lake, one commit to the branch.

export interface Write {
  sql: string
  name: TableName
  /** Null: the table does not exist yet. */
  table: TableMetadata | null
  rules: WriteRules
  /** Names of the landing files that the SQL may read. */
  files?: readonly string[]
  /** ISO 8601 time at which new versions of rows begin. */
  at: string
  /** The start of the table's locations, if the table is new. */
  root: string
}

export interface WriteMeans {
  engine: EngineLease
  /** An open instance that can read the inputs of the SQL. */
  instance: number
  /** A directory of the attempt that engines can write to. */
  directory: string
  /** A directory in `directory`, for the files of the result. It does not exist yet. */
  own: string
  lake: LakeSession
  /** Called with each warning for the author of the pipeline. */
  warn(message: string): void
  /** Called with the columns of the result, before any row is computed. */
  onColumns?(columns: readonly Column[]): void
}

/**
 * Writes the result of a SELECT to local files, according to its strategy. Throws EngineFault, UnsupportedColumn,
 * IncompatibleColumn, UnsupportedWrite, UnsupportedPartition, UnsupportedTable.
 */
export async function writeResult(
  { sql, name, table, rules, at, root, files = [] }: Write,
  { engine, instance, directory, own, lake, warn, onColumns }: WriteMeans,
  signal: AbortSignal,
): Promise<TableChange> {
  const defined = await engine.call({ kind: 'define', number: instance, sql }, signal)
  const { result, columns } = BARE_NULL.test(sql)
    ? await withTypesOfTable(defined, table, { engine, number: instance, warn }, signal)
    : { result: RESULT, columns: defined }
  onColumns?.(columns)
  mkdirSync(own)
  const written = { name, table, rules, columns, files }
  const foreign = foreignResult(written)
  const settled = await settledColumns(written, result, writeEngine(engine, instance, signal))
  if (settled.warning !== null) warn(settled.warning)
  const change = await writeByStrategy({
    rules,
    result,
    columns: settled.columns,
    table,
    stage: stageOf(name, root),
    at,
    directory: own,
    reader: lake.reader,
    engine: writeEngine(engine, instance, signal),
    async open(files) {
      const locals = await lake.openFiles(files.map(({ file }) => file))
      const other = await openInstance(engine, [], directory, signal, { paths: pathsOf(locals) })
      return { engine: writeEngine(engine, other, signal), files: locals }
    },
  }).catch((error: unknown) => {
    // A strategy that misses its key names only the columns of the result.
    throw error instanceof UnsupportedWrite && foreign !== null ? foreign : asMisfit(error)
  })
  if (foreign !== null && change.rowsWritten > 0) throw foreign
  return change
}

/**
 * Applies `on_schema_change`. With `fail`, a column without values may have any type, as with the other settings. Throws
 * SchemaChanged.
 */
async function settledColumns(written: Result, result: string, engine: WriteEngine) {
  const difference = schemaDifference(written)
  const isOfTypes = difference !== null && difference.added.length + difference.removed.length === 0
  const empty =
    isOfTypes && written.rules.onSchemaChange === 'fail'
      ? await namesWithoutValues(result, difference.changed, engine)
      : new Set<string>()
  const changed = difference?.changed.filter(({ name }) => !empty.has(name)) ?? []
  const settled = settleSchema(written, difference && { ...difference, changed })
  if (settled.refusal !== null) throw settled.refusal
  return settled
}

/** Metadata of a new table, for a table that does not exist yet. */
export const stageOf =
  (name: TableName, root: string): ResultWrite['stage'] =>
  (shape) => {
    const uuid = randomUUID()
    const location = tableLocation(root, name, uuid)
    return newTable({ ...shape, uuid, location, at: Date.now() })
  }

/** An error of the engine about a value that does not fit its column, for the author. Other errors stay unchanged. */
function asMisfit(error: unknown): unknown {
  const text = error instanceof EngineFault ? misfitIn(error.message) : null
  return text === null ? error : new IncompatibleColumn(text, { cause: error })
}

/**
 * Why a run could not write a result with these columns: for certain, or depending on values (`doubts`). Only the run sees all
 * values. `warning` is the warning that the run would give.
 */
export function refusalOfWrite(
  { sql, name, table, rules, at, root }: Write,
  columns: readonly Column[],
): { refusal: string | null; doubts: string[]; warning: string | null } {
  const tableColumns = table === null ? [] : columnsOf(currentSchema(table))
  const types = new Map(tableColumns.map((column) => [column.name.toLowerCase(), column.type]))
  // Only a run would find out which columns are a bare NULL.
  const mayBeBare = ({ type }: Column) => UNTYPED_IN_RESULTS.has(type) && BARE_NULL.test(sql)
  const typed = columns.map((column) =>
    mayBeBare(column) ? { name: column.name, type: types.get(column.name.toLowerCase()) ?? UNTYPED } : column,
  )
  try {
    const result = { name, table, rules, columns: typed, files: [] }
    const difference = schemaDifference(result)
    const { columns: kept, warning, refusal } = settleSchema(result, difference)
    const isOfTypes = difference !== null && difference.added.length + difference.removed.length === 0
    if (refusal !== null && !isOfTypes) throw refusal
    const doubts = checkWrite({ rules, columns: kept, table, stage: stageOf(name, root), at }).map(misfitText)
    return { refusal: null, doubts: refusal === null ? doubts : [refusal.text], warning }
  } catch (error) {
    const reason = reasonOf(error)
    if (reason === null) throw error
    return { refusal: reason, doubts: [], warning: null }
  }
}

const UNTYPED_IN_RESULTS: ReadonlySet<string> = new Set(['INTEGER', 'NULL', '"NULL"'])
const TYPED_RESULT = 'sluice_typed_result'
/** Without NULL in the text, no column consists of a bare NULL. */
const BARE_NULL = /\bnull\b/i
/** The type of a bare NULL column that the table does not have, as in Python. Every later value can be written as text. */
const UNTYPED = 'VARCHAR'

/**
 * Gives columns of a bare NULL the types that the table has for them. The engine types them INTEGER, which the author did not
 * ask for.
 */
async function withTypesOfTable(
  columns: readonly Column[],
  table: TableMetadata | null,
  { engine, number, warn }: { engine: EngineLease; number: number; warn(message: string): void },
  signal: AbortSignal,
): Promise<{ result: string; columns: readonly Column[] }> {
  const tableColumns = table === null ? [] : columnsOf(currentSchema(table))
  const types = new Map(tableColumns.map(({ name, type }) => [name.toLowerCase(), type]))
  const retyped: Column[] = []
  for (const { name, type } of columns) {
    const wanted = types.get(name.toLowerCase()) ?? UNTYPED
    if (type !== 'INTEGER' || wanted === 'INTEGER' || wanted === 'BIGINT') continue
    if (!(await isBareNull(name, engine, number, signal))) continue
    retyped.push({ name, type: wanted })
    if (!types.has(name.toLowerCase()))
      warn(
        `column ${JSON.stringify(name)} contains only NULL: its type is ${UNTYPED}; cast the column for another type`,
      )
  }
  if (retyped.length === 0) return { result: RESULT, columns }
  const casts = retyped.map(
    ({ name, type }) => `CAST(${quoteIdentifier(name)} AS ${type}) AS ${quoteIdentifier(name)}`,
  )
  const sql = `CREATE TEMP VIEW ${TYPED_RESULT} AS SELECT * REPLACE (${casts.join(', ')}) FROM ${RESULT}`
  await engine.call({ kind: 'run', number, sql }, signal)
  const typeOf = new Map(retyped.map(({ name, type }) => [name, type]))
  return {
    result: TYPED_RESULT,
    columns: columns.map(({ name, type }) => ({ name, type: typeOf.get(name) ?? type })),
  }
}

/** True if the column is an untyped NULL, which DuckDB accepts as any type. Creating a view checks its SQL without running it. */
async function isBareNull(
  name: string,
  engine: EngineLease,
  number: number,
  signal: AbortSignal,
): Promise<boolean> {
  const sql = `CREATE OR REPLACE TEMP VIEW sluice_probe AS SELECT length(${quoteIdentifier(name)}) FROM ${RESULT}`
  try {
    await engine.call({ kind: 'run', number, sql }, signal)
    return true
  } catch (error) {
    if (error instanceof EngineFault && error.kind === 'binder') return false
    throw error
  }
}

/** An engine instance for SQL that the runner wrote. */
export function writeEngine(engine: EngineLease, number: number, signal: AbortSignal): WriteEngine {
  return {
    run: async (sql) => {
      await engine.call({ kind: 'run', number, sql }, signal)
    },
    query: (sql) => engine.call({ kind: 'query', number, sql }, signal),
    copy: async (sql) =>
      (await engine.call({ kind: 'copy', number, sql }, signal)).map((row) => copyResultFrom(row)),
  }
}

/** Data files that are being stored in the lake. No metadata refers to them yet. */
export interface StoredResult {
  change: TableChange
  /** In the order of `addedFiles`. */
  files: NewDataFile[]
  /** Resolves when the files are stored, with the local path of each. */
  placed: Promise<string[]>
}

/** A large result has many files. */
const FILES_STORED_AT_ONCE = 16

export function storeResult(change: TableChange, lake: LakeSession): StoredResult {
  return { change, ...storeFiles(addedFiles(change), change.metadata.location, lake) }
}

/** Begins to store local files in the directory of a table. */
export function storeFiles(
  written: readonly WrittenFile[],
  tableLocation: string,
  lake: LakeSession,
): Pick<StoredResult, 'files' | 'placed'> {
  const stored = written.map(({ path, ...file }) => ({
    path,
    file: { ...file, location: dataLocation(tableLocation, randomUUID()) },
  }))
  const storeAll = async () => {
    const paths: string[] = []
    for (let from = 0; from < stored.length; from += FILES_STORED_AT_ONCE)
      paths.push(
        ...(await Promise.all(
          stored
            .slice(from, from + FILES_STORED_AT_ONCE)
            .map(({ path, file }) => lake.files.adopt(keyIn(file.location), path)),
        )),
      )
    return paths
  }
  const placed = storeAll()
  // The caller that awaits `placed` gets the error.
  placed.catch(() => {})
  return { files: stored.map(({ file }) => file), placed }
}

/**
 * Commits the files to the branch, once. The files are durable when this resolves. Returns the branch's commit. Throws
 * CatalogError and HttpFailure.
 */
export async function commitResult(
  { change, files, placed }: StoredResult,
  { name, table, runId }: { name: TableName; table: TableMetadata | null; runId: string },
  lake: LakeSession,
): Promise<string> {
  const { metadata, schema, partitionSpec, properties, operation, replaced, deletedRows, compacted } = change
  const parts = storedParts(change, files)
  const plan = await planCommit({
    metadata,
    isStaged: table === null,
    operation: operation ?? 'append',
    schema: schema.schema,
    partitionSpec,
    properties,
    files: parts.files,
    deletes: parts.deletes,
    replaced: replacedFiles(replaced),
    deletedRows,
    compacted: {
      files: parts.compacted,
      replaced: replacedFiles(compacted.replaced),
      deletedRows: compacted.deletedRows,
      uuid: randomUUID(),
    },
    at: Date.now(),
    uuid: randomUUID(),
    reader: lake.reader,
    summary: { 'sluice.run-id': runId, [ROWS_WRITTEN]: String(change.rowsWritten) },
  })
  return commitPlan(plan, placed, name, lake)
}

/** Commits a plan to the branch, once. Resolves to the branch's commit when the plan's objects and all files are durable. */
export async function commitPlan(
  plan: CommitPlan,
  placed: Promise<unknown>,
  name: TableName,
  lake: LakeSession,
): Promise<string> {
  // Only this attempt reads the branch, and nothing is merged before the attempt has reported its end. So the attempt must wait
  // until the files are durable; the catalog need not.
  const [committed, ...written] = await Promise.allSettled([
    lake.catalog.commit(name, plan),
    placed,
    lake.files.write(plan.objects.map(({ location, bytes }) => ({ key: keyIn(location), bytes }))),
  ])
  const failed = written.find((each) => each.status === 'rejected')
  if (failed) throw failed.reason
  if (committed.status === 'rejected') throw committed.reason
  return committed.value
}
