// DuckDB SQL that writes and reads the data files of an Iceberg table. Names and texts come from users, so each of them is
// quoted.

import { quoteIdentifier, quoteLiteral } from '../quote.ts'
import { defaultText, hasDefault } from './format/default-values.ts'
import { renderDuckType } from './format/duckdb-type.ts'
import {
  type Column,
  type DefaultValue,
  type IcebergType,
  type NestedField,
  parseColumn,
  type Schema,
  storedTypeOf,
  toDuckDb,
} from './format/types.ts'
import { byName } from './write/evolution.ts'
import { type Doubt, fittedSql } from './write/fit.ts'

/** Returns the DuckDB type for reading a column of `type`, quoted for SQL. */
export const sqlType = (type: IcebergType): string => renderDuckType(toDuckDb(type), quoteIdentifier)

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

function literal(type: IcebergType, value: DefaultValue | undefined): string {
  const text = value === undefined ? null : defaultText(type, value)
  return text === null ? 'NULL' : quoteLiteral(text)
}

/** COPY's option FIELD_IDS for the written fields: `{'a': 1, 'l': {__duckdb_field_id: 2, 'element': 3}}`. */
export const fieldIdsLiteral = (fields: readonly NestedField[]): string =>
  `{${fields.map(({ id, name, type }) => `${quoteLiteral(name)}: ${idsOf(id, type)}`).join(', ')}}`

function idsOf(id: number, type: IcebergType): string {
  if (typeof type === 'string') return String(id)
  const ownId = `__duckdb_field_id: ${id}`
  switch (type.type) {
    case 'list':
      return `{${ownId}, element: ${idsOf(type['element-id'], type.element)}}`
    case 'map':
      return `{${ownId}, key: ${idsOf(type['key-id'], type.key)}, value: ${idsOf(type['value-id'], type.value)}}`
    case 'struct':
      return `{${ownId}, ${type.fields.map((f) => `${quoteLiteral(f.name)}: ${idsOf(f.id, f.type)}`).join(', ')}}`
  }
}

/** The option `schema` of read_parquet: it selects columns by field id, and gives the initial default for columns that a file lacks. */
export function schemaMapLiteral(
  fields: readonly NestedField[],
  nameOf: (field: NestedField, i: number) => string,
) {
  const entries = fields.map(
    (field, i) =>
      `${field.id}: {name: ${quoteLiteral(nameOf(field, i))}, type: ${quoteLiteral(sqlType(field.type))}, default_value: ${literal(field.type, field['initial-default'])}}`,
  )
  return `MAP {${entries.join(', ')}}`
}

/**
 * Reads the fields under the names c0, c1 and so on, because a column of the table could hide the engine's columns `filename`
 * and `file_row_number`.
 */
export const parquetScan = (fields: readonly NestedField[], paths: readonly string[], options = ''): string =>
  `read_parquet([${paths.map(quoteLiteral).join(', ')}], schema = ${schemaMapLiteral(fields, (_, i) => `c${i}`)}${options})`
