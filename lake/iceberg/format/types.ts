// Iceberg schemas, and the mapping of DuckDB types to Iceberg types. COPY changes some types silently: HUGEINT becomes
// DOUBLE, UNION becomes STRUCT. So every column is first cast to its stored type. A type without a faithful stored type is
// refused with its name. Source: https://iceberg.apache.org/spec/#schemas-and-data-types

import type { Column } from '../../engine/instance.ts'
import { AuthorError } from '../../pipeline/author-error.ts'
import { describedIdentifier } from '../../quote.ts'
import { type DuckType, parseDuckType, renderDuckType, type StructField } from './duckdb-type.ts'

export type { Column } from '../../engine/instance.ts'

export interface NestedField {
  readonly id: number
  readonly name: string
  readonly required: boolean
  readonly type: IcebergType
  readonly doc?: string
  /** The value of rows in files without the column, as JSON (format version 3). */
  readonly 'initial-default'?: DefaultValue
  /** The value of new rows that do not name the column, as JSON (format version 3). */
  readonly 'write-default'?: DefaultValue
}

export type DefaultValue = boolean | number | bigint | string

export interface StructType {
  readonly type: 'struct'
  readonly fields: readonly NestedField[]
}

export interface ListType {
  readonly type: 'list'
  readonly 'element-id': number
  readonly 'element-required': boolean
  readonly element: IcebergType
}

export interface MapType {
  readonly type: 'map'
  readonly 'key-id': number
  readonly key: IcebergType
  readonly 'value-id': number
  readonly 'value-required': boolean
  readonly value: IcebergType
}

/** Primitive types are text: `int`, `timestamptz`, `decimal(14, 2)`, `fixed[16]`. */
export type IcebergType = string | StructType | ListType | MapType

export interface Schema extends StructType {
  readonly 'schema-id': number
  readonly 'identifier-field-ids'?: readonly number[]
}

/** A column whose type has no faithful Iceberg type. */
export class UnsupportedColumn extends AuthorError {
  override readonly name = 'UnsupportedColumn'
  constructor(
    /** The column with the path to the nested field: `a.b.element`. */
    readonly column: string,
    readonly type: string,
    /** The type for a cast, or null when no cast helps. */
    readonly cast: string | null,
    hint: string = cast === null ? 'leave the column out' : `cast it: CAST(... AS ${cast})`,
  ) {
    super(`column ${JSON.stringify(column)}: ${type} cannot be stored in a table; ${hint}`)
  }
}

/** The Iceberg names of DuckDB types that are stored unchanged. */
const SAME: Readonly<Record<string, string>> = {
  BOOLEAN: 'boolean',
  INTEGER: 'int',
  BIGINT: 'long',
  FLOAT: 'float',
  DOUBLE: 'double',
  DATE: 'date',
  TIME: 'time',
  TIMESTAMP: 'timestamp',
  'TIMESTAMP WITH TIME ZONE': 'timestamptz',
  VARCHAR: 'string',
  UUID: 'uuid',
  BLOB: 'binary',
}

const DUCKDB_NAME: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries(SAME).map(([duckdb, iceberg]) => [iceberg, duckdb]),
)

const scalar = (name: string): DuckType => ({ kind: 'scalar', name })

/** DuckDB types that are cast to a wider or simpler type before they are written. */
const STORED_AS: Readonly<Record<string, DuckType>> = {
  TINYINT: scalar('INTEGER'),
  SMALLINT: scalar('INTEGER'),
  UTINYINT: scalar('INTEGER'),
  USMALLINT: scalar('INTEGER'),
  UINTEGER: scalar('BIGINT'),
  UBIGINT: { kind: 'decimal', precision: 20, scale: 0 },
  HUGEINT: { kind: 'decimal', precision: 38, scale: 0 },
  UHUGEINT: { kind: 'decimal', precision: 38, scale: 0 },
  ENUM: scalar('VARCHAR'),
  JSON: scalar('VARCHAR'),
  TIMESTAMP_S: scalar('TIMESTAMP'),
  TIMESTAMP_MS: scalar('TIMESTAMP'),
}

