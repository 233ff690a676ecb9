import { sameFields } from './fields.ts'
import type { PartitionField } from './metadata.ts'
import type { Schema } from './types.ts'

/** The id that a schema has or will get in this table. An equal schema is not added twice. */
export function schemaIdIn(schemas: readonly Schema[], schema: Omit<Schema, 'schema-id'>): number {
  const equal = schemas.find((existing) => sameSchema(existing, schema))
  return equal ? equal['schema-id'] : nextId(schemas.map((existing) => existing['schema-id']))
}

export const nextId = (ids: readonly number[]): number => Math.max(-1, ...ids) + 1

const sameSchema = (a: Omit<Schema, 'schema-id'>, b: Omit<Schema, 'schema-id'>): boolean =>
  sameFields(a.fields, b.fields) &&
  String(a['identifier-field-ids'] ?? '') === String(b['identifier-field-ids'] ?? '')

export const samePartitions = (a: readonly PartitionField[], b: readonly PartitionField[]): boolean =>
  describePartitions(a) === describePartitions(b)

const describePartitions = (fields: readonly PartitionField[]): string =>
  JSON.stringify(fields.map((field) => [field['source-id'], field.name, field.transform]))
