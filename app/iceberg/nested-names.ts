/**
 * Readers find the fields of a struct by name, because the engine selects only whole columns by field id. So a field inside a
 * struct keeps its name. A renamed field would be null in older files. A reused name would show the values of another field.
 */
import type { TableMetadata } from '../../lake/iceberg/format/metadata.ts'
import type { IcebergType, StructType } from '../../lake/iceberg/format/types.ts'
import { badRequest } from './errors.ts'

interface NestedName {
  id: number
  /** The field whose struct contains this one. */
  parent: number
  name: string
  path: string
}

/** Throws 400 for a new schema that renames a field inside a struct, or reuses the name of another one. */
export function checkNestedNames(base: TableMetadata, next: TableMetadata): void {
  // Without a snapshot there are no older files.
  if (base.snapshots.length === 0) return
  const known = new Set(base.schemas.map((schema) => schema['schema-id']))
  const added = next.schemas.filter((schema) => !known.has(schema['schema-id']))
  if (added.length === 0) return
  const before = base.schemas.flatMap((schema) => [...namesIn(schema)])
  const current = base.schemas.find((schema) => schema['schema-id'] === base['current-schema-id'])
  // A run that replaces all files of its table may have reused a name before.
  const unchanged = new Set(current === undefined ? [] : [...namesIn(current)].map(textOf))
  for (const field of added.flatMap((schema) => [...namesIn(schema)])) {
    if (unchanged.has(textOf(field))) continue
    const { id, parent, name, path } = field
    const earlier = before.find((other) => other.id === id && other.name !== name)
    if (earlier !== undefined)
      throw badRequest(
        `add-schema: field ${JSON.stringify(earlier.path)} cannot be renamed, because it is inside a struct: add a new field`,
      )
    const isReused = before.some(
      (other) =>
        other.id !== id && other.parent === parent && other.name.toLowerCase() === name.toLowerCase(),
    )
    if (isReused)
      throw badRequest(
        `add-schema: the name ${JSON.stringify(path)} belonged to another field of the struct: use a new name`,
      )
  }
}

const textOf = ({ id, name }: NestedName): string => `${id} ${name}`

function* namesIn({ fields }: StructType): Generator<NestedName> {
  for (const { id, name, type } of fields) yield* childrenOf(type, id, name)
}

function* childrenOf(type: IcebergType, parent: number, path: string): Generator<NestedName> {
  if (typeof type === 'string') return
  switch (type.type) {
    case 'struct':
      for (const field of type.fields) {
        const { id, name } = field
        yield { id, parent, name, path: `${path}.${name}` }
        yield* childrenOf(field.type, id, `${path}.${name}`)
      }
      return
    case 'list':
      return yield* childrenOf(type.element, type['element-id'], `${path}.element`)
    case 'map':
      yield* childrenOf(type.key, type['key-id'], `${path}.key`)
      return yield* childrenOf(type.value, type['value-id'], `${path}.value`)
  }
}