/** DuckDB types without a faithful stored type, and the cast that an author would choose. */
const SUGGESTED_CAST: Readonly<Record<string, string>> = {
  INTERVAL: 'VARCHAR',
  'TIME WITH TIME ZONE': 'TIME',
  TIME_NS: 'TIME',
  BIGNUM: 'VARCHAR',
  UNION: 'VARCHAR',
  BIT: 'VARCHAR',
  VARIANT: 'JSON',
  GEOMETRY: 'VARCHAR',
  TIMESTAMP_NS: 'TIMESTAMP',
  NULL: 'VARCHAR',
}

/** The engine's time to read a column doubles with each level of lists and maps: 10 ms at this limit, minutes at 30 levels. */
const NESTING_LEVELS_MAX = 16

/** DuckDB refuses FIELD_IDS when a column has this name. */
const RESERVED_NAME = '__duckdb_field_id'

/**
 * The DuckDB types in which the columns of a result are stored, in order.
 * @throws UnsupportedColumn for an unsupported type, an invalid name, or two names that differ at most by
 * case.
 */
export function storedTypes(columns: readonly Column[]): StructField[] {
  const fields = columns.map((column) => ({ name: column.name, type: parseColumn(column) }))
  for (const { name, type } of fields) checkDepth(name, type)
  return storedFields(fields, '')
}

/** The DuckDB type in which one column of a result is stored. @throws UnsupportedColumn */
export const storedTypeOf = (column: Column): DuckType => storedType(parseColumn(column), column.name)

/** Parses the type of a column. @throws UnsupportedColumn */
export function parseColumn({ name, type }: Column): DuckType {
  try {
    return parseDuckType(type)
  } catch (cause) {
    if (cause instanceof SyntaxError) throw new UnsupportedColumn(name, type, 'VARCHAR')
    throw cause
  }
}

function checkDepth(name: string, type: DuckType) {
  let open: DuckType[] = [type]
  for (let level = 0; open.length > 0; level += 1) {
    if (level > NESTING_LEVELS_MAX)
      throw new UnsupportedColumn(
        name,
        `a type nested in more than ${NESTING_LEVELS_MAX} levels`,
        null,
        'store it as JSON: to_json(...)',
      )
    open = open.flatMap(childrenOf)
  }
}

function childrenOf(type: DuckType): DuckType[] {
  switch (type.kind) {
    case 'list':
      return [type.element]
    case 'map':
      return [type.key, type.value]
    case 'struct':
      return type.fields.map((field) => field.type)
    default:
      return []
  }
}

function storedFields(fields: readonly StructField[], path: string): StructField[] {
  const earlierNames = new Map<string, string>()
  return fields.map(({ name, type }) => {
    const column = path === '' ? name : `${path}.${name}`
    checkName(name, column, type)
    const earlierName = earlierNames.get(name.toLowerCase())
    if (earlierName !== undefined) {
      throw new UnsupportedColumn(
        column,
        duckText(type),
        null,
        `rename it: it differs from ${earlierName} at most by case`,
      )
    }
    earlierNames.set(name.toLowerCase(), JSON.stringify(name))
    return { name, type: storedType(type, column) }
  })
}

function checkName(name: string, column: string, type: DuckType) {
  const refuse = (hint: string): never => {
    throw new UnsupportedColumn(column, duckText(type), null, hint)
  }
  if (name === '') refuse('give it a name')
  if (name.includes('\0')) refuse('its name contains a null byte: rename it')
  if (!name.isWellFormed()) refuse('its name is not valid Unicode: rename it')
  if (name.toLowerCase() === RESERVED_NAME) refuse('its name is reserved: rename it')
}

function storedType(type: DuckType, column: string): DuckType {
  switch (type.kind) {
    case 'decimal':
      return type
    case 'list':
      return { kind: 'list', element: storedType(type.element, `${column}.element`) }
    case 'map':
      return {
        kind: 'map',
        key: storedType(type.key, `${column}.key`),
        value: storedType(type.value, `${column}.value`),
      }
    case 'struct':
      return { kind: 'struct', fields: storedFields(type.fields, column) }
    case 'scalar': {
      if (SAME[type.name] !== undefined) return type
      const stored = STORED_AS[type.name]
      if (stored) return stored
      throw new UnsupportedColumn(column, type.name, SUGGESTED_CAST[type.name] ?? 'VARCHAR')
    }
  }
}

