// The columns that an equality delete file compares. A column may be a field inside a struct. Readers find the fields of a struct
// by name, so the catalog refuses commits that rename them (app/iceberg/nested-names.ts).

import { quoteLiteral } from '../../quote.ts'
import { schemaById, type TableMetadata, UnsupportedTable } from '../format/metadata.ts'
import { fieldsOf, type NestedField, type StructType } from '../format/types.ts'

/** A compared column. */
export interface EqualityColumn {
  readonly id: number
  /** The column of the table that is the compared column, or contains the compared field. */
  readonly column: NestedField
  /** The names of the structs' fields below the column; empty for the column itself. */
  readonly path: readonly string[]
}

/**
 * A column may have left the current schema, so all schemas are searched, beginning with the newest.
 * @throws UnsupportedTable
 */
export function equalityColumn(id: number, location: string, metadata: TableMetadata): EqualityColumn {
  const current = schemaById(metadata, metadata['current-schema-id'])
  for (const schema of [current, ...metadata.schemas.toReversed()])
    for (const column of schema.fields)
      for (const found of fieldsOf({ type: 'struct', fields: [column] })) {
        if (found.id !== id) continue
        const [, ...path] = found.path
        const name = JSON.stringify(found.path.join('.'))
        const refused = (why: string) =>
          new UnsupportedTable(`the equality delete file ${location} compares column ${name}, which ${why}`)
        if (found.isRepeated) throw refused('is inside a list or a map')
        if (typeof found.type !== 'string') throw refused('has no primitive type')
        return { id, column, path }
      }
  throw new UnsupportedTable(`the equality delete file ${location} compares the unknown field ${id}`)
}

/** The value of a compared column. `sql` is the value of the column of the table. A field of a null struct is null. */
export const comparedSql = ({ path }: EqualityColumn, sql: string): string =>
  path.reduce((struct, name) => `struct_extract(${struct}, ${quoteLiteral(name)})`, sql)

/** The columns of a delete file, each once. A struct has only its compared fields, as in the file. */
export const comparedFields = (columns: readonly EqualityColumn[]): NestedField[] => withCompared([], columns)

/** `fields` with the compared columns and the compared fields of structs that they lack. Added columns are at the end. */
export const withCompared = (
  fields: readonly NestedField[],
  columns: readonly EqualityColumn[],
): NestedField[] =>
  columns.reduce((all, { id, column }) => merged(all, pruned(column, id) ?? []), [...fields])

/** A field with the children that lead to the field `id`. */
function pruned(field: NestedField, id: number): NestedField[] | undefined {
  const { type } = field
  if (field.id === id) return [field]
  if (!isStruct(type)) return undefined
  const fields = type.fields.flatMap((child) => pruned(child, id) ?? [])
  return fields.length === 0 ? undefined : [{ ...field, type: { type: 'struct', fields } }]
}

function merged(fields: readonly NestedField[], more: readonly NestedField[]): NestedField[] {
  const byId = new Map(more.map((field) => [field.id, field]))
  const present = new Set(fields.map(({ id }) => id))
  const widened = fields.map((field) => {
    const other = byId.get(field.id)
    if (other === undefined || !isStruct(field.type) || !isStruct(other.type)) return field
    const children = merged(field.type.fields, other.type.fields)
    return children.length === field.type.fields.length &&
      children.every((child, i) => child === (field.type as StructType).fields[i])
      ? field
      : { ...field, type: { ...field.type, fields: children } }
  })
  return [...widened, ...more.filter(({ id }) => !present.has(id))]
}

const isStruct = (type: NestedField['type']): type is StructType =>
  typeof type !== 'string' && type.type === 'struct'
