// SQL that reads data files without their deleted rows. One scan reads all files of a table that have deletes. Anti joins remove
// the rows, by file and position or by the values of columns (docs/adr/0046-row-level-deletes.md).

import assert from 'node:assert/strict'
import { quoteIdentifier, quoteLiteral } from '../../quote.ts'
import { FILE_PATH_ID, POSITION_ID } from '../format/layout.ts'
import { LAKE_PREFIX, placeIn } from '../format/location.ts'
import type { NestedField, Schema } from '../format/types.ts'
import { parquetScan, schemaMapLiteral, sqlType } from '../sql/sql.ts'
import type { DeleteFile, RowDeletes } from './deletes.ts'
import { comparedFields, comparedSql, type EqualityColumn, withCompared } from './equality-columns.ts'
import { hasLineage, inheritedSql, type Lineage } from './lineage.ts'
import type { LiveFile } from './scan.ts'

/** The facts about a data file that a reader of all its rows needs. */
export type ReadableFile = Pick<LiveFile, 'location' | 'sizeBytes' | 'recordCount' | 'deletes' | 'lineage'>

/** A data file on this machine. */
export interface LocalFile {
  readonly path: string
  /** Rows in the file, deleted ones included. */
  readonly recordCount?: number
  readonly deletes?: LocalDeletes
  /** Only rows that keep their ids need it. */
  readonly lineage?: Lineage
}

/** The deletes of a data file, with the location of the data file in the lake and the paths of the delete files. */
interface LocalDeletes extends RowDeletes {
  readonly location: string
  readonly paths: readonly string[]
}

/** The paths of all files that a query on these data files reads. */
export const pathsOf = (files: readonly LocalFile[]): string[] => [
  ...new Set(files.flatMap(({ path, deletes }) => [path, ...(deletes?.paths ?? [])])),
]

/** A stored file, or a deletion vector in a stored file. */
export type StoredFile = Pick<DeleteFile, 'id' | 'location' | 'sizeBytes' | 'recordCount' | 'vector'>

/** All stored files that a query on these data files reads, each once. */
export const storedFilesOf = (files: readonly ReadableFile[]): StoredFile[] => [
  ...new Map(
    files
      .flatMap((file) => [{ ...file, id: file.location, recordCount: 0 }, ...(file.deletes?.files ?? [])])
      .map((each) => [each.id, each]),
  ).values(),
]

/** The data files with the local paths of their stored files, by id. */
export function localFiles(files: readonly ReadableFile[], paths: ReadonlyMap<string, string>): LocalFile[] {
  const pathOf = (location: string) => {
    const path = paths.get(location)
    assert(path !== undefined, `no local file for ${location}`)
    return path
  }
  return files.map(({ location, recordCount, deletes, lineage }) => ({
    path: pathOf(location),
    recordCount,
    ...(lineage && { lineage }),
    ...(deletes && {
      deletes: { ...deletes, location, paths: deletes.files.map(({ id }) => pathOf(id)) },
    }),
  }))
}

/** The same files below other paths. */
export const movedTo = (files: readonly LocalFile[], pathFor: (path: string) => string): LocalFile[] =>
  files.map(({ path, deletes, ...file }) => ({
    ...file,
    path: pathFor(path),
    ...(deletes && { deletes: { ...deletes, paths: deletes.paths.map(pathFor) } }),
  }))

/** The rows in files, deleted ones included. Undefined: unknown. */
export const rowsOf = (files: readonly LocalFile[]): number | undefined =>
  files.reduce<number | undefined>(
    (sum, { recordCount }) =>
      sum === undefined || recordCount === undefined ? undefined : sum + recordCount,
    0,
  )

/**
 * A table expression over the rows of data files that are not deleted. Without files, it is an empty relation with the same
 * columns. `fileColumn` names an additional column with the path of each row's file.
 */
export function readTable(schema: Schema, files: readonly LocalFile[], fileColumn?: string): string {
  if (files.length === 0) {
    const nulls = schema.fields.map(
      ({ name, type }) => `CAST(NULL AS ${sqlType(type)}) AS ${quoteIdentifier(name)}`,
    )
    return `(SELECT ${nulls.join(', ')} WHERE false)`
  }
  if (hasLineage(schema)) return `(${selectUndeleted(schema, files.map(withAnyDeletes), fileColumn)})`
  const deleted = files.filter(hasDeletes)
  if (deleted.length === 0) return wholeFiles(schema, files, fileColumn)
  const whole = files.filter((file) => !hasDeletes(file))
  const undeleted = selectUndeleted(schema, deleted, fileColumn)
  return whole.length === 0
    ? `(${undeleted})`
    : `(SELECT * FROM ${wholeFiles(schema, whole, fileColumn)} UNION ALL ${undeleted})`
}

/**
 * Like `readTable`, with additional columns for the path of each row's file and for the row's number in the file. Some columns of
 * the table suffice.
 */
