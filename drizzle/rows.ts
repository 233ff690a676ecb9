// Column lists and row types for statements in plain SQL, from the drizzle tables: a column is described once.
import { getTableColumns, getTableName, type InferSelectModel } from 'drizzle-orm'
import type { PgTable } from 'drizzle-orm/pg-core'
import type { JSONValue } from 'postgres'
import type { Sql, SqlTx } from './sql.ts'
import type { Part } from './together.ts'

/** Keys of the columns of a table, as its rows have them in TypeScript. */
type Key<Table extends PgTable> = keyof InferSelectModel<Table> & string

/** A row with these columns, as `selected` reads it. */
export type RowOf<Table extends PgTable, K extends Key<Table>> = Pick<InferSelectModel<Table>, K>

interface Column {
  key: string
  name: string
  type: string
}

function columnsOf(table: PgTable, keys: readonly string[]): Column[] {
  const columns = getTableColumns(table)
  return keys.map((key) => {
    const column = columns[key]
    if (column === undefined) throw new Error(`the table has no column ${key}`)
    return { key, name: column.name, type: column.getSQLType() }
  })
}

const listed = (columns: readonly Column[], text: (column: Column) => string) => columns.map(text).join(', ')

/** The columns of `alias`, each named by its key: `r."pipeline_id" as "pipelineId", ...`. Read the rows as `RowOf`. */
export function selected<Table extends PgTable>(
  sql: Sql | SqlTx,
  table: Table,
  keys: readonly Key<Table>[],
  alias: string,
): Part {
  // The driver reads an int8 as text. As a float8 it is a number, exact up to 2^53.
  const cast = ({ type }: Column) => (type === 'bigint' ? '::float8' : '')
  return sql.unsafe(
    listed(columnsOf(table, keys), (one) => `${alias}."${one.name}"${cast(one)} as "${one.key}"`),
  )
}

/** The names of columns, for an INSERT or a row-wise UPDATE: `"id", "pipeline_id", ...`. */
export const columnNames = <Table extends PgTable>(
  sql: Sql | SqlTx,
  table: Table,
  keys: readonly Key<Table>[],
  prefix = '',
): Part => sql.unsafe(listed(columnsOf(table, keys), ({ name }) => `${prefix}"${name}"`))

/** The columns of a record made from JSON with their types: `"id" uuid, "pipeline_id" uuid, ...`. */
export const columnTypes = <Table extends PgTable>(
  sql: Sql | SqlTx,
  table: Table,
  keys: readonly Key<Table>[],
): Part => sql.unsafe(listed(columnsOf(table, keys), ({ name, type }) => `"${name}" ${type}`))

/** A row as JSON by column names, for `columnTypes`. */
export const toRecord = <Table extends PgTable, K extends Key<Table>>(
  table: Table,
  keys: readonly K[],
  row: Readonly<Partial<Record<K, unknown>>>,
): Record<string, unknown> =>
  Object.fromEntries(columnsOf(table, keys).map(({ key, name }) => [name, row[key as K]]))

/** A set of rows to select from: `jsonb_to_recordset(...) as <alias>("id" uuid, ...)`. One parameter, however many rows. */
export const recordset = <Table extends PgTable, K extends Key<Table>>(
  sql: Sql | SqlTx,
  table: Table,
  keys: readonly K[],
  rows: readonly Readonly<Partial<Record<K, unknown>>>[],
  alias: string,
): Part => sql`
  jsonb_to_recordset(${sql.json(rows.map((row) => toRecord(table, keys, row)) as unknown as JSONValue)})
    as ${sql(alias)}(${columnTypes(sql, table, keys)})`

/** `insert into <table> (...) select ... from <rows>`. */
export const insertRows = <Table extends PgTable, K extends Key<Table>>(
  sql: Sql | SqlTx,
  table: Table,
  keys: readonly K[],
  rows: readonly Readonly<Partial<Record<K, unknown>>>[],
): Part => sql`
  insert into ${sql(getTableName(table) as string)} (${columnNames(sql, table, keys)})
  select ${columnNames(sql, table, keys, 'n.')} from ${recordset(sql, table, keys, rows, 'n')}`
