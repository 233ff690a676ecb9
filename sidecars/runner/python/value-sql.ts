import { type DuckType, parseDuckType, renderDuckType } from '../../../lake/iceberg/format/duckdb-type.ts'
import { type Schema, toDuckDb } from '../../../lake/iceberg/format/types.ts'
import { quoteIdentifier, quoteLiteral } from '../../../lake/quote.ts'
import type { JsonResult, ValueType } from '../interpreter/messages.ts'

// SQL that turns rows of the engine into files for Python, and files of Python into rows.

export interface RelationColumn {
  name: string
  /** The engine's name of the type. */
  text: string
  type: DuckType
}

export const relationColumn = ({ name, type }: { name: string; type: string }): RelationColumn => ({
  name,
  text: type,
  type: parseDuckType(type),
})

const text = (type: DuckType): string => renderDuckType(type, quoteIdentifier)
const VARCHAR: DuckType = { kind: 'scalar', name: 'VARCHAR' }
/** Types that JSON represents as they are. */
const JSON_TYPES = new Set(
  'BOOLEAN TINYINT SMALLINT INTEGER BIGINT UTINYINT USMALLINT UINTEGER UBIGINT FLOAT DOUBLE VARCHAR'.split(
    ' ',
  ),
)

/** A SELECT of the relation's rows that JSON represents without loss. */
export function selectForJson(relation: string, columns: readonly RelationColumn[]): string {
  const selected = columns.map(({ name, type }) => {
    const column = quoteIdentifier(name)
    return `${jsonExpression(column, type)} AS ${column}`
  })
  return `SELECT ${selected.join(', ')} FROM ${quoteIdentifier(relation)}`
}

/** Frequent types become numbers, because Python reads numbers faster than texts. */
function jsonExpression(column: string, type: DuckType): string {
  if (type.kind === 'scalar')
    switch (type.name) {
      case 'TIMESTAMP':
      case 'TIMESTAMP WITH TIME ZONE':
        return `epoch_us(${column})`
      case 'DATE':
        return `(${column} - DATE '1970-01-01')`
      case 'BLOB':
        return `base64(${column})`
    }
  const wire = wireType(type)
  return text(wire) === text(type) ? column : `CAST(${column} AS ${text(wire)})`
}

const wireType = (type: DuckType): DuckType =>
  mapped(type, (leaf) => (leaf.kind === 'scalar' && JSON_TYPES.has(leaf.name) ? leaf : VARCHAR))

/** A SELECT of the relation's rows that Parquet represents without loss. Types that other readers do not know become text. */
export function selectForParquet(relation: string, columns: readonly RelationColumn[]): string {
  const selected = columns.map(({ name, type }) => {
    const column = quoteIdentifier(name)
    const stored = mapped(type, parquetLeaf)
    return text(stored) === text(type) ? column : `CAST(${column} AS ${text(stored)}) AS ${column}`
  })
  return `SELECT ${selected.join(', ')} FROM ${quoteIdentifier(relation)}`
}

const AS_TEXT = new Set([
  'UHUGEINT',
  'UUID',
  'INTERVAL',
  'TIME WITH TIME ZONE',
  'BIT',
  'BIGNUM',
  'ENUM',
  'JSON',
])

function parquetLeaf(leaf: DuckType): DuckType {
  if (leaf.kind !== 'scalar') return leaf
  if (leaf.name === 'HUGEINT') return { kind: 'decimal', precision: 38, scale: 0 }
  if (leaf.name === '"NULL"' || leaf.name === 'NULL') return { kind: 'scalar', name: 'INTEGER' }
  return AS_TEXT.has(leaf.name) ? VARCHAR : leaf
}

function mapped(type: DuckType, leaf: (type: DuckType) => DuckType): DuckType {
  switch (type.kind) {
    case 'list':
      return { ...type, element: mapped(type.element, leaf) }
    case 'struct':
      return {
        kind: 'struct',
        fields: type.fields.map(({ name, type }) => ({ name, type: mapped(type, leaf) })),
      }
    case 'map':
      return { kind: 'map', key: mapped(type.key, leaf), value: mapped(type.value, leaf) }
    default:
      return leaf(type)
  }
}

/** The table that will take the rows. Python has few types, so a column takes the table's type if its values fit. */
interface Target {
  /** Null: the table does not exist, or its columns are replaced. */
  schema: Schema | null
}

export interface ResultSql {
  sql: string
  warnings: string[]
}

