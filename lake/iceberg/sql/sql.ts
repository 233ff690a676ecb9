// DuckDB SQL that writes and reads the data files of an Iceberg table. Names and texts come from users, so each of them is
// quoted.

import { quoteIdentifier, quoteLiteral } from '../../quote.ts'
import { defaultText } from '../format/default-values.ts'
import { renderDuckType } from '../format/duckdb-type.ts'
import { type DefaultValue, type IcebergType, type NestedField, toDuckDb } from '../format/types.ts'

/** Returns the DuckDB type for reading a column of `type`, quoted for SQL. */
export const sqlType = (type: IcebergType): string => renderDuckType(toDuckDb(type), quoteIdentifier)

export function literal(type: IcebergType, value: DefaultValue | undefined): string {
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
