// Marks rows of a table's files as deleted by their positions, instead of rewriting the files.

import { quoteIdentifier, quoteLiteral } from '../../quote.ts'
import { compareBounds, encodeBound } from '../format/bounds.ts'
import { tupleText } from '../format/data-file.ts'
import { CODEC, DELETE_FILES_LIMIT, FILE_PATH_ID, type Marking } from '../format/layout.ts'
import { POSITION_FIELDS, readPositions } from '../read/table-sql.ts'
import { fieldIdsLiteral } from '../sql/sql.ts'
import { metricsOf } from './stats.ts'
import {
  type Candidate,
  type MergeRules,
  ownNames,
  type Target,
  type WriteEngine,
  type WrittenFile,
} from './write-engine.ts'

/** A local file with the positions of deleted rows. */
export interface WrittenDeletes extends WrittenFile {
  /** The spec of the data files concerned. */
  readonly specId: number
}

/**
 * Chooses the files whose rows are marked as deleted, when the touched files are too large to be rewritten. `hits` has the
 * number of affected rows per candidate.
 */
export function filesToMark(
  candidates: readonly Candidate[],
  hits: ReadonlyMap<number, number>,
  { rewrittenBytes, deletedShare }: Marking,
): Set<number> {
  const touched = [...hits.keys()].flatMap((i) => candidates[i] ?? [])
  const bytes = touched.reduce((sum, { file }) => sum + file.file.sizeBytes, 0)
  if (bytes <= rewrittenBytes) return new Set()
  return new Set(
    [...hits].flatMap(([i, count]) => {
      const candidate = candidates[i]
      if (candidate === undefined || candidate.isGathered) return []
      const { recordCount, deletes } = candidate.file.file
      const deleted = recordCount - candidate.rows + count
      const mayBeMarked =
        deleted <= recordCount * deletedShare && (deletes?.files.length ?? 0) < DELETE_FILES_LIMIT
      return mayBeMarked ? [i] : []
    }),
  )
}

/** Writes one delete file per partition for the rows of these files whose keys are in `batch`. */
export async function writePositionDeletes(
  engine: WriteEngine,
  marked: readonly Candidate[],
  { schema, directory }: Target,
  { keys, batch }: { keys: MergeRules['keys']; batch: string },
): Promise<WrittenDeletes[]> {
  const written: WrittenDeletes[] = []
  const equal = keys
    .map(({ name }) => quoteIdentifier(name))
    .map((key) => `t.${key} IS NOT DISTINCT FROM b.${key}`)
    .join(' AND ')
  const partitions = Map.groupBy(marked, ({ file }) => `${file.specId} ${tupleText(file.file.partition)}`)
  for (const group of partitions.values()) {
    const [first] = group
    if (first === undefined) continue
    const locations = group.map(({ file }) => file.file.location)
    const rows = locations.map(
      (location, i) => `(${quoteLiteral(location)}, ${quoteLiteral(group[i]?.local.path ?? '')})`,
    )
    const names = ownNames(schema)
    const locals = group.map(({ local }) => local)
    const positions = readPositions({ ...schema, fields: keys }, locals, names)
    const path = `${directory}/deletes-${written.length}.parquet`
    const [copied] = await engine.copy(
      `COPY (SELECT f.location AS file_path, t.${names.row} AS pos FROM ${positions} t
             JOIN (VALUES ${rows.join(', ')}) f(location, path) ON f.path = t.${names.file}
             SEMI JOIN ${batch} b ON ${equal} ORDER BY ALL)
       TO ${quoteLiteral(path)} (FORMAT parquet, COMPRESSION ${CODEC}, FIELD_IDS ${fieldIdsLiteral(POSITION_FIELDS)}, RETURN_STATS)`,
    )
    if (copied === undefined || copied.count === 0n) continue
    const metrics = metricsOf({ type: 'struct', fields: POSITION_FIELDS }, copied)
    // Whole paths, because readers skip delete files by these bounds.
    const sorted = locations.toSorted(compareBounds)
    const columns = new Map(metrics.columns)
    columns.set(FILE_PATH_ID, {
      ...columns.get(FILE_PATH_ID),
      lower: encodeBound('string', sorted[0] ?? ''),
      upper: encodeBound('string', sorted.at(-1) ?? ''),
    })
    const { specId, file } = first.file
    written.push({ ...metrics, columns, path: copied.filename, partition: file.partition, specId })
  }
  return written
}
