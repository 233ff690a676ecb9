// Column lists that follow from the tables, for statements on the raw client.
import { getTableColumns, type Table } from 'drizzle-orm'
import type { Sql, SqlTx } from './sql.ts'
import type { Fragment } from './visibility.ts'

/**
 * All columns of a table that a statement calls `alias`, each under the name of its property: rows have the shape of the
 * table's `$inferSelect`, but for `bigint` columns, which the client answers as text. The names are listed, because a
 * prepared `*` fails once a newer program has added a column.
 */
export const columnsOf = (sql: Sql | SqlTx, table: Table, alias: string): Fragment =>
  sql.unsafe(
    Object.entries(getTableColumns(table))
      .map(([property, { name }]) => `${alias}.${name} as "${property}"`)
      .join(', '),
  )
