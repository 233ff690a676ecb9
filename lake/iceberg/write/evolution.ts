// Computes a table's next schema when a pipeline replaces the table's data or appends to it. Column names are compared without
// case, like in DuckDB. Columns that a pipeline writes are always optional, because no query result guarantees that nulls are
// absent. Source: https://iceberg.apache.org/spec/#schema-evolution

import type { DuckType, StructField } from '../format/duckdb-type.ts'
import { byName, sameFields } from '../format/fields.ts'
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
import { digitsOf, fitOf, fittedSql, isPromotable } from './fit.ts'

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
 * A type is widened when Iceberg allows it (int -> long, float -> double, decimal precision). All other new rows get the table's
 * type, and the cast that writes them refuses values that do not fit (fit.ts).
 *
 * A column of `valueless` never had a value. If the new type does not fit it, it becomes a new column of the same name, so old files
 * are not read for it.
 * @throws UnsupportedColumn
 */
export function schemaForAppend(
  columns: readonly Column[],
  current: PreviousSchema,
  valueless: ReadonlySet<number> = new Set(),
): NextSchema {
  const ids = idsAfter(current.lastColumnId)
  const stored = storedTypes(columns)
  const typeOf = new Map(stored.map(({ name, type }) => [name.toLowerCase(), type]))
  const fields = appendedFields(stored, current.schema.fields, ids.next).map((field) => {
    const type = valueless.has(field.id) ? typeOf.get(field.name.toLowerCase()) : undefined
    const isMisfit = type !== undefined && fittedSql('', type, field) !== null
    return isMisfit ? newField({ name: field.name, type }, ids.next) : field
  })
  return nextSchema(fields, ids.last(), current)
}

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
  nextId: NextId,
): NestedField[] {
  const incoming = byName(stored)
  const currentByName = byName(current)
  const existingFields = current.map((field): NestedField => {
    const type = incoming.get(field.name.toLowerCase())?.type
    const merged = type ? appendedType(type, field.type, nextId) : field.type
    return { ...field, required: false, type: merged }
  })
  const added = stored
    .filter(({ name }) => !currentByName.has(name.toLowerCase()))
    .map((field) => newField(field, nextId))
  return [...existingFields, ...added]
}

function appendedType(stored: DuckType, current: IcebergType, nextId: NextId): IcebergType {
  if (typeof current === 'string') {
    const isPrimitive = stored.kind === 'scalar' || stored.kind === 'decimal'
    return isPrimitive ? commonType(current, primitiveOf(stored)) : current
  }
  if (current.type === 'struct' && stored.kind === 'struct') {
    return { type: 'struct', fields: appendedFields(stored.fields, current.fields, nextId) }
  }
  if (current.type === 'list' && stored.kind === 'list') {
    const element = appendedType(stored.element, current.element, nextId)
    return { ...current, 'element-required': false, element }
  }
  if (current.type === 'map' && stored.kind === 'map') {
    // Keys never evolve: to an old reader, two keys that differ only in an added field would be two entries.
    if (duckText(stored.key) !== duckText(toDuckDb(current.key))) return current
    const value = appendedType(stored.value, current.value, nextId)
    return { ...current, 'value-required': false, value }
  }
  return current
}

/**
 * The type of a column that holds both its existing values and the new ones exactly. New values are cast while they are written,
 * and that cast refuses values that do not fit (`fittedSql`). The type of existing files must be promotable.
 */
function commonType(current: string, incoming: string): string {
  if (fitOf(incoming, current) === 'always') return current
  if (isPromotable(current, incoming)) return incoming
  const decimal = decimalOf(current)
  const digits = digitsOf(incoming)
  if (!decimal || !digits || digits.scale > decimal.scale) return current
  const precision = Math.max(decimal.precision, digits.precision - digits.scale + decimal.scale)
  return precision > DECIMAL_DIGITS ? current : `decimal(${precision}, ${decimal.scale})`
}

const DECIMAL_DIGITS = 38
