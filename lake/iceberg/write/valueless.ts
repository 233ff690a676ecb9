// Finds columns of a table that never had a value. An empty file, or a JSON null, gives a column no type of its own.

import { quoteIdentifier } from '../../quote.ts'
import { hasDefault } from '../format/default-values.ts'
import { byName } from '../format/fields.ts'
import { currentSchema, currentSnapshot, type TableMetadata } from '../format/metadata.ts'
import type { Column, NestedField } from '../format/types.ts'
import { liveManifestsOf, type ManifestReader, type TableFile, tableFilesOf } from '../read/scan.ts'
import { readTable } from '../read/table-sql.ts'
import type { OpenFiles } from './write-engine.ts'

interface Means {
  readonly reader: ManifestReader
  readonly open: OpenFiles
}

/**
 * The ids of those columns of the table that have no value in any row, and to whose ids nothing else refers. Exact statistics
 * decide; the engine counts the values of files without them.
 */
export async function valuelessColumns(
  table: TableMetadata,
  columns: readonly Column[],
  { reader, open }: Means,
): Promise<Set<number>> {
  const snapshot = currentSnapshot(table)
  const fields = byName(currentSchema(table).fields)
  const named = namedIds(table)
  const candidates = columns
    .flatMap(({ name }) => fields.get(name.toLowerCase()) ?? [])
    .filter((field) => !named.has(field.id) && !hasDefault(field))
  if (candidates.length === 0 || Number(snapshot?.summary['total-equality-deletes'] ?? 0) > 0)
    return new Set()
  const files = snapshot
    ? await tableFilesOf(await liveManifestsOf(table, snapshot['snapshot-id'], reader), reader)
    : []
  const possible = candidates.filter((field) => files.every(({ file }) => valuesIn(file, field) !== 'some'))
  const unknown = files.filter(({ file }) => possible.some((field) => valuesIn(file, field) === 'unknown'))
  const counts = await countValues(table, possible, unknown, open)
  return new Set(possible.filter((_, i) => counts[i] === 0).map(({ id }) => id))
}

/** The columns by which rows are partitioned or sorted. */
const namedIds = (table: TableMetadata): Set<number> =>
  new Set(
    [...table['partition-specs'], ...table['sort-orders']].flatMap(({ fields }) =>
      fields.map((field) => field['source-id']),
    ),
  )

function valuesIn(file: TableFile['file'], { id, type }: NestedField): 'none' | 'some' | 'unknown' {
  const nulls = typeof type === 'string' ? file.columns.get(id)?.nullCount : undefined
  if (nulls === undefined) return 'unknown'
  return Number(nulls) === file.recordCount ? 'none' : 'some'
}

async function countValues(
  table: TableMetadata,
  fields: readonly NestedField[],
  files: readonly TableFile[],
  open: OpenFiles,
): Promise<number[]> {
  if (fields.length === 0 || files.length === 0) return fields.map(() => 0)
  const { engine, files: locals } = await open(files)
  const counts = fields.map(({ name }) => `CAST(count(${quoteIdentifier(name)}) AS VARCHAR)`)
  const [row] = await engine.query(
    `SELECT ${counts.join(', ')} FROM ${readTable(currentSchema(table), locals)}`,
  )
  return fields.map((_, i) => Number(row?.[i]))
}
