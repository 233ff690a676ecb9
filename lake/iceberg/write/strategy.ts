// The write strategies convert a pipeline's result to the files that its table gains and loses (docs/semantics/tables.md).

import { mkdir } from 'node:fs/promises'
import { quoteIdentifier, quoteLiteral } from '../../quote.ts'
import { fileRowsFor, markingFor } from '../format/layout.ts'
import { currentSnapshot, type TableMetadata } from '../format/metadata.ts'
import { UnsupportedPartition } from '../format/partition.ts'
import type { NestedField, Schema } from '../format/types.ts'
import { pruneFiles, pruneManifests } from '../read/prune.ts'
import { liveManifestsOf, tableFilesOf } from '../read/scan.ts'
import { type Compaction, compactFiles, isWidening, NO_FILES, smallFiles, widenFiles } from './compaction.ts'
import { copySql, FileWriter, SORTED, sortedColumns, withRows } from './file-writer.ts'
import { type Doubt, IncompatibleColumn, misfitText } from './fit.ts'
import { BATCH, count, instantSql, mergeBatch } from './merge.ts'
import { doubtsOf, fieldsWritten, selectForTable, selectForWrite } from './projection.ts'
import { withTypesOfTable, writtenRows } from './refreshed-types.ts'
import type { ResultWrite, TableChange, WriteRules } from './result-write.ts'
import { metricsOf } from './stats.ts'
import { isMerge, type Shape, shapeOfResult, shapeWithFirstTypes } from './table-shape.ts'
import { schemaAndSpecOf } from './write.ts'
import {
  type Candidate,
  openCounted,
  ownNames,
  type Target,
  type WriteEngine,
  type WrittenFile,
} from './write-engine.ts'

/**
 * Writes a result by its strategy. Nothing is stored: the files are local, and the table is unchanged. The engine fails with the
 * text of `misfitIn` for a value that does not fit its column.
 * @throws UnsupportedWrite, UnsupportedColumn, UnsupportedPartition, UnsupportedTable
 */
export async function writeByStrategy(write: ResultWrite): Promise<TableChange> {
  const { rules, columns, table, engine } = write
  const isRefresh = rules.mergeStrategy === 'full_refresh'
  const shape = await shapeWithFirstTypes(write).catch(async (error: unknown) => {
    // The table's type of an empty column may suit its partitions. Only here is a result computed twice.
    const isType = isRefresh && error instanceof UnsupportedPartition
    return (isType && (await withTypesOfTable(table, write, engine))) || Promise.reject(error)
  })
  if ('result' in shape) return writeByStrategy({ ...write, ...shape })
  const isPlain = shape.order.length === 0 && shape.spec.fields.length === 0
  if (isMerge(rules)) return mergeResult(write, shape)
  const files = isPlain ? await copyResult(write, shape) : (await sortResult(write, shape)).files
  const rowsWritten = files.reduce((sum, { recordCount }) => sum + recordCount, 0)
  if (isRefresh) {
    const retyped = await withTypesOfTable(table, { result: writtenRows(columns, files), columns }, engine)
    if (retyped !== null) {
      const directory = `${write.directory}/retyped`
      await mkdir(directory)
      return writeByStrategy({ ...write, ...retyped, directory })
    }
    return {
      ...shape.change,
      files,
      deletes: [],
      replaced: [],
      deletedRows: 0,
      compacted: NO_FILES,
      rowsWritten,
      operation: 'overwrite',
    }
  }
  const isUnchanged = table !== null && rowsWritten === 0
  return {
    ...shape.change,
    files,
    deletes: [],
    replaced: [],
    deletedRows: 0,
    compacted: isUnchanged
      ? NO_FILES
      : await compactFiles(compactionOf(write, shape, { files, replaced: [] })),
    rowsWritten,
    operation: isUnchanged ? null : 'append',
  }
}

