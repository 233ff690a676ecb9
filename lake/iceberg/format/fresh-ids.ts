// Clients number the fields of a new table as they like. Some count from 0, some repeat ids. The catalog numbers them anew, as
// Apache's own catalogs do.

import type { IcebergType, NestedField, Schema } from './types.ts'
import type { SortOrder, UnboundSpec } from './wire.ts'

interface TableShape {
  readonly schema: Omit<Schema, 'schema-id'>
  readonly partitionSpec: UnboundSpec
  readonly sortOrder: SortOrder
}

/** Returns the same shape with field ids that count from 1. */
export function withFreshIds(shape: TableShape): TableShape {
  const freshOf = new Map<number, number>()
  let last = 0
  const fresh = (id: number): number => {
    last += 1
    if (!freshOf.has(id)) freshOf.set(id, last)
    return last
  }
  const fields = renumbered(shape.schema.fields, fresh)
  const sourceOf = <F extends { readonly 'source-id': number }>(field: F): F => ({
    ...field,
    'source-id': freshOf.get(field['source-id']) ?? field['source-id'],
  })
  const identifiers = shape.schema['identifier-field-ids']?.map((id) => freshOf.get(id) ?? id)
  return {
    schema: { ...shape.schema, fields, ...(identifiers && { 'identifier-field-ids': identifiers }) },
    partitionSpec: { ...shape.partitionSpec, fields: shape.partitionSpec.fields.map(sourceOf) },
    sortOrder: { ...shape.sortOrder, fields: shape.sortOrder.fields.map(sourceOf) },
  }
}

const renumbered = (fields: readonly NestedField[], fresh: (id: number) => number): NestedField[] =>
  fields.map((field) => ({ ...field, id: fresh(field.id), type: renumberedType(field.type, fresh) }))

function renumberedType(type: IcebergType, fresh: (id: number) => number): IcebergType {
  if (typeof type === 'string') return type
  switch (type.type) {
    case 'struct':
      return { ...type, fields: renumbered(type.fields, fresh) }
    case 'list':
      return {
        ...type,
        'element-id': fresh(type['element-id']),
        element: renumberedType(type.element, fresh),
      }
    case 'map':
      return {
        ...type,
        'key-id': fresh(type['key-id']),
        key: renumberedType(type.key, fresh),
        'value-id': fresh(type['value-id']),
        value: renumberedType(type.value, fresh),
      }
  }
}
