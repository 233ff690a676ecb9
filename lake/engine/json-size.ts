/** How much JSON Arrow data becomes at least: known from its shape, before anything is written. */
import { type Data, DataType, type Field } from 'apache-arrow'
import { childOf } from './arrow-batches.ts'
import { nameOf } from './json-columns.ts'

/** Bytes of keys, texts and blobs. Numbers and punctuation come on top. */
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
  // An entry of a map has no keys of its own: they are its values.
  if (DataType.isMap(type)) return childrenBytes(type.children[0]?.type.children ?? [], childOf(data, 0))
  if (DataType.isList(type) || DataType.isFixedSizeList(type)) return childrenBytes(type.children, data)
  return 0
}

const childrenBytes = (fields: readonly Field[], data: Data): number =>
  fields.reduce((sum, field, index) => sum + leastJsonBytes(field, childOf(data, index)), 0)
