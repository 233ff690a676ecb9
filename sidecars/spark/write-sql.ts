import type { TableName } from '../../ground/names.ts'
import type { IcebergType, NestedField, Schema } from '../../lake/iceberg/format/types.ts'
import type { WriteRules } from '../../lake/iceberg/write/result-write.ts'
import { quoteName, stringLiteral, tableIn } from './dialect.ts'
import { relationOf } from './query-check.ts'

// One statement of Spark SQL per strategy writes a query's rows to its table, with the meaning of docs/semantics/tables.md. The table
// exists, and has all columns of the query. Spark and Sail both execute these statements.

interface QueryWrite {
  name: TableName
  /** The schema of the table. */
  schema: Schema
  rules: WriteRules
  /** The author's text: one query. */
  query: string
  /** The names of its columns. */
  columns: readonly string[]
  /** The column whose greatest value decides between rows with the same key; '' for none. */
  newest: string
  /** ISO 8601 time at which new versions of rows begin. */
  at: string
}

// Names of columns that only exist inside the statements.
const IS_NEW = quoteName('sluice_is_new')
const LAST = quoteName('sluice_last')

export function writeStatement(write: QueryWrite): string {
  const { name, schema, rules } = write
  const table = tableIn(name)
  switch (rules.mergeStrategy) {
    case 'full_refresh':
      return `INSERT OVERWRITE TABLE ${table} ${rowsOf(write)}`
    case 'append_only':
      return `INSERT INTO ${table} ${rowsOf(write)}`
    case 'incremental':
      return upsert(table, schema, rules.uniqueKey, lastRows(write))
    case 'delete_insert':
      return replaceKeys(table, schema, rules.uniqueKey, rowsOf(write))
    case 'snapshot':
      return replaceKeys(table, schema, [rules.partitionColumn], rowsOf(write))
    case 'scd2':
      return addVersions(table, write)
  }
}

/** The query's rows with all columns of the table, in their order and with their types. A column that the query lacks is null. */
function rowsOf({ schema, query, columns, rules, at }: QueryWrite): string {
  const given = new Map(columns.map((column) => [column.toLowerCase(), column]))
  const givenValue = ({ name }: NestedField) => {
    if (rules.mergeStrategy === 'scd2' && isNamed(rules.scdValidFrom, name)) return instant(at)
    const column = given.get(name.toLowerCase())
    return column === undefined ? 'NULL' : `q.${quoteName(column)}`
  }
  const values = schema.fields.map(
    (field) => `CAST(${givenValue(field)} AS ${sparkType(field.type)}) AS ${quoteName(field.name)}`,
  )
  return `SELECT ${values.join(', ')} FROM ${relationOf(query)} q`
}

/**
 * One row of each key: the newest by the watermark column, then the greatest by its values. Rows of a cluster have no order, and
 * Spark accepts no number of a row in a MERGE.
 */
function lastRows(write: QueryWrite): string {
  const { schema, rules, newest } = write
  const keys = fieldsNamed(schema, rules.uniqueKey).map(({ name }) => quoteName(name))
  const first = fieldsNamed(schema, [newest])
  const order = [
    ...first,
    ...schema.fields.filter((field) => !first.includes(field) && isOrdered(field.type)),
  ]
  const newestFirst = order.map(({ name }) => `${quoteName(name)} DESC NULLS LAST`)
  const ranked = `SELECT q.*, row_number() OVER (PARTITION BY ${keys.join(', ')} ORDER BY ${newestFirst.join(', ')}) AS ${LAST} FROM (${rowsOf(write)}) q`
  return `SELECT ${namesOf(schema)} FROM (${ranked}) q WHERE ${LAST} = 1`
}

/** Replaces the rows that have a key of the source, and adds the others. */
function upsert(table: string, schema: Schema, keys: readonly string[], source: string): string {
  const matched = fieldsNamed(schema, keys).map(({ name }) => `t.${quoteName(name)} <=> s.${quoteName(name)}`)
  const changes = schema.fields.map(({ name }) => `${quoteName(name)} = s.${quoteName(name)}`)
  return `MERGE INTO ${table} t USING (${source}) s ON ${matched.join(' AND ')}
WHEN MATCHED THEN UPDATE SET ${changes.join(', ')}
WHEN NOT MATCHED THEN ${insertOf(schema)}`
}

