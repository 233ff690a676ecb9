import { byName } from '../format/fields.ts'
import { FILE_SIZE_PROPERTY, fileBytesOf, LAYOUT_PROPERTIES } from '../format/layout.ts'
import { currentSchema, currentSnapshot, type TableMetadata } from '../format/metadata.ts'
import { partitionSpecOf } from '../format/partition.ts'
import type { Column, NestedField, Schema } from '../format/types.ts'
import { type NextSchema, type PreviousSchema, schemaForAppend, schemaForReplace } from './evolution.ts'
import { doubtsOf } from './projection.ts'
import { type ResultWrite, type TableChange, UnsupportedWrite, type WriteRules } from './result-write.ts'
import { valuelessColumns } from './valueless.ts'
import { schemaAndSpecOf } from './write.ts'
import type { MergeRules, Target } from './write-engine.ts'

/** The shape of a result. A column of the table that never had a value takes the type of the result. */
export async function shapeWithFirstTypes(write: ResultWrite): Promise<Shape> {
  const shape = shapeOfResult(write)
  if (write.table === null) return shape
  const doubtful = write.columns.filter((column) => doubtsOf([column], shape.schema).length > 0)
  const valueless = await valuelessColumns(write.table, doubtful, write)
  return valueless.size === 0 ? shape : shapeOfResult(write, valueless)
}

export interface Shape {
  readonly schema: Schema
  readonly spec: Target['spec']
  readonly change: Pick<TableChange, 'metadata' | 'schema' | 'partitionSpec' | 'properties'>
  /** The number of rows in the table before the write. */
  readonly tableRows: number
  /** The size of the table's files before the write. */
  readonly tableBytes: number
  /** How rows are matched; null when the strategy matches no rows. */
  readonly merge: MergeRules | null
  /** The columns by which large files are sorted. */
  readonly order: readonly NestedField[]
  /** The size of a new file; null when rows are sorted by a key, because then files are cut by rows. */
  readonly fileBytes: number | null
}

export function shapeOfResult(
  { rules, columns, table, stage, at }: Pick<ResultWrite, 'rules' | 'columns' | 'table' | 'stage' | 'at'>,
  valueless?: ReadonlySet<number>,
): Shape {
  const isHistory = rules.mergeStrategy === 'scd2'
  const historyFields = isHistory ? historyColumns(rules, columns) : []
  const previous = table ? { schema: currentSchema(table), lastColumnId: table['last-column-id'] } : undefined
  const all = [...columns, ...historyFields]
  const next = nextSchemaOf({ ...rules, columns: all, historyFields }, previous, valueless)
  const partitionSpec = partitionSpecOf(rules.partitionBy, next.schema)
  const properties = propertiesOf(rules, table)
  const metadata = table ?? stage({ schema: next.schema, partitionSpec, properties })
  const { schema, spec } = schemaAndSpecOf({ metadata, schema: next.schema, partitionSpec })
  const fields = byName(schema.fields)
  const fieldOf = (name: string): NestedField => {
    const field = fields.get(name.toLowerCase())
    if (field === undefined) throw new Error(`the schema has no column ${name}`)
    return field
  }
  const keys = keysOf(rules, columns)
  if (previous && isMerge(rules)) refuseNewKey(rules, keys, previous.schema)
  const keyNames = new Set(keys.map((name) => name.toLowerCase()))
  const history = isHistory
    ? {
        from: fieldOf(rules.scdValidFrom),
        to: fieldOf(rules.scdValidTo),
        values: columns
          .map(({ name }) => fieldOf(name))
          .filter(({ name }) => !keyNames.has(name.toLowerCase())),
        version: byName(columns).has(rules.watermarkColumn.toLowerCase())
          ? fieldOf(rules.watermarkColumn)
          : null,
        at,
      }
    : null
  return {
    schema,
    spec,
    change: { metadata, schema: next, partitionSpec, properties },
    tableRows: table ? Number(currentSnapshot(table)?.summary['total-records'] ?? 0) : 0,
    tableBytes: table ? Number(currentSnapshot(table)?.summary['total-files-size'] ?? 0) : 0,
    merge: isMerge(rules) ? { keys: keys.map(fieldOf), history } : null,
    order: keys.map(fieldOf),
    fileBytes: keys.length > 0 ? null : (rules.targetFileSize ?? fileBytesOf(metadata.properties)),
  }
}

