// Finds the row-level deletes that apply to a data file. Sources: https://iceberg.apache.org/spec/#scan-planning,
// #position-delete-files, #equality-delete-files, #deletion-vectors

import { type BoundValue, compareBounds, decoded } from '../format/bounds.ts'
import { type DataFile, type ManifestEntry, tupleText } from '../format/data-file.ts'
import { FILE_PATH_ID } from '../format/layout.ts'
import { placeIn } from '../format/location.ts'
import { type TableMetadata, UnsupportedTable } from '../format/metadata.ts'
import { type EqualityColumn, equalityColumn } from './equality-columns.ts'

/** The part of a Puffin file that lists the deleted rows of one data file. */
export interface DeletionVector {
  readonly dataFile: string
  readonly offset: number
  readonly sizeBytes: number
}

/** A live delete file, or a deletion vector. */
export interface DeleteFile {
  /** Unique in a table: a Puffin file has several deletion vectors. */
  readonly id: string
  readonly location: string
  readonly sizeBytes: number
  readonly vector?: DeletionVector
  readonly recordCount: number
  /** The number of the commit that deleted the rows. */
  readonly sequenceNumber: number
  /** The spec and the partition of the data files concerned. Null: all data files. */
  readonly scope: string | null
  /** The columns whose values identify deleted rows. Null: the file lists positions. */
  readonly columns: readonly EqualityColumn[] | null
}

/** The deletes that may concern rows of one data file. */
export interface RowDeletes {
  readonly sequenceNumber: number
  readonly scope: string
  readonly files: readonly DeleteFile[]
}

/**
 * The number of deleted rows of a data file. Null: only the content of a delete file tells, because it may name a row twice or
 * name rows of other data files.
 */
export function deletedRowsOf(deletes: RowDeletes | undefined): number | null {
  const [first, ...others] = deletes?.files ?? []
  if (first === undefined) return 0
  return first.vector !== undefined && others.length === 0 ? first.recordCount : null
}

/** An entry of a manifest, with the partition spec of the manifest. */
export interface SpecEntry {
  readonly specId: number
  readonly entry: ManifestEntry
}

/** Finds the deletes of a data file. Undefined: no row of the file is deleted. */
export type DeletesOf = (data: SpecEntry) => RowDeletes | undefined

const NO_DELETES: DeletesOf = () => undefined

export const deleteId = ({
  location,
  contentOffset,
}: Pick<DataFile, 'location' | 'contentOffset'>): string =>
  contentOffset === undefined ? location : `${location}#${contentOffset}`

/**
 * Indexes the live delete files of a snapshot. A deletion vector replaces all position deletes of its data file.
 * @throws UnsupportedTable for unknown formats, equality columns that are unknown or in lists or maps, and two deletion vectors of a data file
 */
export function deletesIndex(deletes: readonly SpecEntry[], metadata: TableMetadata): DeletesOf {
  if (deletes.length === 0) return NO_DELETES
  const all = deletes.map((each) => ({
    file: deleteFile(each, metadata),
    isConcerned: concerns(each.entry.file),
  }))
  const vectors = new Map<string, DeleteFile>()
  for (const { file } of all) {
    if (file.vector === undefined) continue
    const { dataFile } = file.vector
    if (vectors.has(dataFile)) throw new UnsupportedTable(`data file ${dataFile} has two deletion vectors`)
    vectors.set(dataFile, file)
  }
  const byScope = Map.groupBy(
    all.filter(({ file }) => file.vector === undefined),
    ({ file }) => file.scope,
  )
  return (data) => {
    const sequenceNumber = numberOf(data.entry)
    const scope = scopeOf(data)
    const own = vectors.get(data.entry.file.location)
    const vector = own?.scope === scope && isLater(own, sequenceNumber) ? own : undefined
    const applies = (file: DeleteFile) =>
      isLater(file, sequenceNumber) && (vector === undefined || file.columns !== null)
    const files = [...(byScope.get(null) ?? []), ...(byScope.get(scope) ?? [])]
      .filter(({ file, isConcerned }) => applies(file) && isConcerned(data.entry.file))
      .map(({ file }) => file)
    if (vector !== undefined) files.push(vector)
    return files.length === 0 ? undefined : { sequenceNumber, scope, files }
  }
}

/** An equality delete spares the rows of its own commit; a position delete may name them. */
const isLater = ({ columns, sequenceNumber }: DeleteFile, dataNumber: number): boolean =>
  columns === null ? dataNumber <= sequenceNumber : dataNumber < sequenceNumber

/** Files from before format version 2 have no number, which means 0. */
const numberOf = ({ sequenceNumber }: ManifestEntry): number => sequenceNumber ?? 0

const scopeOf = ({ specId, entry }: SpecEntry): string => `${specId} ${tupleText(entry.file.partition)}`

function deleteFile(each: SpecEntry, metadata: TableMetadata): DeleteFile {
  const { location, sizeBytes, recordCount, format, content, equalityIds = [] } = each.entry.file
  const vector = vectorOf(each.entry.file)
  if (format !== 'PARQUET' && vector === undefined)
    throw new UnsupportedTable(`${format} delete files are not supported, only Parquet: ${location}`)
  const columns =
    content === 'position-deletes' ? null : equalityIds.map((id) => equalityColumn(id, location, metadata))
  if (columns?.length === 0)
    throw new UnsupportedTable(`the equality delete file ${location} names no columns`)
  const spec = metadata['partition-specs'].find((candidate) => candidate['spec-id'] === each.specId)
  const isGlobal = columns !== null && spec?.fields.every(({ transform }) => transform === 'void') === true
  const sequenceNumber = numberOf(each.entry)
  return {
    id: deleteId(each.entry.file),
    location,
    sizeBytes,
    recordCount,
    sequenceNumber,
    scope: isGlobal ? null : scopeOf(each),
    columns,
    ...(vector && { vector }),
  }
}

/** The deletion vector that an entry describes. Undefined: the entry describes a file, or lacks a required field. */
export function vectorOf({
  content,
  format,
  referencedDataFile,
  contentOffset,
  contentSizeBytes,
}: DataFile): DeletionVector | undefined {
  if (content !== 'position-deletes' || format !== 'PUFFIN') return undefined
  if (referencedDataFile === undefined || contentOffset === undefined || contentSizeBytes === undefined)
    return undefined
  return { dataFile: referencedDataFile, offset: contentOffset, sizeBytes: contentSizeBytes }
}

/** Whether the bounds of a position delete file admit positions of a data file. Bounds below another root are unknown. */
function concerns({ content, columns, referencedDataFile }: DataFile): (data: DataFile) => boolean {
  if (content === 'position-deletes' && referencedDataFile !== undefined) {
    const place = placeIn(referencedDataFile)
    return ({ location }) => placeIn(location) === place
  }
  const bounds = content === 'position-deletes' ? columns.get(FILE_PATH_ID) : undefined
  const [lower, upper] = [bounds?.lower, bounds?.upper].map(
    (bytes): BoundValue | undefined => bytes && decoded('string', bytes),
  )
  return ({ location }) => {
    const root = location.slice(0, location.length - placeIn(location).length)
    const isComparable = (bound: BoundValue | undefined) =>
      bound !== undefined && String(bound).startsWith(root)
    return (
      !(isComparable(lower) && compareBounds(lower ?? '', location) > 0) &&
      !(isComparable(upper) && compareBounds(upper ?? '', location) < 0)
    )
  }
}