/**
 * Checks whether a result with these columns can be written, before any rows exist. Returns the columns whose values decide.
 * Throws the errors that `writeByStrategy` would throw for the columns. `table` is null when the table does not exist yet.
 * @throws UnsupportedWrite, UnsupportedColumn, UnsupportedPartition, UnsupportedTable
 */
export function checkWrite(
  write: Pick<ResultWrite, 'rules' | 'columns' | 'table' | 'stage' | 'at'>,
): Doubt[] {
  return doubtsOf(write.columns, shapeOfResult(write).schema)
}

/**
 * The change that gives a table the columns, partitions and properties of a result, without its rows. Another engine can then
 * write the rows. That engine casts in its own way, so a type whose values would have to be checked is refused. `operation` is null
 * when the table has all that already.
 * @throws UnsupportedWrite, UnsupportedColumn, IncompatibleColumn, UnsupportedPartition, UnsupportedTable
 */
export function shapeTable(
  write: Pick<ResultWrite, 'rules' | 'columns' | 'table' | 'stage' | 'at'>,
): TableChange {
  const { change, schema: next } = shapeOfResult(write)
  const [doubt] = doubtsOf(write.columns, next)
  if (doubt !== undefined) throw new IncompatibleColumn(misfitText(doubt))
  const { metadata, schema, partitionSpec, properties } = change
  const { isNewSchema, spec } = schemaAndSpecOf({ metadata, schema: schema.schema, partitionSpec })
  const isChanged =
    write.table === null ||
    isNewSchema ||
    spec['spec-id'] !== metadata['default-spec-id'] ||
    Object.keys(properties).length > 0
  return {
    ...change,
    ...NO_FILES,
    deletes: [],
    deletedRows: 0,
    compacted: NO_FILES,
    rowsWritten: 0,
    operation: isChanged ? 'append' : null,
  }
}

/** Copies rows to files in the result's order. Columns that the result lacks are omitted, so readers see null. */
async function copyResult(
  { columns, result, directory, engine }: ResultWrite,
  { schema, fileBytes }: Shape,
): Promise<WrittenFile[]> {
  const fields = fieldsWritten(columns, schema)
  const select = `SELECT ${selectForWrite(columns, schema)} FROM ${result}`
  const copied = await engine.copy(copySql(select, `${directory}/result`, { fields, fileBytes }))
  return withRows(copied).map((file) => ({
    ...metricsOf({ type: 'struct', fields }, file),
    path: file.filename,
    partition: {},
  }))
}

/**
 * Writes all rows of a result with a key or partitions to new files. Large results are clustered; small results keep their
 * order. `incremental` and `scd2` write one row per key.
 */
async function sortResult(
  write: ResultWrite,
  shape: Shape,
): Promise<{ files: WrittenFile[]; repeatedRows: number }> {
  const { engine, rules } = write
  const row = quoteIdentifier(ownNames(shape.schema).row)
  const keys = shape.order.map(({ name }) => quoteIdentifier(name))
  await new FileWriter(engine, targetOf(write, shape, 0)).sort(selectBatch(write, shape), [...keys, row], row)
  const rows = await count(engine, SORTED)
  if (rows === 0) return { files: [], repeatedRows: 0 }
  const target = targetOf(write, shape, rows)
  const writer = new FileWriter(engine, target)
  const unique = isUnique(rules) ? await count(engine, lastSorted(shape)) : rows
  if (unique < rows) {
    await engine.run(
      `CREATE TEMP TABLE ${BATCH} AS SELECT ${sortedColumns(shape.schema)} FROM ${SORTED} SEMI JOIN ${lastSorted(shape)} USING (r)`,
    )
    await engine.run(`DROP TABLE ${SORTED}`)
    await writer.write(BATCH, unique, keys)
  } else if (shape.merge === null && shape.spec.fields.length === 0 && rows <= target.fileRows)
    await writer.copySorted()
  else await writer.cutSorted(rows)
  return { files: writer.files, repeatedRows: rows - unique }
}

