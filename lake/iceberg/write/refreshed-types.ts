// A full refresh takes the types of its result. A column without values has no type of its own, so it keeps that of the table.

import { quoteIdentifier, quoteLiteral } from '../../quote.ts'
import { byName } from '../format/fields.ts'
import { currentSchema, type TableMetadata } from '../format/metadata.ts'
import type { Column } from '../format/types.ts'
import { sqlType } from '../sql/sql.ts'
import { doubtsOf } from './projection.ts'
import type { WriteEngine, WrittenFile } from './write-engine.ts'

/** A relation of the engine and its columns. */
interface Relation {
  readonly result: string
  readonly columns: readonly Column[]
}

/**
 * The relation with the types of the table for its columns without values. Null: it has these types already.
 */
export async function withTypesOfTable(
  table: TableMetadata | null,
  { result, columns }: Relation,
  engine: WriteEngine,
): Promise<Relation | null> {
  if (table === null) return null
  const schema = currentSchema(table)
  const doubtful = columns.filter((column) => doubtsOf([column], schema).length > 0)
  const empty = await namesWithoutValues(result, doubtful, engine)
  if (empty.size === 0) return null
  const fields = byName(schema.fields)
  const typed = columns.map((column): Column => {
    const field = fields.get(column.name.toLowerCase())
    return field && empty.has(column.name) ? { name: column.name, type: sqlType(field.type) } : column
  })
  const casts = typed
    .filter(({ name }) => empty.has(name))
    .map(({ name, type }) => `CAST(NULL AS ${type}) AS ${quoteIdentifier(name)}`)
  return { result: `(SELECT * REPLACE (${casts.join(', ')}) FROM ${result})`, columns: typed }
}

/** The names of those columns of a relation that have no value in any row. */
export async function namesWithoutValues(
  result: string,
  columns: readonly { readonly name: string }[],
  engine: Pick<WriteEngine, 'query'>,
): Promise<ReadonlySet<string>> {
  if (columns.length === 0) return new Set()
  const counts = columns.map(({ name }) => `CAST(count(${quoteIdentifier(name)}) AS VARCHAR)`)
  const [row] = await engine.query(`SELECT ${counts.join(', ')} FROM ${result}`)
  return new Set(columns.filter((_, i) => row?.[i] === '0').map(({ name }) => name))
}

/** The rows of the files that a write of the columns has made. */
export const writtenRows = (columns: readonly Column[], files: readonly WrittenFile[]): string =>
  files.length > 0
    ? `read_parquet([${files.map(({ path }) => quoteLiteral(path)).join(', ')}])`
    : `(SELECT ${columns.map(({ name, type }) => `CAST(NULL AS ${type}) AS ${quoteIdentifier(name)}`).join(', ')} WHERE false)`
