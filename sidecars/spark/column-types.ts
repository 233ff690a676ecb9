import type { Column } from '../../lake/iceberg/format/types.ts'
import { describedIdentifier } from '../../lake/quote.ts'
import type { DataType, DataType_StructField } from '../../proto/gen/spark/connect/types_pb.ts'
import { SparkFault } from './failure.ts'

// Types of Spark, as the names of the types with which tables are described everywhere in the service.

const PLAIN: Partial<Record<NonNullable<DataType['kind']['case']>, string>> = {
  boolean: 'BOOLEAN',
  byte: 'TINYINT',
  short: 'SMALLINT',
  integer: 'INTEGER',
  long: 'BIGINT',
  float: 'FLOAT',
  double: 'DOUBLE',
  string: 'VARCHAR',
  char: 'VARCHAR',
  varChar: 'VARCHAR',
  binary: 'BLOB',
  date: 'DATE',
  timestamp: 'TIMESTAMP WITH TIME ZONE',
  timestampNtz: 'TIMESTAMP',
  null: '"NULL"',
}

/** The columns of a result. Throws SparkFault for a type that tables cannot have. */
export const columnsOf = (fields: readonly DataType_StructField[]): Column[] =>
  fields.map(({ name, dataType }) => ({ name, type: typeOf(name, dataType) }))

function typeOf(column: string, type: DataType | undefined): string {
  const kind = type?.kind
  const inner = (of: DataType | undefined) => typeOf(column, of)
  switch (kind?.case) {
    case 'decimal':
      return `DECIMAL(${kind.value.precision ?? 10},${kind.value.scale ?? 0})`
    case 'array':
      return `${inner(kind.value.elementType)}[]`
    case 'map':
      return `MAP(${inner(kind.value.keyType)}, ${inner(kind.value.valueType)})`
    case 'struct': {
      const fields = kind.value.fields.map(
        ({ name, dataType }) => `${describedIdentifier(name)} ${inner(dataType)}`,
      )
      return `STRUCT(${fields.join(', ')})`
    }
  }
  const plain = kind?.case === undefined ? undefined : PLAIN[kind.case]
  if (plain === undefined)
    throw new SparkFault(
      `column ${JSON.stringify(column)} has the type ${kind?.case ?? 'unknown'}, which tables cannot store: cast the column`,
    )
  return plain
}
