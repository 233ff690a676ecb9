// The write strategies convert a pipeline's result to the files that its table gains and loses (docs/semantics/tables.md).

import { mkdir } from 'node:fs/promises'
import { AuthorError } from '../../pipeline/author-error.ts'
import type { PipelineConfig } from '../../pipeline/config.ts'
import { quoteIdentifier, quoteLiteral } from '../../quote.ts'
import { byName } from '../format/fields.ts'
import {
  FILE_SIZE_PROPERTY,
  fileBytesOf,
  fileRowsFor,
  LAYOUT_PROPERTIES,
  type Marking,
  markingFor,
} from '../format/layout.ts'
import { currentSchema, currentSnapshot, type TableMetadata } from '../format/metadata.ts'
import { partitionSpecOf, UnsupportedPartition } from '../format/partition.ts'
import type { Column, NestedField, Schema } from '../format/types.ts'
import type { UnboundSpec } from '../format/wire.ts'
import { pruneFiles, pruneManifests } from '../read/prune.ts'
import { liveManifestsOf, type ManifestReader, type TableFile, tableFilesOf } from '../read/scan.ts'
import {
  type Compacted,
  type Compaction,
  compactFiles,
  isWidening,
  NO_FILES,
  smallFiles,
  widenFiles,
} from './compaction.ts'
import { type NextSchema, type PreviousSchema, schemaForAppend, schemaForReplace } from './evolution.ts'
import { type Doubt, IncompatibleColumn, misfitText } from './fit.ts'
import {
  BATCH,
  copySql,
  count,
  FileWriter,
  instantSql,
  mergeBatch,
  SORTED,
  sortedColumns,
  withRows,
} from './merge.ts'
import type { WrittenDeletes } from './position-deletes.ts'
import { doubtsOf, fieldsWritten, selectForTable, selectForWrite } from './projection.ts'
import { withTypesOfTable, writtenRows } from './refreshed-types.ts'
import { metricsOf } from './stats.ts'
import { valuelessColumns } from './valueless.ts'
import { type NewDataFile, type NewDeleteFile, schemaAndSpecOf } from './write.ts'
import {
  type Candidate,
  type MergeRules,
  type OpenFiles,
  openCounted,
  ownNames,
  type Target,
  type WriteEngine,
  type WrittenFile,
} from './write-engine.ts'

/** The settings of a pipeline that control writing. */
export type WriteRules = Readonly<
  Pick<
    PipelineConfig,
    | 'mergeStrategy'
    | 'uniqueKey'
    | 'watermarkColumn'
    | 'partitionColumn'
    | 'partitionBy'
    | 'targetFileSize'
    | 'onSchemaChange'
    | 'scdValidFrom'
    | 'scdValidTo'
  >
>

/** The strategy cannot write the result. */
export class UnsupportedWrite extends AuthorError {
  override readonly name = 'UnsupportedWrite'
}

export interface ResultWrite {
  readonly rules: WriteRules
  /** A relation of the engine, in the result's order. */
  readonly result: string
  readonly columns: readonly Column[]
  /** Null when the table does not exist yet. */
  readonly table: TableMetadata | null
  /** Makes the metadata of a table that does not exist yet. */
  readonly stage: (shape: {
    schema: Schema
    partitionSpec: UnboundSpec
    properties: Readonly<Record<string, string>>
  }) => TableMetadata
  /** The start time of new row versions, ISO 8601. */
  readonly at: string
  /** An absolute path to an empty directory. Both engines may write there. */
  readonly directory: string
  readonly reader: ManifestReader
  readonly engine: WriteEngine
  /** Opens another engine that can read these files of the table. */
  readonly open: OpenFiles
  /** The number of rows per new file in a table with `tableRows` rows. */
  readonly fileRows?: (tableRows: number) => number
  /** When rows of a table with `tableBytes` bytes are marked as deleted. */
  readonly marking?: (tableBytes: number) => Marking
}

export interface TableChange {
  readonly metadata: TableMetadata
  readonly schema: NextSchema
  readonly partitionSpec: UnboundSpec
  /** Properties that the table gets. */
  readonly properties: Readonly<Record<string, string>>
  /** Null when the table stays unchanged. */
  readonly operation: 'append' | 'overwrite' | 'rewrite' | null
  readonly files: readonly WrittenFile[]
  /** The table's files that `rewrite` replaces. */
  readonly replaced: readonly TableFile[]
  /** Positions of deleted rows in files that stay. */
  readonly deletes: readonly WrittenDeletes[]
  /** The change of the number of deleted rows in files of the table, without compaction. */
  readonly deletedRows: number
  /** New files with exactly the rows of the table's files that they replace. */
  readonly compacted: Compacted
  /** The number of inserted or changed rows. */
  readonly rowsWritten: number
  /** The number of rows that `scd2` ignores, because the open version of their key is newer. Default: 0. */
  readonly olderRows?: number
  /** The number of rows of the result that another row with the same key replaces. Default: 0. */
  readonly repeatedRows?: number
}

