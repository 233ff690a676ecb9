/** Columns of a result as the service's JSON names them. */
import type { Field } from 'apache-arrow'

/** The key of a field's metadata that holds the engine's type name. */
export const TYPE_METADATA = 'sluice.type'

export interface JsonColumn {
  /** Unique: a repeated name gets `_1`, `_2`. */
  name: string
  /** The engine's type name: `DECIMAL(14,2)`. */
  type: string
}

/** The columns of a result, each with a unique name. */
export function jsonColumns(fields: readonly Field[]): JsonColumn[] {
  const names = uniqueNames(fields.map(nameOf))
  return fields.map((field, index) => ({ name: names[index] ?? nameOf(field), type: engineType(field) }))
}

/** The second `a` is `a_1`, or the next number that no other column has. */
export function uniqueNames(names: readonly string[]): string[] {
  const given = new Set(names)
  const used = new Set<string>()
  const lastNumber = new Map<string, number>()
  return names.map((name) => {
    let unique = name
    for (let number = (lastNumber.get(name) ?? 0) + 1; used.has(unique); number += 1) {
      const candidate = `${name}_${number}`
      lastNumber.set(name, number)
      if (!given.has(candidate)) unique = candidate
    }
    used.add(unique)
    return unique
  })
}

/** Arrow reads an empty name back as null, whatever its types say. */
export const nameOf = ({ name }: { name: string | null }): string => name ?? ''

export const engineType = (field: Field): string => field.metadata.get(TYPE_METADATA) ?? String(field.type)