const isUnique = ({ mergeStrategy }: WriteRules): boolean =>
  mergeStrategy === 'incremental' || mergeStrategy === 'scd2'

/** A query on SORTED for the position of each key's last row in the result. */
function lastSorted({ schema, order, merge }: Shape): string {
  const columnOf = (field: NestedField) => `c${schema.fields.indexOf(field)}`
  return lastRows({
    from: SORTED,
    row: 'r',
    keys: order.map(columnOf),
    version: merge?.history?.version,
    columnOf,
  })
}

/** A query for the row of each key with the greatest version, or else the last row. */
function lastRows({
  from,
  row,
  keys,
  version,
  columnOf,
}: {
  from: string
  row: string
  keys: readonly string[]
  version: NestedField | null | undefined
  columnOf(field: NestedField): string
}): string {
  if (!version) return `(SELECT max(${row}) AS ${row} FROM ${from} GROUP BY ${keys.join(', ')})`
  return `(SELECT ${row} FROM ${from}
           QUALIFY row_number() OVER (PARTITION BY ${keys.join(', ')} ORDER BY ${columnOf(version)} DESC NULLS LAST, ${row} DESC) = 1)`
}

async function mergeResult(write: ResultWrite, shape: Shape): Promise<TableChange> {
  const { engine, table, rules, directory } = write
  const { merge, change } = shape
  if (merge === null) throw new Error(`merge_strategy ${rules.mergeStrategy} does not merge rows`)
  if (table === null) {
    const { files, repeatedRows } = await sortResult(write, shape)
    const rowsWritten = files.reduce((sum, { recordCount }) => sum + recordCount, 0)
    return {
      ...change,
      operation: 'append',
      files,
      deletes: [],
      replaced: [],
      deletedRows: 0,
      compacted: NO_FILES,
      rowsWritten,
      repeatedRows,
    }
  }
  const staged = await stageBatch(write, shape)
  if (staged === 0)
    return { ...change, ...NO_FILES, deletes: [], operation: null, compacted: NO_FILES, rowsWritten: 0 }
  const rows = isUnique(rules) ? await keepLastPerKey(engine, shape, staged) : staged
  const target = targetOf(write, shape, rows)
  const candidates = await candidatesOf(table, shape, target, write)
  const opened = await copyBatch({ engine, open: write.open, directory }, shape.schema, candidates)
  const { files, deletes, replaced, deletedRows, rowsWritten, olderRows } = await mergeBatch(
    opened.engine,
    merge,
    target,
    opened.candidates,
  )
  const isNothing = files.length === 0 && replaced.length === 0 && deletes.length === 0
  const compacted = isNothing ? NO_FILES : await widenFiles(compactionOf(write, shape, { files, replaced }))
  const operation = replaced.length > 0 ? 'rewrite' : 'append'
  return {
    ...change,
    operation: isNothing ? null : operation,
    files,
    deletes,
    replaced,
    deletedRows,
    compacted,
    rowsWritten,
    olderRows,
    repeatedRows: staged - rows,
  }
}

const compactionOf = (
  write: ResultWrite,
  shape: Shape,
  { files, replaced }: Pick<Compaction, 'replaced'> & { files: readonly WrittenFile[] },
): Compaction => ({
  table: write.table,
  reader: write.reader,
  open: write.open,
  target: targetOf(write, shape, 0),
  order: shape.order.map(({ name }) => quoteIdentifier(name)),
  replaced,
  written: files.length,
})

const targetOf = (
  { table, directory, fileRows = fileRowsFor, marking = markingFor }: ResultWrite,
  { schema, spec, tableRows, tableBytes, fileBytes }: Shape,
  rows: number,
): Target => ({
  schema,
  spec,
  fileRows: fileRows(tableRows + rows),
  fileBytes,
  directory,
  // A file whose type widens is rewritten in any case, so the positions of its rows change. Format version 3 has deletion vectors
  // instead of position delete files.
  marking: table?.['format-version'] === 3 || isWidening(table, schema) ? null : marking(tableBytes),
})

