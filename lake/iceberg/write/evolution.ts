// Computes a table's next schema when a pipeline replaces the table's data or appends to it. Column names are compared without
// case, like in DuckDB. Columns that a pipeline writes are always optional, because no query result guarantees that nulls are
// absent. Source: https://iceberg.apache.org/spec/#schema-evolution

import { AuthorError } from '../../pipeline/author-error.ts'
import type { DuckType, StructField } from '../format/duckdb-type.ts'
import {
  type Column,
  decimalOf,
  duckText,
  type IcebergType,
  type NestedField,
  primitiveOf,
  type Schema,
  storedTypes,
  toDuckDb,
  toIceberg,
} from '../format/types.ts'

/** The column's type cannot be combined with the type in the table. */
export class IncompatibleColumn extends AuthorError {
  override readonly name = 'IncompatibleColumn'
  constructor(
    readonly column: string,
    readonly tableType: string,
    readonly newType: string,
  ) {
    super(
      `column ${JSON.stringify(column)} is ${tableType} in the table and ${newType} in the new rows: ` +
        'cast it to the type of the table, or use full_refresh to replace the schema',
    )
  }
}

export interface NextSchema {
  readonly schema: Schema
  /** The greatest field id ever assigned in this table. Ids are never reused. */
  readonly lastColumnId: number
  /** False when `schema` is the table's existing schema. */
  readonly isChanged: boolean
}

export interface PreviousSchema {
  readonly schema: Schema
  readonly lastColumnId: number
}

type NextId = () => number

/**
 * The schema of a table whose rows are all replaced. A column keeps its id when earlier files can be read as the new type, so
 * that a rollback can still read them. Otherwise it becomes a new column with the same name.
 * @throws UnsupportedColumn
 */
export function schemaForReplace(columns: readonly Column[], previous?: PreviousSchema): NextSchema {
  const ids = idsAfter(previous?.lastColumnId ?? 0)
  const fields = replacedFields(storedTypes(columns), previous?.schema.fields ?? [], ids.next)
  return nextSchema(fields, ids.last(), previous)
}

/**
 * The schema of a table that gets more rows. New columns are added. Columns missing from the new rows stay and are null there.
 * A type is widened when Iceberg allows it (int -> long, float -> double, decimal precision). New rows of a narrower type get
 * the table's type.
 * @throws UnsupportedColumn, IncompatibleColumn
 */
export function schemaForAppend(columns: readonly Column[], current: PreviousSchema): NextSchema {
  const ids = idsAfter(current.lastColumnId)
  const fields = appendedFields(storedTypes(columns), current.schema.fields, '', ids.next)
  return nextSchema(fields, ids.last(), current)
}

/** Fields by name in lower case, because DuckDB compares names without case. */
export const byName = <F extends { readonly name: string }>(fields: readonly F[]): Map<string, F> =>
  new Map(fields.map((field) => [field.name.toLowerCase(), field]))

function idsAfter(last: number): { next: NextId; last: () => number } {
  let id = last
  const next = () => {
    id += 1
    return id
  }
  return { next, last: () => id }
}

function nextSchema(fields: NestedField[], lastColumnId: number, previous?: PreviousSchema): NextSchema {
  if (previous && sameFields(fields, previous.schema.fields)) {
    return { schema: previous.schema, lastColumnId, isChanged: false }
  }
  // Identifier fields must be required, but a pipeline writes only optional columns. So they are not carried over.
  const schema: Schema = { type: 'struct', 'schema-id': (previous?.schema['schema-id'] ?? -1) + 1, fields }
  return { schema, lastColumnId, isChanged: true }
}

/** Whether names, ids, types and order are equal, also in nested fields. */
export function sameFields(a: readonly NestedField[], b: readonly NestedField[]): boolean {
  return a.length === b.length && describeFields(a) === describeFields(b)
}

const describeFields = (fields: readonly NestedField[]) =>
  JSON.stringify(described({ type: 'struct', fields }))

function described(type: IcebergType): unknown {
  if (typeof type === 'string') return normal(type)
  switch (type.type) {
    case 'struct':
      return type.fields.map((f) => [
        f.id,
        f.name,
        f.required,
        f.doc,
        described(f.type),
        defaultsOf(f).map(String),
      ])
    case 'list':
      return ['list', type['element-id'], type['element-required'], described(type.element)]
    case 'map': {
      const value = [type['value-id'], type['value-required'], described(type.value)]
      return ['map', type['key-id'], described(type.key), value]
    }
  }
}

const defaultsOf = (field: NestedField) => [field['initial-default'], field['write-default']]

const normal = (primitive: string): string => primitive.replaceAll(' ', '')

function replacedFields(stored: readonly StructField[], previous: readonly NestedField[], nextId: NextId) {
  const previousByName = byName(previous)
  return stored.map(({ name, type }): NestedField => {
    const old = previousByName.get(name.toLowerCase())
    return old && isReadableAs(old.type, type)
      ? { ...old, name, required: false, type: replacedType(type, old.type, nextId) }
      : newField({ name, type }, nextId)
  })
}

const newField = ({ name, type }: StructField, nextId: NextId): NestedField => ({
  id: nextId(),
  name,
  required: false,
  type: toIceberg(type, nextId),
})