export function readPositions(
  schema: Schema,
  files: readonly LocalFile[],
  names: { readonly file: string; readonly row: string },
): string {
  return `(${selectUndeleted(schema, files.map(withAnyDeletes), names.file, names.row)})`
}

function wholeFiles({ fields }: Schema, files: readonly LocalFile[], fileColumn: string | undefined): string {
  const more = fileColumn === undefined ? '' : `, filename = ${quoteLiteral(fileColumn)}`
  const paths = files.map(({ path }) => quoteLiteral(path)).join(', ')
  const schema = schemaMapLiteral(fields, ({ name }) => name)
  return `read_parquet([${paths}], schema = ${schema}${cardinalityOption(files)}${more})`
}

/** Without it, the engine takes every file for a small one and orders joins badly. Zero would mean unknown. */
function cardinalityOption(files: readonly LocalFile[]): string {
  const rows = rowsOf(files) ?? 0
  return rows === 0 ? '' : `, explicit_cardinality = ${rows}`
}

type Deleted = LocalFile & { readonly deletes: LocalDeletes }

/** Newer than every delete file, because deletes of other files in the same scan may concern all partitions. */
const NO_DELETES: LocalDeletes = {
  location: '',
  sequenceNumber: Number.MAX_SAFE_INTEGER,
  scope: '',
  files: [],
  paths: [],
}
const withAnyDeletes = (file: LocalFile): Deleted => ({ ...file, deletes: file.deletes ?? NO_DELETES })

const hasDeletes = (file: LocalFile): file is Deleted => file.deletes !== undefined

/** A SELECT of the rows that are not deleted. `fileColumn` names an additional column with the path of each row's file. */
function selectUndeleted(
  schema: Schema,
  files: readonly Deleted[],
  fileColumn?: string,
  rowColumn?: string,
): string {
  const used = new Map(
    files.flatMap(({ deletes }) =>
      deletes.files.map((file, i) => [file.id, { file, path: deletes.paths[i] ?? '' }] as const),
    ),
  )
  const scopes = new Map(
    [...new Set(files.map(({ deletes }) => deletes.scope))].map((scope, i) => [scope, i]),
  )
  const context: Context = { files, used: [...used.values()], scopes }
  const equalities = [...Map.groupBy(context.used, ({ file }) => idsOf(file)).values()].flatMap((group) => {
    const columns = group[0]?.file.columns
    return columns ? [{ group, columns }] : []
  })
  const fields = withCompared(
    schema.fields,
    equalities.flatMap(({ columns }) => columns),
  )
  const columns = schema.fields.map((field, i) => {
    const read = inheritedSql(field.id, `t.c${i}`)
    const value = fields[i] === field ? read : `CAST(${read} AS ${sqlType(field.type)})`
    return `${value} AS ${quoteIdentifier(field.name)}`
  })
  if (fileColumn !== undefined) columns.push(`t.filename AS ${quoteIdentifier(fileColumn)}`)
  if (rowColumn !== undefined) columns.push(`t.file_row_number AS ${quoteIdentifier(rowColumn)}`)
  const indexOf = new Map(fields.map(({ id }, i) => [id, i]))
  const scan = parquetScan(
    fields,
    files.map(({ path }) => path),
    cardinalityOption(files),
  )
  return [
    `SELECT ${columns.join(', ')} FROM ${scan} t`,
    hasLineage(schema) ? `LEFT JOIN ${lineages(files)} l ON l.path = t.filename` : '',
    equalities.length > 0 ? `JOIN ${dataFiles(context)} f ON f.path = t.filename` : '',
    withoutPositions(context),
    ...equalities.map((equality, n) => withoutEqual(context, equality, { n, indexOf })),
  ].join(' ')
}

interface Context {
  readonly files: readonly Deleted[]
  readonly used: readonly UsedDelete[]
  /** Numbers the scopes of the data files. */
  readonly scopes: ReadonlyMap<string, number>
}

interface UsedDelete {
  readonly file: DeleteFile
  readonly path: string
}

const idsOf = ({ columns }: DeleteFile): string =>
  columns === null
    ? ''
    : columns
        .map(({ id }) => id)
        .toSorted((a, b) => a - b)
        .join()

function dataFiles({ files, scopes }: Context): string {
  const rows = files.map(({ path, deletes: { location, sequenceNumber, scope } }) =>
    rowSql([quoteLiteral(placeIn(location)), quoteLiteral(path), sequenceNumber, scopes.get(scope) ?? null]),
  )
  return `(FROM (VALUES ${rows.join(', ')}) f(location, path, number, scope))`
}

function deleteFiles(group: readonly UsedDelete[], { scopes }: Context): string {
  const rows = group.map(({ file: { sequenceNumber, scope }, path }) =>
    rowSql([quoteLiteral(path), sequenceNumber, scope === null ? null : (scopes.get(scope) ?? null)]),
  )
  return `(FROM (VALUES ${rows.join(', ')}) s(path, number, scope))`
}

