import { quoteIdentifier } from '../../quote.ts'
import { hasDefault } from '../format/default-values.ts'
import { renderDuckType } from '../format/duckdb-type.ts'
import { byName } from '../format/fields.ts'
import { type Column, type NestedField, parseColumn, type Schema, storedTypeOf } from '../format/types.ts'
import { literal, sqlType } from '../sql/sql.ts'
import { type Doubt, fittedSql } from './fit.ts'

/**
 * The fields of `schema` that a result with these columns writes, in the schema's order. A column with a default value is always
 * written, because an absent column means its initial default.
 */
export function fieldsWritten(columns: readonly Column[], schema: Schema): NestedField[] {
  const present = byName(columns)
  return schema.fields.filter((field) => present.has(field.name.toLowerCase()) || hasDefault(field))
}

/**
 * The SELECT list inside COPY, which converts a result to the types and names of the table: `"a", CAST("b" AS BIGINT) AS "b"`.
 * Columns of the table that the result lacks are not written, or have their default value; otherwise readers see null.
 */
export function selectForWrite(columns: readonly Column[], schema: Schema): string {
  const present = byName(columns)
  return schema.fields
    .flatMap((field) => {
      const column = present.get(field.name.toLowerCase())
      if (column) return [projection(column, field)]
      return hasDefault(field) ? [constant(writeDefault(field), field)] : []
    })
    .join(', ')
}

function projection(column: Column, field: NestedField): string {
  const name = quoteIdentifier(column.name)
  const target = sqlType(field.type)
  const given = renderDuckType(parseColumn(column), quoteIdentifier)
  if (given === target) return column.name === field.name ? name : `${name} AS ${quoteIdentifier(field.name)}`
  const stored = storedTypeOf(column)
  const storedText = renderDuckType(stored, quoteIdentifier)
  const value = given === storedText ? name : `CAST(${name} AS ${storedText})`
  const fitted = fittedSql(value, stored, field) ?? name
  return `CAST(${fitted} AS ${target}) AS ${quoteIdentifier(field.name)}`
}

/** The columns, and fields inside them, whose values decide whether they fit the table. */
export function doubtsOf(columns: readonly Column[], schema: Schema): Doubt[] {
  const fields = byName(schema.fields)
  const doubts: Doubt[] = []
  for (const column of columns) {
    const field = fields.get(column.name.toLowerCase())
    if (field) fittedSql('', storedTypeOf(column), field, doubts)
  }
  return doubts
}

/** Like `selectForWrite`, but for every column of the schema. `overrides` has the SQL of columns that the result lacks. */
export function selectForTable(
  columns: readonly Column[],
  schema: Schema,
  overrides: ReadonlyMap<number, string>,
): string {
  const present = byName(columns)
  return schema.fields
    .map((field) => {
      const column = present.get(field.name.toLowerCase())
      const override = overrides.get(field.id)
      if (override === undefined && column) return projection(column, field)
      return constant(override ?? writeDefault(field), field)
    })
    .join(', ')
}

const constant = (value: string, { name, type }: NestedField): string =>
  `CAST(${value} AS ${sqlType(type)}) AS ${quoteIdentifier(name)}`

/** The value of a column that new rows do not name. */
const writeDefault = ({ type, 'write-default': value }: NestedField): string => literal(type, value)
