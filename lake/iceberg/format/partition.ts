// Assigns rows to partitions: makes a table's spec from the pipeline's configuration, and each transform as SQL. Source:
// https://iceberg.apache.org/spec/#partition-transforms

import { AuthorError } from '../../pipeline/author-error.ts'
import type { PartitionBy } from '../../pipeline/config-values.ts'
import { type BoundValue, boundValueFrom } from './bounds.ts'
import type { PartitionTuple } from './data-file.ts'
import { partitionType } from './manifest-schema.ts'
import type { PartitionSpec } from './metadata.ts'
import { duckText, type NestedField, type Schema, toDuckDb } from './types.ts'
import type { UnboundSpec } from './wire.ts'

/** The table cannot be partitioned by this column with the requested transform. */
export class UnsupportedPartition extends AuthorError {
  override readonly name = 'UnsupportedPartition'
}

/** @throws UnsupportedPartition naming the column */
export function partitionSpecOf(by: readonly PartitionBy[], schema: Schema): UnboundSpec {
  const columns = new Set(schema.fields.map(({ name }) => name.toLowerCase()))
  const usedNames = new Set<string>()
  const fields = by.map(({ column, transform }) => {
    const source = schema.fields.find(({ name }) => name.toLowerCase() === column.toLowerCase())
    if (source === undefined)
      throw new UnsupportedPartition(`partition_by: the result has no column ${JSON.stringify(column)}`)
    checkSource(source, transform)
    let name = transform === 'identity' ? source.name : `${source.name}_${transform}`
    // Only an identity field may have the name of a column, which is its own source.
    while (usedNames.has(name) || (transform !== 'identity' && columns.has(name.toLowerCase()))) name += '_'
    usedNames.add(name)
    return { 'source-id': source.id, name, transform }
  })
  return { fields }
}

const TIMES: ReadonlySet<unknown> = new Set(['timestamp', 'timestamptz'])

function checkSource({ name, type }: NestedField, transform: PartitionBy['transform']) {
  const refuse = (hint: string): never => {
    throw new UnsupportedPartition(
      `partition_by: transform ${transform} does not support column ${JSON.stringify(name)} of type ${duckText(toDuckDb(type))}: ${hint}`,
    )
  }
  if (typeof type !== 'string') refuse('choose a column that is not a list, map or struct')
  if (transform === 'identity') {
    // Readers would disagree about partitions of NaN and of the two zeros.
    if (type === 'float' || type === 'double') refuse('cast it to DECIMAL')
  } else if (transform === 'hour') {
    if (!TIMES.has(type)) refuse('use a TIMESTAMP')
  } else if (!TIMES.has(type) && type !== 'date') refuse('use a DATE or TIMESTAMP')
}

/** A field of a spec whose values SQL can compute. */
export interface ComputedPartition {
  readonly id: number
  readonly source: NestedField
  /** The Iceberg type of the values. The values of `day` are numbers of days. */
  readonly type: string
  /** The SQL of the value for an expression of the source's type. */
  readonly of: (expression: string) => string
}

/** The fields of a spec that SQL can compute. Transforms of other engines and fields of removed columns are left out. */
export function computedPartitions({ fields }: PartitionSpec, schema: Schema): ComputedPartition[] {
  return fields.flatMap((field) => {
    const source = schema.fields.find(({ id }) => id === field['source-id'])
    const sql = source && transformSql(field.transform, source)
    if (source === undefined || sql === undefined) return []
    const type = field.transform === 'day' ? 'int' : partitionType(field.transform, source.type)
    return [{ id: field['field-id'], source, type, of: sql }]
  })
}

const MICROS_PER_HOUR = 3_600_000_000

function transformSql(transform: string, { type }: NestedField): ComputedPartition['of'] | undefined {
  if (typeof type !== 'string') return undefined
  // Partitions use UTC in every time zone of the session.
  const local = (expression: string) =>
    type === 'timestamptz' ? `(${expression} AT TIME ZONE 'UTC')` : expression
  switch (transform) {
    case 'identity':
      return (expression) => expression
    case 'year':
      return (expression) => `CAST(year(${local(expression)}) - 1970 AS INTEGER)`
    case 'month':
      return (expression) =>
        `CAST((year(${local(expression)}) - 1970) * 12 + month(${local(expression)}) - 1 AS INTEGER)`
    case 'day':
      return (expression) => `CAST(CAST(${local(expression)} AS DATE) - DATE '1970-01-01' AS INTEGER)`
    case 'hour':
      // Subtracts the remainder first, because the division rounds towards zero.
      return (expression) => {
        const micros = `epoch_us(${local(expression)})`
        const past = `((${micros} % ${MICROS_PER_HOUR} + ${MICROS_PER_HOUR}) % ${MICROS_PER_HOUR})`
        return `CAST((${micros} - ${past}) // ${MICROS_PER_HOUR} AS INTEGER)`
      }
    default:
      return undefined
  }
}

/** Reads a partition value from a manifest. */
export function tupleValue(tuple: PartitionTuple, { id, type }: ComputedPartition): BoundValue | null {
  const value = tuple[id] ?? null
  return value === null ? null : boundValueFrom(type, value)
}