/** Stages the result as the table BATCH, with the types of its table. Returns the number of rows. */
async function stageBatch(write: ResultWrite, shape: Shape): Promise<number> {
  await write.engine.run(`CREATE TEMP TABLE ${BATCH} AS FROM ${selectBatch(write, shape)}`)
  return count(write.engine, BATCH)
}

/** The result with every column of the schema, and each row's position. */
function selectBatch({ columns, result }: ResultWrite, { schema, merge }: Shape): string {
  const overrides = new Map(merge?.history ? [[merge.history.from.id, instantSql(merge.history)]] : [])
  const row = quoteIdentifier(ownNames(schema).row)
  return `(SELECT ${selectForTable(columns, schema, overrides)}, row_number() OVER () AS ${row} FROM ${result})`
}

/** Removes all rows of BATCH except the last row of each key. Returns the number of remaining rows. */
async function keepLastPerKey(
  engine: WriteEngine,
  { schema, order, merge }: Shape,
  rows: number,
): Promise<number> {
  const row = quoteIdentifier(ownNames(schema).row)
  const columnOf = ({ name }: NestedField) => quoteIdentifier(name)
  const version = merge?.history?.version
  const last = lastRows({ from: BATCH, row, keys: order.map(columnOf), version, columnOf })
  const remaining = await count(engine, last)
  if (remaining === rows) return rows
  await engine.run(`CREATE TEMP TABLE sluice_last AS FROM ${BATCH} SEMI JOIN ${last} USING (${row})`)
  await engine.run(`DROP TABLE ${BATCH}`)
  await engine.run(`ALTER TABLE sluice_last RENAME TO ${BATCH}`)
  return remaining
}

type ChosenFile = Pick<Candidate, 'file' | 'isGathered'>

/** The files that may hold keys of the batch. Also small files, when a partition has many of them. */
async function candidatesOf(
  table: TableMetadata,
  { schema, order }: Shape,
  target: Target,
  { engine, reader }: ResultWrite,
): Promise<ChosenFile[]> {
  const id = currentSnapshot(table)?.['snapshot-id']
  if (id === undefined) return []
  const keys = { relation: BATCH, fields: order }
  const query = engine.query
  const live = await liveManifestsOf(table, id, reader)
  const chosen = await pruneManifests(live.data, table, schema, keys, query)
  const files = await tableFilesOf({ ...live, data: chosen }, reader)
  const matching = new Set(await pruneFiles(files, table, schema, keys, query))
  const gathered = smallFiles(files, target)
  return files
    .filter((file) => matching.has(file) || gathered.has(file))
    .map((file) => ({ file, isGathered: gathered.has(file) }))
}

/** Copies the batch to a second engine that can read the table's files. The engine of the author's SQL cannot read them. */
async function copyBatch(
  { engine, open, directory }: Pick<ResultWrite, 'engine' | 'open' | 'directory'>,
  schema: Schema,
  chosen: readonly ChosenFile[],
): Promise<{ engine: WriteEngine; candidates: Candidate[] }> {
  if (chosen.length === 0) return { engine, candidates: [] }
  const path = quoteLiteral(`${directory}/batch.parquet`)
  await engine.copy(`COPY ${BATCH} TO ${path} (FORMAT parquet, COMPRESSION lz4, RETURN_STATS)`)
  const files = chosen.map(({ file }) => file)
  const { engine: other, opened } = await openCounted(open, schema, files)
  await other.run(`CREATE TEMP TABLE ${BATCH} AS FROM read_parquet(${path})`)
  const candidates = chosen.flatMap((chosenFile, i): Candidate[] => {
    const file = opened[i]
    return file ? [{ ...chosenFile, ...file }] : []
  })
  return { engine: other, candidates }
}