function nextSchemaOf(
  {
    mergeStrategy,
    onSchemaChange,
    columns,
    historyFields,
  }: Pick<WriteRules, 'mergeStrategy' | 'onSchemaChange'> &
    Record<'columns' | 'historyFields', readonly Column[]>,
  previous: PreviousSchema | undefined,
  valueless?: ReadonlySet<number>,
): NextSchema {
  if (previous && onSchemaChange === 'ignore') return schemaForAppend(historyFields, previous)
  return previous && mergeStrategy !== 'full_refresh'
    ? schemaForAppend(columns, previous, valueless)
    : schemaForReplace(columns, previous)
}

/** All properties of a new table, or the one that the pipeline changes. */
function propertiesOf({ targetFileSize }: WriteRules, table: TableMetadata | null): Record<string, string> {
  if (table === null)
    return { ...LAYOUT_PROPERTIES, [FILE_SIZE_PROPERTY]: String(targetFileSize ?? fileBytesOf({})) }
  if (targetFileSize === null || table.properties?.[FILE_SIZE_PROPERTY] === String(targetFileSize)) return {}
  return { [FILE_SIZE_PROPERTY]: String(targetFileSize) }
}

export const isMerge = ({ mergeStrategy }: WriteRules): boolean =>
  mergeStrategy !== 'full_refresh' && mergeStrategy !== 'append_only'

/** The columns that match and cluster rows, spelled as in the result. */
function keysOf(rules: WriteRules, columns: readonly Column[]): string[] {
  const [key, names] =
    rules.mergeStrategy === 'snapshot'
      ? (['partition_column', [rules.partitionColumn]] as const)
      : (['unique_key', rules.uniqueKey] as const)
  const present = byName(columns)
  const spelledNames = names.flatMap((name) => present.get(name.toLowerCase())?.name ?? [])
  const missing = names.find((name) => !present.has(name.toLowerCase()))
  if (isMerge(rules) && (missing !== undefined || names.every((name) => name === '')))
    throw new UnsupportedWrite(
      missing
        ? `${key}: the result has no column ${JSON.stringify(missing)}, it has ${columns.map(({ name }) => name).join(', ')}`
        : `merge_strategy ${rules.mergeStrategy} needs ${key}`,
    )
  return spelledNames
}

/** Rows of the table would have no value in a new key column, so no row of a result would ever match them. */
function refuseNewKey({ mergeStrategy }: WriteRules, keys: readonly string[], { fields }: Schema): void {
  const present = byName(fields)
  const added = keys.find((name) => !present.has(name.toLowerCase()))
  if (added === undefined) return
  const key = mergeStrategy === 'snapshot' ? 'partition_column' : 'unique_key'
  throw new UnsupportedWrite(
    `${key}: the table has no column ${JSON.stringify(added)}, it has ${fields.map(({ name }) => name).join(', ')}: choose one of these, or use full_refresh to replace the table`,
  )
}

const INSTANT = 'TIMESTAMP WITH TIME ZONE'

function historyColumns({ scdValidFrom, scdValidTo }: WriteRules, columns: readonly Column[]): Column[] {
  if (scdValidFrom.toLowerCase() === scdValidTo.toLowerCase())
    throw new UnsupportedWrite(
      `scd_valid_from and scd_valid_to name the same column ${JSON.stringify(scdValidTo)}`,
    )
  const present = byName(columns)
  for (const [key, name] of [
    ['scd_valid_from', scdValidFrom],
    ['scd_valid_to', scdValidTo],
  ] as const)
    if (present.has(name.toLowerCase()))
      throw new UnsupportedWrite(
        `column ${JSON.stringify(name)} is written by scd2: leave it out of the result, or choose another ${key}`,
      )
  return [scdValidFrom, scdValidTo].map((name) => ({ name, type: INSTANT }))
}
