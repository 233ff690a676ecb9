// The columns of row ids, which files of format version 3 may have. Source: https://iceberg.apache.org/spec/#row-lineage

import type { TableMetadata } from '../format/metadata.ts'
import type { NestedField, Schema } from '../format/types.ts'

/** The reserved field ids of `_row_id` and `_last_updated_sequence_number`. */
const ROW_ID = 2_147_483_540
const LAST_UPDATED = 2_147_483_539

/** The values of rows whose file does not store them. */
export interface Lineage {
  /** The id of the file's first row. */
  readonly firstRowId: number
  readonly sequenceNumber: number
}

/** The schema of new files whose rows keep their ids. */
export function withLineage(schema: Schema, { 'format-version': version }: TableMetadata): Schema {
  if (version < 3) return schema
  const names = new Set(schema.fields.map(({ name }) => name.toLowerCase()))
  const field = (id: number, name: string): NestedField =>
    names.has(name) ? field(id, `${name}_`) : { id, name, required: false, type: 'long' }
  const fields = [field(ROW_ID, '_row_id'), field(LAST_UPDATED, '_last_updated_sequence_number')]
  return { ...schema, fields: [...schema.fields, ...fields] }
}

export const hasLineage = ({ fields }: Schema): boolean => fields.some(({ id }) => id === ROW_ID)

/** The value of a column `t.c1`, which is inherited when the file does not store it. `l` has the lineage of the file. */
export function inheritedSql(id: number, column: string): string {
  if (id === ROW_ID) return `coalesce(${column}, l.first_row_id + t.file_row_number)`
  return id === LAST_UPDATED ? `coalesce(${column}, l.number)` : column
}
