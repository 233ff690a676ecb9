import {
  DuckDBArrayType,
  DuckDBListType,
  DuckDBMapType,
  DuckDBStructType,
  type DuckDBType,
  DuckDBUnionType,
} from '@duckdb/node-api'
import { describedIdentifier } from '../quote.ts'

/**
 * A type as the engine's DESCRIBE writes it: `DECIMAL(14,2)`, `STRUCT(a INTEGER, "b c" VARCHAR)[]`. A built-in alias (JSON)
 * replaces the type's name. Field names are quoted unless they are plain words.
 */
export function typeName(type: DuckDBType): string {
  if (type.alias) return type.alias
  if (type instanceof DuckDBListType) return `${typeName(type.valueType)}[]`
  if (type instanceof DuckDBArrayType) return `${typeName(type.valueType)}[${type.length}]`
  if (type instanceof DuckDBMapType) return `MAP(${typeName(type.keyType)}, ${typeName(type.valueType)})`
  if (type instanceof DuckDBStructType) return `STRUCT(${fields(type.entryNames, type.entryTypes)})`
  if (type instanceof DuckDBUnionType) return `UNION(${fields(type.memberTags, type.memberTypes)})`
  return type.toString()
}

const fields = (names: readonly string[], types: readonly DuckDBType[]): string =>
  types
    .map((type, index) => {
      const name = names[index] ?? ''
      return name === '' ? typeName(type) : `${describedIdentifier(name)} ${typeName(type)}`
    })
    .join(', ')
