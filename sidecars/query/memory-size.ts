import type { Column } from '../../lake/engine/instance.ts'
import { type DuckType, parseDuckType } from '../../lake/iceberg/format/duckdb-type.ts'
import { quoteIdentifier, quoteLiteral } from '../../lake/quote.ts'

// What rows take as a table of the engine, as SQL that computes it without making texts of them: a value that repeats is in
// its file, and in what is read of that, once; in a table it is there as often as there are rows.

/** A column takes a block, however few rows there are, and so does every part of a nested one. */
const BLOCK_BYTES = 262_144
/** What stands for a text or a list beside its content; no value of a fixed size is larger. */
const ENTRY_BYTES = 16
const WORD_BYTES = 8

const IN_WORD =
  /^(BOOLEAN|U?(TINY|SMALL|BIG)INT|U?INTEGER|FLOAT|DOUBLE|DATE|TIME( WITH TIME ZONE)?|TIMESTAMP(_S|_MS|_NS| WITH TIME ZONE)?)$/
const IN_ENTRY = /^(U?HUGEINT|UUID|INTERVAL)$/

/** An aggregate over these columns: about how many bytes all rows take. Throws SyntaxError for a type that tells no size. */
export function sizeInMemory(columns: readonly Column[]): string {
  const types = columns.map(({ name, type }) => ({ name, type: parseDuckType(type) }))
  const blocks = types.reduce((sum, { type }) => sum + partsOf(type), 0)
  const row = types.map(({ name, type }) => sizeOf(quoteIdentifier(name), type, 1))
  return `${blocks * BLOCK_BYTES} + coalesce(sum(${row.join(' + ')}), 0)`
}

function partsOf(type: DuckType): number {
  switch (type.kind) {
    case 'scalar':
    case 'decimal':
      return 1
    case 'list':
      return 1 + partsOf(type.element)
    case 'map':
      return 1 + partsOf(type.key) + partsOf(type.value)
    case 'struct':
      return type.fields.reduce((sum, field) => sum + partsOf(field.type), 1)
  }
}

/** Of one value, where `value` is SQL for it. */
function sizeOf(value: string, type: DuckType, depth: number): string {
  switch (type.kind) {
    case 'scalar':
      return scalarSize(value, type.name)
    case 'decimal':
      return String(ENTRY_BYTES)
    case 'list':
      return listSize(value, type.element, depth)
    case 'map':
      return `${listSize(`map_keys(${value})`, type.key, depth)} + ${listSize(`map_values(${value})`, type.value, depth)}`
    case 'struct':
      return type.fields
        .map((field) => sizeOf(`struct_extract(${value}, ${quoteLiteral(field.name)})`, field.type, depth))
        .join(' + ')
  }
}

function scalarSize(value: string, name: string): string {
  if (name === 'VARCHAR') return `${ENTRY_BYTES} + coalesce(strlen(${value}), 0)`
  if (name === 'BLOB') return `${ENTRY_BYTES} + coalesce(octet_length(${value}), 0)`
  if (IN_WORD.test(name)) return String(WORD_BYTES)
  if (IN_ENTRY.test(name)) return String(ENTRY_BYTES)
  throw new SyntaxError(`the size of ${name} is not known`)
}

function listSize(list: string, element: DuckType, depth: number): string {
  const one = `v${depth}`
  const sizes = `list_transform(${list}, lambda ${one}: ${sizeOf(one, element, depth + 1)})`
  return `${ENTRY_BYTES} + coalesce(list_sum(${sizes}), 0)`
}