/** A SELECT of the rows in a JSON file of an interpreter. Each line contains a list of values for each column. */
export function selectFromJson(result: JsonResult, path: string, target: Target): ResultSql {
  const tableTypes = knownTypes(target)
  const warnings: string[] = []
  const columns = result.columns.map(({ name, type }, index) => {
    const tableType = tableTypes.get(name.toLowerCase())
    if (type.kind === 'null' && tableType === undefined) warnings.push(nothingBut(name))
    const final = text(finalType(type, tableType))
    return {
      final,
      wire: text(jsonType(type)),
      place: quoteIdentifier(String(index)),
      name: quoteIdentifier(name),
    }
  })
  const read = columns.map(({ wire, place }) => `${place}: ${quoteLiteral(`${wire}[]`)}`).join(', ')
  const options = [
    "format = 'newline_delimited'",
    `columns = {${read}}`,
    `maximum_object_size = ${Math.max(OBJECT_BYTES, result.longestBytes + 1)}`,
  ]
  const unnested = columns.map(({ place }) => `unnest(${place}) AS ${place}`).join(', ')
  const cast = columns.map(({ final, place, name }) => `CAST(${place} AS ${final}) AS ${name}`).join(', ')
  return {
    sql: `SELECT ${cast} FROM (SELECT ${unnested} FROM read_json(${quoteLiteral(path)}, ${options.join(', ')}))`,
    warnings,
  }
}

/** Bytes of one line of a file. Buffers of the engine have twice this size. */
const OBJECT_BYTES = 4 * 1_048_576
const nothingBut = (name: string) =>
  `column ${JSON.stringify(name)} contains only None: its type is VARCHAR until the table has another type`

/** A SELECT of the rows in a Parquet file of an interpreter. */
export function selectFromParquet(path: string, nullColumns: readonly string[], target: Target): ResultSql {
  const known = knownTypes(target)
  const warnings = nullColumns.filter((name) => !known.has(name.toLowerCase())).map(nothingBut)
  const replaced = nullColumns.map((name) => {
    const type = text(known.get(name.toLowerCase()) ?? VARCHAR)
    return `CAST(NULL AS ${type}) AS ${quoteIdentifier(name)}`
  })
  const star = replaced.length === 0 ? '*' : `* REPLACE (${replaced.join(', ')})`
  return { sql: `SELECT ${star} FROM read_parquet(${quoteLiteral(path)})`, warnings }
}

/** A SELECT without rows that has the columns of the table, except those of `without`. */
export function selectNothing(schema: Schema, without: readonly string[]): string {
  const excluded = new Set(without.map((name) => name.toLowerCase()))
  const columns = schema.fields
    .filter(({ name }) => !excluded.has(name.toLowerCase()))
    .map(({ name, type }) => `CAST(NULL AS ${text(toDuckDb(type))}) AS ${quoteIdentifier(name)}`)
  return `SELECT ${columns.join(', ')} WHERE false`
}

const knownTypes = ({ schema }: Target) =>
  new Map((schema?.fields ?? []).map(({ name, type }) => [name.toLowerCase(), toDuckDb(type)]))

/** The type for reading the JSON of a value, before the cast. */
function jsonType(type: ValueType): DuckType {
  switch (type.kind) {
    case 'scalar':
      return JSON_TYPES.has(type.name) && type.isText !== true ? { kind: 'scalar', name: type.name } : VARCHAR
    case 'list':
      return { kind: 'list', element: jsonType(type.element) }
    case 'struct':
      return { kind: 'struct', fields: type.fields.map(({ name, type }) => ({ name, type: jsonType(type) })) }
    default:
      return VARCHAR
  }
}

/** The type of the column: the table's type if it can hold every value, otherwise the type that Python found. */
function finalType(type: ValueType, own: DuckType | undefined): DuckType {
  if (own !== undefined && holds(own, type)) return own
  switch (type.kind) {
    case 'null':
      return VARCHAR
    case 'scalar':
      return { kind: 'scalar', name: type.name }
    case 'decimal':
      return wider(type, own)
    case 'list':
      return {
        kind: 'list',
        element: finalType(type.element, own?.kind === 'list' ? own.element : undefined),
      }
    case 'struct': {
      const fields = new Map(
        own?.kind === 'struct' ? own.fields.map((field) => [field.name, field.type]) : [],
      )
      return {
        kind: 'struct',
        fields: type.fields.map(({ name, type }) => ({ name, type: finalType(type, fields.get(name)) })),
      }
    }
  }
}

function holds(own: DuckType, type: ValueType): boolean {
  if (type.kind === 'null') return true
  if (own.kind === 'decimal') {
    if (type.kind === 'decimal')
      return type.scale <= own.scale && type.precision - type.scale <= own.precision - own.scale
    return type.kind === 'scalar' && type.name === 'BIGINT' && own.precision - own.scale >= BIGINT_DIGITS
  }
  if (own.kind !== 'scalar' || type.kind !== 'scalar') return false
  if (type.name === 'BIGINT')
    return own.name === 'DOUBLE' || (own.name === 'INTEGER' && type.isSmall === true)
  return type.name === 'DATE' && own.name === 'TIMESTAMP'
}

const BIGINT_DIGITS = 19
const DECIMAL_DIGITS = 38

/** Uses the table's scale where possible, so that the table's column can be widened to this type. */
function wider(
  { precision, scale }: { precision: number; scale: number },
  own: DuckType | undefined,
): DuckType {
  const isGrown =
    own?.kind === 'decimal' && scale < own.scale && precision - scale + own.scale <= DECIMAL_DIGITS
  return isGrown
    ? { kind: 'decimal', precision: precision - scale + own.scale, scale: own.scale }
    : { kind: 'decimal', precision, scale }
}