function lineages(files: readonly Deleted[]): string {
  const rows = files.map(({ path, lineage }) =>
    rowSql([quoteLiteral(path), lineage?.firstRowId ?? null, lineage?.sequenceNumber ?? null]),
  )
  return `(FROM (VALUES ${rows.join(', ')}) l(path, first_row_id, number))`
}

const rowSql = (values: readonly (string | number | null)[]): string =>
  `(${values.map((value) => value ?? 'NULL::INTEGER').join(', ')})`

/** The columns of a position delete file. */
export const POSITION_FIELDS: readonly NestedField[] = [
  { id: FILE_PATH_ID, name: 'file_path', required: true, type: 'string' },
  { id: POSITION_ID, name: 'pos', required: true, type: 'long' },
]

/** A file without the expected columns would otherwise delete nothing. */
const requiredPosition = (column: string, name: string): string =>
  `CASE WHEN ${column} IS NULL THEN error('a position delete file has a row without ${name}') ELSE ${column} END`

/** The SQL for `placeIn`. Delete files keep their texts when the root of the lake changes. */
const placeSql = (location: string): string =>
  `regexp_replace(${location}, '^.*?/${LAKE_PREFIX}', '/${LAKE_PREFIX}')`

function withoutPositions(context: Context): string {
  const lists = [...inFiles(context), ...inVectors(context)]
  if (lists.length === 0) return ''
  return `ANTI JOIN (${lists.join(' UNION ALL ')}) p ON p.path = t.filename AND p.pos = t.file_row_number`
}

/** Positions in delete files. */
function inFiles(context: Context): string[] {
  const group = context.used.filter(({ file }) => file.columns === null && file.vector === undefined)
  if (group.length === 0) return []
  const scan = parquetScan(
    POSITION_FIELDS,
    group.map(({ path }) => path),
  )
  return [
    `SELECT f.path, ${requiredPosition('d.c1', 'pos')} AS pos FROM ${scan} d
    JOIN ${deleteFiles(group, context)} s ON s.path = d.filename
    JOIN ${dataFiles(context)} f
      ON f.location = ${placeSql(requiredPosition('d.c0', 'file_path'))} AND (s.scope IS NULL OR f.scope = s.scope) AND f.number <= s.number`,
  ]
}

/** Positions in deletion vectors. Their local files list ranges of positions (`deletedLines`). */
function inVectors({ files, used }: Context): string[] {
  const paths = new Map(files.map(({ path, deletes }) => [deletes.location, path]))
  const vectors = used.flatMap(({ file: { vector }, path }) =>
    vector === undefined ? [] : [{ path, dataPath: paths.get(vector.dataFile) ?? null }],
  )
  if (vectors.length === 0) return []
  const rows = vectors.map(
    ({ path, dataPath }) => `(${quoteLiteral(path)}, ${dataPath === null ? 'NULL' : quoteLiteral(dataPath)})`,
  )
  const list = vectors.map(({ path }) => quoteLiteral(path)).join(', ')
  return [
    `SELECT v.data_path AS path, unnest(range(d.start, d.stop)) AS pos
    FROM read_csv([${list}], columns = {'start': 'BIGINT', 'stop': 'BIGINT'}, header = false, auto_detect = false, delim = ',', filename = true) d
    JOIN (VALUES ${rows.join(', ')}) v(path, data_path) ON v.path = d.filename`,
  ]
}

/** Equal values include two nulls. */
function withoutEqual(
  context: Context,
  { group, columns }: { group: readonly UsedDelete[]; columns: readonly EqualityColumn[] },
  { n, indexOf }: { n: number; indexOf: ReadonlyMap<number, number> },
): string {
  const fields = comparedFields(columns)
  const scan = parquetScan(
    fields,
    group.map(({ path }) => path),
  )
  const indexIn = new Map(fields.map(({ id }, i) => [id, i]))
  const keys = columns.map(
    (column, i) => `${comparedSql(column, `d.c${indexIn.get(column.column.id) ?? ''}`)} AS k${i}`,
  )
  const equal = columns.map(
    (column, i) =>
      `e${n}.k${i} IS NOT DISTINCT FROM ${comparedSql(column, `t.c${indexOf.get(column.column.id) ?? ''}`)}`,
  )
  return `ANTI JOIN (
    SELECT ${keys.join(', ')}, s.scope, max(s.number) AS number FROM ${scan} d
    JOIN ${deleteFiles(group, context)} s ON s.path = d.filename GROUP BY ALL
  ) e${n} ON ${equal.join(' AND ')} AND f.number < e${n}.number AND (e${n}.scope IS NULL OR e${n}.scope = f.scope)`
}
