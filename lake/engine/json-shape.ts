// The columns of a result's JSON, and a lower bound of its size before it is written.
import { type Data, DataType, type Field } from 'apache-arrow'
import { childOf } from './arrow-batches.ts'

/** The key of a field's metadata that holds the engine's type name. */
export const TYPE_METADATA = 'sluice.type'

export interface JsonColumn {
  /** Unique: repeated names get the suffixes `_1`, `_2`. */
  name: string
  /** The engine's type name: `DECIMAL(14,2)`. */
  type: string
}

/** The columns of a result, each with a unique name. */
export function jsonColumns(fields: readonly Field[]): JsonColumn[] {
  const names = uniqueNames(fields.map(nameOf))
  return fields.map((field, index) => ({ name: names[index] ?? nameOf(field), type: engineType(field) }))
}

/** Renames the second `a` to `a_1`, or to the next number that no other column has. */
export function uniqueNames(names: readonly string[]): string[] {
  const originalNames = new Set(names)
  const used = new Set<string>()
  const lastNumber = new Map<string, number>()
  return names.map((name) => {
    let unique = name
    for (let number = (lastNumber.get(name) ?? 0) + 1; used.has(unique); number += 1) {
      const candidate = `${name}_${number}`
      lastNumber.set(name, number)
      if (!originalNames.has(candidate)) unique = candidate
    }
    used.add(unique)
    return unique
  })
}

/** Arrow decodes an empty name as null, although its type says string. */
export const nameOf = ({ name }: { name: string | null }): string => name ?? ''

export const engineType = (field: Field): string => field.metadata.get(TYPE_METADATA) ?? String(field.type)

/** A lower bound of the JSON's size: the bytes of keys, texts and blobs, without numbers and punctuation. */
export function leastJsonBytes({ type }: { type: DataType }, data: Data): number {
  const { length, nullCount, valueOffsets } = data
  if (DataType.isUtf8(type) || DataType.isBinary(type))
    return (valueOffsets[length] ?? 0) - (valueOffsets[0] ?? 0)
  if (DataType.isStruct(type)) {
    const names = type.children.map(nameOf)
    const keys = names.every((name) => name === '')
      ? 0
      : names.reduce((sum, name) => sum + name.length + 3, 0)
    return keys * (length - nullCount) + childrenBytes(type.children, data)
  }
  // An entry of a map has no field names in JSON: its key and value become a pair of the map.
  if (DataType.isMap(type)) return childrenBytes(type.children[0]?.type.children ?? [], childOf(data, 0))
  if (DataType.isList(type) || DataType.isFixedSizeList(type)) return childrenBytes(type.children, data)
  return 0
}

const childrenBytes = (fields: readonly Field[], data: Data): number =>
  fields.reduce((sum, field, index) => sum + leastJsonBytes(field, childOf(data, index)), 0)