/** All new files of a change: first those with changed rows, and delete files at the end. */
export const addedFiles = ({ files, compacted, deletes }: TableChange): WrittenFile[] => [
  ...files,
  ...compacted.files,
  ...deletes,
]

/** Divides the stored files of a change, which are in the order of `addedFiles`. */
export function storedParts(
  { files, compacted, deletes }: TableChange,
  stored: readonly NewDataFile[],
): { files: NewDataFile[]; compacted: NewDataFile[]; deletes: NewDeleteFile[] } {
  const [first, second] = [files.length, files.length + compacted.files.length]
  return {
    files: stored.slice(0, first),
    compacted: stored.slice(first, second),
    deletes: stored.slice(second).flatMap((file, i) => {
      const specId = deletes[i]?.specId
      return specId === undefined ? [] : [{ ...file, specId, content: 'position-deletes' as const }]
    }),
  }
}

/** All files of the table that a change removes. */
export const removedFiles = ({ replaced, compacted }: TableChange): TableFile[] => [
  ...replaced,
  ...compacted.replaced,
]

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

/** The shape of a result. A column of the table that never had a value takes the type of the result. */
async function shapeWithFirstTypes(write: ResultWrite): Promise<Shape> {
  const shape = shapeOfResult(write)
  if (write.table === null) return shape
  const doubtful = write.columns.filter((column) => doubtsOf([column], shape.schema).length > 0)
  const valueless = await valuelessColumns(write.table, doubtful, write)
  return valueless.size === 0 ? shape : shapeOfResult(write, valueless)
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

interface Shape {
  readonly schema: Schema
  readonly spec: Target['spec']
  readonly change: Pick<TableChange, 'metadata' | 'schema' | 'partitionSpec' | 'properties'>
  /** The number of rows in the table before the write. */
  readonly tableRows: number
  /** The size of the table's files before the write. */
  readonly tableBytes: number
  /** How rows are matched; null when the strategy matches no rows. */
  readonly merge: MergeRules | null
  /** The columns by which large files are sorted. */
  readonly order: readonly NestedField[]
  /** The size of a new file; null when rows are sorted by a key, because then files are cut by rows. */
  readonly fileBytes: number | null
}

function shapeOfResult(
  { rules, columns, table, stage, at }: Pick<ResultWrite, 'rules' | 'columns' | 'table' | 'stage' | 'at'>,
  valueless?: ReadonlySet<number>,
): Shape {
  const isHistory = rules.mergeStrategy === 'scd2'
  const historyFields = isHistory ? historyColumns(rules, columns) : []
  const previous = table ? { schema: currentSchema(table), lastColumnId: table['last-column-id'] } : undefined
  const all = [...columns, ...historyFields]
  const next = nextSchemaOf({ ...rules, columns: all, historyFields }, previous, valueless)
  const partitionSpec = partitionSpecOf(rules.partitionBy, next.schema)
  const properties = propertiesOf(rules, table)
  const metadata = table ?? stage({ schema: next.schema, partitionSpec, properties })
  const { schema, spec } = schemaAndSpecOf({ metadata, schema: next.schema, partitionSpec })
  const fields = byName(schema.fields)
  const fieldOf = (name: string): NestedField => {
    const field = fields.get(name.toLowerCase())
    if (field === undefined) throw new Error(`the schema has no column ${name}`)
    return field
  }
  const keys = keysOf(rules, columns)
  if (previous && isMerge(rules)) refuseNewKey(rules, keys, previous.schema)
  const keyNames = new Set(keys.map((name) => name.toLowerCase()))
  const history = isHistory
    ? {
        from: fieldOf(rules.scdValidFrom),
        to: fieldOf(rules.scdValidTo),
        values: columns
          .map(({ name }) => fieldOf(name))
          .filter(({ name }) => !keyNames.has(name.toLowerCase())),
        version: byName(columns).has(rules.watermarkColumn.toLowerCase())
          ? fieldOf(rules.watermarkColumn)
          : null,
        at,
      }
    : null
  return {
    schema,
    spec,
    change: { metadata, schema: next, partitionSpec, properties },
    tableRows: table ? Number(currentSnapshot(table)?.summary['total-records'] ?? 0) : 0,
    tableBytes: table ? Number(currentSnapshot(table)?.summary['total-files-size'] ?? 0) : 0,
    merge: isMerge(rules) ? { keys: keys.map(fieldOf), history } : null,
    order: keys.map(fieldOf),
    fileBytes: keys.length > 0 ? null : (rules.targetFileSize ?? fileBytesOf(metadata.properties)),
  }
}

function nextSchemaOf(
  {
    mergeStrategy,
    onSchemaChange,
    columns,
    historyFields,
  }: Pick<WriteRules, 'mergeStrategy' | 'onSchemaChange'> &
    Record<'columns' | 'historyFields', readonly Column[]>,
  previous: PreviousSchema | undefined,
  valueless?: ReadonlySet<number>,
): NextSchema {
  if (previous && onSchemaChange === 'ignore') return schemaForAppend(historyFields, previous)
  return previous && mergeStrategy !== 'full_refresh'
    ? schemaForAppend(columns, previous, valueless)
    : schemaForReplace(columns, previous)
}

/** All properties of a new table, or the one that the pipeline changes. */
function propertiesOf({ targetFileSize }: WriteRules, table: TableMetadata | null): Record<string, string> {
  if (table === null)
    return { ...LAYOUT_PROPERTIES, [FILE_SIZE_PROPERTY]: String(targetFileSize ?? fileBytesOf({})) }
  if (targetFileSize === null || table.properties?.[FILE_SIZE_PROPERTY] === String(targetFileSize)) return {}
  return { [FILE_SIZE_PROPERTY]: String(targetFileSize) }
}

const isMerge = ({ mergeStrategy }: WriteRules): boolean =>
  mergeStrategy !== 'full_refresh' && mergeStrategy !== 'append_only'

/** The columns that match and cluster rows, spelled as in the result. */
function keysOf(rules: WriteRules, columns: readonly Column[]): string[] {
  const [key, names] =
    rules.mergeStrategy === 'snapshot'
      ? (['partition_column', [rules.partitionColumn]] as const)
      : (['unique_key', rules.uniqueKey] as const)
  const present = byName(columns)
  const spelledNames = names.flatMap((name) => present.get(name.toLowerCase())?.name ?? [])
  const missing = names.find((name) => !present.has(name.toLowerCase()))
  if (isMerge(rules) && (missing !== undefined || names.every((name) => name === '')))
    throw new UnsupportedWrite(
      missing
        ? `${key}: the result has no column ${JSON.stringify(missing)}, it has ${columns.map(({ name }) => name).join(', ')}`
        : `merge_strategy ${rules.mergeStrategy} needs ${key}`,
    )
  return spelledNames
}

/** Rows of the table would have no value in a new key column, so no row of a result would ever match them. */
function refuseNewKey({ mergeStrategy }: WriteRules, keys: readonly string[], { fields }: Schema): void {
  const present = byName(fields)
  const added = keys.find((name) => !present.has(name.toLowerCase()))
  if (added === undefined) return
  const key = mergeStrategy === 'snapshot' ? 'partition_column' : 'unique_key'
  throw new UnsupportedWrite(
    `${key}: the table has no column ${JSON.stringify(added)}, it has ${fields.map(({ name }) => name).join(', ')}: choose one of these, or use full_refresh to replace the table`,
  )
}

const INSTANT = 'TIMESTAMP WITH TIME ZONE'

function historyColumns({ scdValidFrom, scdValidTo }: WriteRules, columns: readonly Column[]): Column[] {
  if (scdValidFrom.toLowerCase() === scdValidTo.toLowerCase())
    throw new UnsupportedWrite(
      `scd_valid_from and scd_valid_to name the same column ${JSON.stringify(scdValidTo)}`,
    )
  const present = byName(columns)
  for (const [key, name] of [
    ['scd_valid_from', scdValidFrom],
    ['scd_valid_to', scdValidTo],
  ] as const)
    if (present.has(name.toLowerCase()))
      throw new UnsupportedWrite(
        `column ${JSON.stringify(name)} is written by scd2: leave it out of the result, or choose another ${key}`,
      )
  return [scdValidFrom, scdValidTo].map((name) => ({ name, type: INSTANT }))
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