function replacedType(stored: DuckType, old: IcebergType, nextId: NextId): IcebergType {
  if (typeof old === 'string') return toIceberg(stored, nextId)
  if (old.type === 'struct' && stored.kind === 'struct') {
    return { type: 'struct', fields: replacedFields(stored.fields, old.fields, nextId) }
  }
  if (old.type === 'list' && stored.kind === 'list') {
    return { ...old, 'element-required': false, element: replacedType(stored.element, old.element, nextId) }
  }
  if (old.type === 'map' && stored.kind === 'map') {
    return {
      ...old,
      'value-required': false,
      key: replacedType(stored.key, old.key, nextId),
      value: replacedType(stored.value, old.value, nextId),
    }
  }
  throw new Error(`a column of type ${duckText(stored)} cannot replace a ${old.type}`)
}

/** Whether a file with the type `old` can be read as `stored`. Each struct field is decided separately, so any struct can. */
function isReadableAs(old: IcebergType, stored: DuckType): boolean {
  if (typeof old === 'string') {
    return (stored.kind === 'scalar' || stored.kind === 'decimal') && isPromotable(old, primitiveOf(stored))
  }
  if (old.type === 'struct') return stored.kind === 'struct'
  if (old.type === 'list') return stored.kind === 'list' && isReadableAs(old.element, stored.element)
  return stored.kind === 'map' && isReadableAs(old.key, stored.key) && isReadableAs(old.value, stored.value)
}

function appendedFields(
  stored: readonly StructField[],
  current: readonly NestedField[],
  path: string,
  nextId: NextId,
): NestedField[] {
  const incoming = byName(stored)
  const currentByName = byName(current)
  const existingFields = current.map((field): NestedField => {
    const column = path === '' ? field.name : `${path}.${field.name}`
    const type = incoming.get(field.name.toLowerCase())?.type
    const merged = type ? appendedType(type, field.type, column, nextId) : field.type
    return { ...field, required: false, type: merged }
  })
  const added = stored
    .filter(({ name }) => !currentByName.has(name.toLowerCase()))
    .map((field) => newField(field, nextId))
  return [...existingFields, ...added]
}

function appendedType(stored: DuckType, current: IcebergType, column: string, nextId: NextId): IcebergType {
  if (typeof current === 'string') {
    if (stored.kind !== 'scalar' && stored.kind !== 'decimal') throw incompatible(column, current, stored)
    const type = commonType(current, primitiveOf(stored))
    if (type === null) throw incompatible(column, current, stored)
    return type
  }
  if (current.type === 'struct' && stored.kind === 'struct') {
    return { type: 'struct', fields: appendedFields(stored.fields, current.fields, column, nextId) }
  }
  if (current.type === 'list' && stored.kind === 'list') {
    const element = appendedType(stored.element, current.element, `${column}.element`, nextId)
    return { ...current, 'element-required': false, element }
  }
  if (current.type === 'map' && stored.kind === 'map') {
    // Keys never evolve: to an old reader, two keys that differ only in an added field would be two entries.
    if (duckText(stored.key) !== duckText(toDuckDb(current.key))) throw incompatible(column, current, stored)
    const value = appendedType(stored.value, current.value, `${column}.value`, nextId)
    return { ...current, 'value-required': false, value }
  }
  throw incompatible(column, current, stored)
}

const incompatible = (column: string, current: IcebergType, stored: DuckType) =>
  new IncompatibleColumn(column, duckText(toDuckDb(current)), duckText(stored))

/**
 * The type that holds both the column's existing values and the new values exactly. New values are cast while they are written;
 * the type of existing files must be promotable. Null: no such type exists.
 */
function commonType(current: string, incoming: string): string | null {
  if (isPromotable(incoming, current)) return current
  if (isPromotable(current, incoming)) return incoming
  const digits = digitsOf(incoming)
  if (current === 'timestamp' && incoming === 'date') return current
  if (current === 'double' && digits && digits.precision <= DOUBLE_DIGITS) return current
  const decimal = decimalOf(current)
  if (!decimal || !digits || digits.scale > decimal.scale) return null
  const precision = Math.max(decimal.precision, digits.precision - digits.scale + decimal.scale)
  return precision > DECIMAL_DIGITS ? null : `decimal(${precision}, ${decimal.scale})`
}

/** A decimal number with this many digits survives the conversion to a double and back. */
const DOUBLE_DIGITS = 15
const DECIMAL_DIGITS = 38

/** The digits that a decimal needs to hold every value of the type. */
function digitsOf(type: string): { precision: number; scale: number } | undefined {
  if (type === 'int') return { precision: 10, scale: 0 }
  if (type === 'long') return { precision: 19, scale: 0 }
  return decimalOf(type)
}

/** Whether every value of `from` is a value of `to` for every reader of the format. */
function isPromotable(from: string, to: string): boolean {
  if (normal(from) === normal(to)) return true
  if (from === 'int') return to === 'long'
  if (from === 'float') return to === 'double'
  const narrow = decimalOf(from)
  const wide = decimalOf(to)
  return Boolean(narrow && wide && narrow.scale === wide.scale && narrow.precision <= wide.precision)
}