/** Deletes all rows that have a key of the source, and adds the rows of the source, in one statement. */
function replaceKeys(table: string, schema: Schema, keys: readonly string[], source: string): string {
  const fields = fieldsNamed(schema, keys)
  const named = fields.map(({ name }) => quoteName(name))
  const matched = named.map((key) => `t.${key} <=> s.${key}`)
  const isKey = new Set(fields)
  const keyRows = schema.fields.map((field) => {
    const name = quoteName(field.name)
    return isKey.has(field) ? name : `CAST(NULL AS ${sparkType(field.type)}) AS ${name}`
  })
  const distinct = `SELECT DISTINCT ${named.join(', ')} FROM (${source}) q`
  return `MERGE INTO ${table} t USING (
SELECT false AS ${IS_NEW}, ${keyRows.join(', ')} FROM (${distinct}) q
UNION ALL SELECT true AS ${IS_NEW}, ${namesOf(schema)} FROM (${source}) q
) s ON NOT s.${IS_NEW} AND ${matched.join(' AND ')}
WHEN MATCHED THEN DELETE
WHEN NOT MATCHED AND s.${IS_NEW} THEN ${insertOf(schema)}`
}

/** Ends the open version of each changed row, and adds its new version. A row that is older than the open version has no effect. */
function addVersions(table: string, write: QueryWrite): string {
  const { schema, rules, columns, newest, at } = write
  const source = lastRows(write)
  const keys = fieldsNamed(schema, rules.uniqueKey)
  const isKey = new Set(keys)
  const values = fieldsNamed(schema, columns).filter((field) => !isKey.has(field))
  const to = quoteName(rules.scdValidTo)
  const equal = (fields: readonly NestedField[], left: string, right: string) =>
    fields.map(({ name }) => `${left}.${quoteName(name)} <=> ${right}.${quoteName(name)}`).join(' AND ') ||
    'true'
  const [version] = columns.some((column) => isNamed(column, newest)) ? fieldsNamed(schema, [newest]) : []
  const isOlder = (row: string, open: string) => {
    if (version === undefined) return 'false'
    const [added, known] = [row, open].map((alias) => `${alias}.${quoteName(version.name)}`)
    return `coalesce(${known} > ${added}, ${known} IS NOT NULL AND ${added} IS NULL)`
  }
  const all = schema.fields.map(({ name }) => `q.${quoteName(name)}`).join(', ')
  return `MERGE INTO ${table} t USING (
SELECT false AS ${IS_NEW}, ${all} FROM (${source}) q
UNION ALL SELECT true AS ${IS_NEW}, ${all} FROM (${source}) q
LEFT JOIN (SELECT *, true AS ${LAST} FROM ${table} WHERE ${to} IS NULL) o ON ${equal(keys, 'q', 'o')}
WHERE o.${LAST} IS NULL OR NOT (${equal(values, 'q', 'o')} OR ${isOlder('q', 'o')})
) s ON NOT s.${IS_NEW} AND t.${to} IS NULL AND ${equal(keys, 't', 's')}
WHEN MATCHED AND NOT (${equal(values, 't', 's')} OR ${isOlder('s', 't')}) THEN UPDATE SET ${to} = ${instant(at)}
WHEN NOT MATCHED AND s.${IS_NEW} THEN ${insertOf(schema)}`
}

const insertOf = (schema: Schema) =>
  `INSERT (${namesOf(schema)}) VALUES (${schema.fields.map(({ name }) => `s.${quoteName(name)}`).join(', ')})`

const namesOf = (schema: Schema) => schema.fields.map(({ name }) => quoteName(name)).join(', ')

const isNamed = (a: string, b: string) => a.toLowerCase() === b.toLowerCase()

const fieldsNamed = (schema: Schema, names: readonly string[]): NestedField[] =>
  names.flatMap((name) => schema.fields.filter((field) => isNamed(field.name, name)))

const instant = (at: string) => `CAST(${stringLiteral(at)} AS TIMESTAMP)`

/** Spark does not order maps. */
const isOrdered = (type: IcebergType): boolean => typeof type === 'string'

const PLAIN: Readonly<Record<string, string>> = {
  int: 'INT',
  long: 'BIGINT',
  timestamptz: 'TIMESTAMP',
  timestamp: 'TIMESTAMP_NTZ',
  uuid: 'STRING',
}

/** The type of an Iceberg column in Spark SQL. Source: Apache Iceberg, Spark type mapping. */
function sparkType(type: IcebergType): string {
  if (typeof type === 'string')
    return type.startsWith('fixed') ? 'BINARY' : (PLAIN[type] ?? type.toUpperCase())
  switch (type.type) {
    case 'list':
      return `ARRAY<${sparkType(type.element)}>`
    case 'map':
      return `MAP<${sparkType(type.key)}, ${sparkType(type.value)}>`
    case 'struct':
      return `STRUCT<${type.fields.map((field) => `${quoteName(field.name)}: ${sparkType(field.type)}`).join(', ')}>`
  }
}