/** The Iceberg type of a stored DuckDB type. `nextId` numbers every child, and all children are optional. */
export function toIceberg(stored: DuckType, nextId: () => number): IcebergType {
  switch (stored.kind) {
    case 'scalar':
    case 'decimal':
      return primitiveOf(stored)
    case 'list':
      return {
        type: 'list',
        'element-id': nextId(),
        'element-required': false,
        element: toIceberg(stored.element, nextId),
      }
    case 'map':
      return {
        type: 'map',
        'key-id': nextId(),
        key: toIceberg(stored.key, nextId),
        'value-id': nextId(),
        'value-required': false,
        value: toIceberg(stored.value, nextId),
      }
    case 'struct':
      return {
        type: 'struct',
        fields: stored.fields.map(({ name, type }) => ({
          id: nextId(),
          name,
          required: false,
          type: toIceberg(type, nextId),
        })),
      }
  }
}

/** The Iceberg name of a stored type without children. */
export function primitiveOf(stored: Extract<DuckType, { kind: 'scalar' | 'decimal' }>): string {
  if (stored.kind === 'decimal') return `decimal(${stored.precision}, ${stored.scale})`
  const name = SAME[stored.name]
  if (name === undefined) throw new Error(`DuckDB type ${stored.name} has no Iceberg type`)
  return name
}

/** Precision and scale of `decimal(P, S)`; undefined for any other type. */
export function decimalOf(type: string): { precision: number; scale: number } | undefined {
  const match = /^decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)$/.exec(type)
  return match ? { precision: Number(match[1]), scale: Number(match[2]) } : undefined
}

/**
 * Returns the DuckDB type for reading a column of this Iceberg type.
 * @throws UnsupportedColumn for a type of a later format version
 */
export function toDuckDb(type: IcebergType): DuckType {
  if (typeof type === 'string') {
    const decimal = decimalOf(type)
    if (decimal) return { kind: 'decimal', ...decimal }
    const name = /^fixed\[\d+\]$/.test(type) ? 'BLOB' : DUCKDB_NAME[type]
    if (name === undefined)
      throw new UnsupportedColumn('', type, null, 'the type belongs to a later version of the Iceberg format')
    return scalar(name)
  }
  switch (type.type) {
    case 'list':
      return { kind: 'list', element: toDuckDb(type.element) }
    case 'map':
      return { kind: 'map', key: toDuckDb(type.key), value: toDuckDb(type.value) }
    case 'struct':
      return { kind: 'struct', fields: type.fields.map((f) => ({ name: f.name, type: toDuckDb(f.type) })) }
  }
}

/** The type as text for people: `DECIMAL(14,2)`, `STRUCT(a INTEGER, "b c" VARCHAR)`. Not for use in SQL. */
export const duckText = (type: DuckType): string => renderDuckType(type, describedIdentifier)

/** The columns of a table for people: names and DuckDB types. */
export const columnsOf = (schema: Schema): Column[] =>
  schema.fields.map(({ name, type }) => ({ name, type: duckText(toDuckDb(type)) }))

/** A field of a schema, also a nested one, with its path. `isRepeated` is true inside a list or a map. */
export interface LeafOrBranch {
  readonly id: number
  readonly path: readonly string[]
  readonly type: IcebergType
  readonly isRepeated: boolean
}

/** Walks a struct depth first. The children of lists and maps are named `element`, `key` and `value`, as in Parquet. */
export function* fieldsOf(
  struct: StructType,
  path: readonly string[] = [],
  isRepeated = false,
): Generator<LeafOrBranch> {
  for (const { id, name, type } of struct.fields)
    yield* typeAndChildren(id, [...path, name], type, isRepeated)
}

function* typeAndChildren(
  id: number,
  path: readonly string[],
  type: IcebergType,
  isRepeated: boolean,
): Generator<LeafOrBranch> {
  yield { id, path, type, isRepeated }
  if (typeof type === 'string') return
  switch (type.type) {
    case 'struct':
      return yield* fieldsOf(type, path, isRepeated)
    case 'list':
      return yield* typeAndChildren(type['element-id'], [...path, 'element'], type.element, true)
    case 'map':
      yield* typeAndChildren(type['key-id'], [...path, 'key'], type.key, true)
      return yield* typeAndChildren(type['value-id'], [...path, 'value'], type.value, true)
  }
}
