// Column lists and row types for raw SQL, derived from the drizzle tables: each column is defined once.
import assert from 'node:assert'
import { type GetColumnData, getTableColumns, getTableName, type InferSelectModel } from 'drizzle-orm'
import type { PgColumn, PgTable } from 'drizzle-orm/pg-core'
import type { JSONValue, ParameterOrFragment, PendingQuery } from 'postgres'
import type { Part, Sql, SqlTx } from './sql.ts'

/** The columns of a statement by their keys in the rows. A column of `alias(runs, 'r')` belongs to `r`. */
type Columns = Readonly<Record<string, PgColumn | Computed<unknown>>>

/** The type of a row with these columns. */
export type RowOf<C extends Columns> = {
  [K in keyof C]: C[K] extends PgColumn ? GetColumnData<C[K]> : C[K] extends Computed<infer T> ? T : never
}

/** A SQL expression with the type of its values. The type is not checked. */
class Computed<T> {
  declare readonly type: T
  constructor(readonly expression: string | Part) {}
}

/** An expression that is not a column, such as an aggregate, JSON or a condition. `T` is the type that the driver returns. */
export const computed = <T>(expression: string | Part) => new Computed<T>(expression)

export const COUNT = computed<number>('count(*)::int')

/** A column that is null when an outer join finds no row. */
export const nullable = <C extends PgColumn>(column: C) => computed<GetColumnData<C> | null>(textOf(column))

/** A column that may be null in its table, but not in these rows. */
export const present = <C extends PgColumn>(column: C) =>
  computed<NonNullable<GetColumnData<C>>>(textOf(column))

/** Keys of a table's columns in its TypeScript rows. */
type Key<Table extends PgTable> = keyof InferSelectModel<Table> & keyof Table & string

/** Some columns of a table. */
export const pick = <Table extends PgTable, K extends Key<Table>>(table: Table, ...keys: readonly K[]) =>
  Object.fromEntries(keys.map((key) => [key, table[key]])) as Pick<Table, K>

/**
 * A select list: `r."pipeline_id" as "pipelineId", ...`. The columns are named, because a prepared `*` fails once a newer
 * program has added a column.
 */
export function selected(sql: Sql | SqlTx, columns: Columns): Part {
  const known = lists.get(columns)
  if (known !== undefined) return sql.unsafe(known)
  const texts: string[] = []
  const parts: Part[] = []
  for (const [key, column] of Object.entries(columns)) {
    const value = column instanceof Computed ? column.expression : textOf(column)
    if (typeof value === 'string') texts.push(`${value} as "${key}"`)
    else parts.push(sql`${value} as ${sql(key)}`)
  }
  const list = texts.join(', ')
  if (parts.length === 0 && list !== '') lists.set(columns, list)
  if (list !== '') parts.unshift(sql.unsafe(list))
  return parts.reduce((all, part) => sql`${all}, ${part}`)
}

/** Select lists that no parameter changes. Most statements have one. */
const lists = new WeakMap<Columns, string>()
const texts = new WeakMap<PgColumn, string>()

/**
 * A column in a select list. Drizzle looks up names and types of an alias through several proxies, so each text is built once.
 * The driver returns an int8 as text. A float8 is returned as a number, exact up to 2^53.
 */
function textOf(column: PgColumn): string {
  const known = texts.get(column)
  if (known !== undefined) return known
  const type = column.getSQLType().startsWith('big') ? '::float8' : ''
  const text = `"${getTableName(column.table)}"."${column.name}"${type}`
  texts.set(column, text)
  return text
}

type Values = readonly ParameterOrFragment<never>[]

/** A statement whose rows have the types of their columns: select(sql, { id: runs.id })`from run where ...`. */
export const select =
  <C extends Columns>(sql: Sql | SqlTx, columns: C, prefix: Part = sql``) =>
  (query: TemplateStringsArray, ...values: Values): PendingQuery<RowOf<C>[]> =>
    sql<RowOf<C>[]>`${prefix} select ${selected(sql, columns)} ${sql(query, ...values)}`

/** The same for the rows that a change returns: returning(sql, { id: runs.id })`delete from run where ...`. */
export const returning =
  <C extends Columns>(sql: Sql | SqlTx, columns: C) =>
  (change: TemplateStringsArray, ...values: Values): PendingQuery<RowOf<C>[]> =>
    sql<RowOf<C>[]>`${sql(change, ...values)} returning ${selected(sql, columns)}`

/** The row of a statement that always returns exactly one row. */
export function only<Row>([row, ...others]: readonly Row[]): Row {
  assert(row !== undefined && others.length === 0, 'the statement did not return exactly one row')
  return row
}

interface Column {
  key: string
  name: string
  type: string
}

const columnsByTable = new WeakMap<PgTable, Map<string, Column>>()

function columnsOf(table: PgTable, keys: readonly string[]): Column[] {
  let columns = columnsByTable.get(table)
  if (columns === undefined) {
    const entries = Object.entries<PgColumn>(getTableColumns(table))
    columns = new Map(
      entries.map(([key, column]) => [key, { key, name: column.name, type: column.getSQLType() }]),
    )
    columnsByTable.set(table, columns)
  }
  return keys.map((key) => {
    const column = columns.get(key)
    assert(column !== undefined, `the table has no column ${key}`)
    return column
  })
}

const listed = (columns: readonly Column[], text: (column: Column) => string) => columns.map(text).join(', ')

/** Column names for an INSERT or a row-wise UPDATE: `"id", "pipeline_id", ...`. */
export const columnNames = <Table extends PgTable>(
  sql: Sql | SqlTx,
  table: Table,
  keys: readonly Key<Table>[],
  prefix = '',
): Part => sql.unsafe(listed(columnsOf(table, keys), ({ name }) => `${prefix}"${name}"`))

/** Column types for a record from JSON: `"id" uuid, "pipeline_id" uuid, ...`. */
export const columnTypes = <Table extends PgTable>(
  sql: Sql | SqlTx,
  table: Table,
  keys: readonly Key<Table>[],
): Part => sql.unsafe(listed(columnsOf(table, keys), ({ name, type }) => `"${name}" ${type}`))

/** A row as JSON with column names as keys, for `columnTypes`. */
export const toRecord = <Table extends PgTable, K extends Key<Table>>(
  table: Table,
  keys: readonly K[],
  row: Readonly<Partial<Record<K, unknown>>>,
): Record<string, unknown> =>
  Object.fromEntries(columnsOf(table, keys).map(({ key, name }) => [name, row[key as K]]))

/**
 * A set of rows to select from: `jsonb_to_recordset(...) as <alias>("id" uuid, ...)`. Any number of rows takes one parameter.
 */
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
