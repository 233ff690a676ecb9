import type { IcebergType, NestedField } from './types.ts'

/** The spelling of a primitive type without blanks. */
export const normal = (primitive: string): string => primitive.replaceAll(' ', '')

/** Fields by name in lower case, because DuckDB compares names without case. */
export const byName = <F extends { readonly name: string }>(fields: readonly F[]): Map<string, F> =>
  new Map(fields.map((field) => [field.name.toLowerCase(), field]))

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
