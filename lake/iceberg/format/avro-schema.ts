// Avro schemas with the attributes that Iceberg adds to them.

/** An Avro schema as stored in a file, with Iceberg's attributes (`field-id`, `element-id`). */
export type AvroSchema =
  | string
  | readonly AvroSchema[]
  | { readonly type: 'record'; readonly name: string; readonly fields: readonly AvroField[] }
  | {
      readonly type: 'array'
      readonly items: AvroSchema
      readonly 'element-id'?: number
      readonly logicalType?: string
    }
  | { readonly type: 'map'; readonly values: AvroSchema }
  | {
      readonly type: 'fixed'
      readonly name: string
      readonly size: number
      readonly [attribute: string]: unknown
    }
  | { readonly type: string; readonly logicalType?: string; readonly [attribute: string]: unknown }

export interface AvroField {
  readonly name: string
  readonly type: AvroSchema
  readonly default?: null
  readonly 'field-id'?: number
}

/** The logical type of longs that need all 64 bits (snapshot ids). Values are read and written as bigint. */
export const INT64 = { type: 'long', logicalType: 'sluice-int64' } as const

/** INT64 that a file declares as `declared`, for example as a timestamp. */
export const int64As = (declared: AvroSchema): AvroSchema => ({ ...INT64, declared })

/** The bytes are not an Avro file, or the reader does not support the file. */
export class BadAvro extends Error {
  override readonly name = 'BadAvro'
}
