// A faster way to read the data files of a table. The general way selects columns by field id, which hides the statistics of the
// files from the engine. So it chooses worse plans, and reads a single file with one thread. Files with exactly the columns of the
// table can be read by name instead (docs/adr/0060-read-by-name.md).

import { EngineError } from '../../engine/error.ts'
import type { Engine } from '../../engine/instance.ts'
import { quoteList } from '../../quote.ts'
import type { NestedField, Schema } from '../format/types.ts'
import { sqlType } from '../sql/sql.ts'
import { hasLineage } from './lineage.ts'
import { type LocalFile, rowsOf } from './table-sql.ts'

/** A table expression over files by the names of their columns. */
interface ByName {
  readonly from: string
  /** A SELECT of one boolean: whether every file has exactly the columns of the table, so that `from` reads the same rows. */
  readonly isSame: string
}

/** A relation that an engine shows. */
export interface Source {
  readonly from: string
  readonly byName?: ByName | undefined
}

/** The engine opens all these files to plan a query. */
const FILES_LIMIT = 64

/**
 * Undefined: the files cannot be read by name, or this would not be faster. `rowsMin` is the number of rows from which the check
 * of the files (1 ms) costs less than it saves.
 */
export function readByName(schema: Schema, files: readonly LocalFile[], rowsMin: number): ByName | undefined {
  const { fields } = schema
  const isFit =
    !hasLineage(schema) &&
    files.length > 0 &&
    files.length <= FILES_LIMIT &&
    (rowsOf(files) ?? 0) >= rowsMin &&
    files.every(({ deletes }) => deletes === undefined) &&
    fields.every(({ type }) => typeof type === 'string') &&
    new Set(fields.map(({ name }) => name.toLowerCase())).size === fields.length
  if (!isFit) return undefined
  const paths = quoteList(files.map(({ path }) => path))
  return {
    from: `read_parquet(${paths}, union_by_name = true, hive_partitioning = false)`,
    // A place is taken once per file, so this number of equal columns means that each file has all of them. Grouping the columns
    // by file would take three times as long.
    isSame: `
      SELECT count(*) = ${files.length * fields.length} AND bool_and(list_contains(
        ${quoteList(fields.map(columnText))}, concat(column_id, ' ', field_id, ' ', duckdb_type, ' ', name)))
      FROM parquet_schema(${paths}) WHERE column_id > 0`,
  }
}

const columnText = ({ id, type, name }: NestedField, index: number): string =>
  `${index + 1} ${id} ${sqlType(type)} ${name}`

/** The expression that the engine should use. A check that fails says nothing, because the general way reports the cause. */
export async function sourceIn(engine: Engine, { from, byName }: Source): Promise<string> {
  if (byName === undefined) return from
  try {
    return (await engine.read(byName.isSame)).value(0, 0) === true ? byName.from : from
  } catch (error) {
    if (error instanceof EngineError && error.kind !== 'broken') return from
    throw error
  }
}
