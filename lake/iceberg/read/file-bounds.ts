// The bounds of the columns of many data files, decoded into arrays, and the files that may hold rows of a filter. A file is
// left out only when none of its rows can pass: an unknown bound, type or step lets every row pass.

import { isUtf8 } from 'node:buffer'
import { type BoundValue, boundValueFrom, decodeBound } from '../format/bounds.ts'
import type { ColumnMetrics, DataFile } from '../format/data-file.ts'
import type { PartitionSpec } from '../format/metadata.ts'
import type { NestedField, Schema } from '../format/types.ts'
import { type ColumnBounds, columnBounds, type Range, type Test } from './column-bounds.ts'
import type { TableFile } from './scan.ts'
import type { Condition, ScanFilter } from './scan-filter.ts'

export interface FileBounds {
  /** Memory of the arrays. */
  readonly bytes: number
  /** The indexes of the files that may hold rows of the filter; null for all files. */
  select(filter: ScanFilter): number[] | null
}

/** Comparisons of one filter, steps times files. A filter with more of them would block other queries. */
const COMPARISONS_LIMIT = 5_000_000
/** Decodes the bounds of top-level columns up to a limit of memory, columns of partitions first. */
export function fileBounds(
  files: readonly TableFile[],
  specs: readonly PartitionSpec[],
  schema: Schema,
  bytesLimit: number,
): FileBounds {
  const columns = new Map<number, ColumnBounds>()
  const specOf = new Map(specs.map((spec) => [spec['spec-id'], spec]))
  const partitionSources = new Set(specs.flatMap(({ fields }) => fields.map((field) => field['source-id'])))
  const order = [...schema.fields.keys()].toSorted(
    (a, b) => Number(isSource(schema.fields[b])) - Number(isSource(schema.fields[a])),
  )
  function isSource(field: NestedField | undefined): boolean {
    return field !== undefined && partitionSources.has(field.id)
  }
  let bytes = 0
  for (const index of order) {
    const field = schema.fields[index]
    if (bytes >= bytesLimit) break
    const column = field && columnBounds(field, files.length)
    if (field === undefined || column === undefined) continue
    for (const [i, { file, specId }] of files.entries())
      column.set(i, rangeOf(file, field, specOf.get(specId)))
    columns.set(index, column)
    bytes += column.bytes
  }
  return { bytes, select: (filter) => select(filter, columns, files.length) }
}

function rangeOf(
  { columns, recordCount, partition }: DataFile,
  field: NestedField,
  spec?: PartitionSpec,
): Range {
  const type = String(field.type)
  const metrics = columns.get(field.id)
  const range = metrics ? metricsRange(metrics, recordCount, type) : { hasNull: true, hasValues: true }
  for (const { 'source-id': source, 'field-id': id, transform } of spec?.fields ?? []) {
    const value = partition[id]
    if (source !== field.id || value === undefined || !TRANSFORMS.has(transform)) continue
    // The transforms give null for null, and only for null.
    if (value === null) return { hasNull: true, hasValues: false }
    range.hasNull = false
    const { lower, upper } = partitionRange(transform, type, value)
    range.lower ??= lower
    range.upper ??= upper
  }
  return range
}

function metricsRange(
  { lower, upper, nullCount, nanCount }: ColumnMetrics,
  rows: number,
  type: string,
): Range {
  // The engine sorts NaN as the greatest number, but no bound shows that a file holds NaN.
  const isBounded = (type !== 'float' && type !== 'double') || nanCount === 0
  return {
    lower: lower && decoded(type, lower),
    upper: isBounded && upper ? decoded(type, upper) : undefined,
    hasNull: nullCount !== 0,
    hasValues: nullCount === undefined || nullCount < rows,
  }
}

/** Another writer may have cut a text inside a character, or may store a bound of a wrong length. Then the bound is unknown. */
function decoded(type: string, bytes: Uint8Array): BoundValue | undefined {
  if (type === 'string') return isUtf8(bytes) ? bytes : undefined
  if (type === 'binary' || type === 'uuid') return bytes
  try {
    return decodeBound(type, bytes)
  } catch {
    return undefined
  }
}

const MS_PER_DAY = 86_400_000
const TRANSFORMS: ReadonlySet<string> = new Set(['identity', 'year', 'month', 'day', 'hour'])

function partitionRange(transform: string, type: string, value: BoundValue): Pick<Range, 'lower' | 'upper'> {
  if (transform === 'identity') {
    // Writers disagree about partitions of NaN.
    if (type === 'float' || type === 'double') return {}
    const whole = wholeValue(type, value)
    return { lower: whole, upper: whole }
  }
  if (typeof value !== 'number' || !Number.isInteger(value)) return {}
  // Old writers rounded units before the epoch towards zero, so such a unit may contain rows of the unit before.
  const first = startOf(transform, value > 0 ? value : value - 1)
  const next = startOf(transform, value + 1)
  if (!Number.isFinite(first + next)) return {}
  return type === 'date'
    ? { lower: Math.floor(first / MS_PER_DAY), upper: Math.floor(next / MS_PER_DAY) }
    : { lower: BigInt(first) * 1_000n, upper: BigInt(next) * 1_000n }
}

/** A partition can come from a file whose column had another type. */
function wholeValue(type: string, value: BoundValue): BoundValue | undefined {
  if (value instanceof Uint8Array) return decoded(type, value)
  if (typeof value === 'string') return type === 'string' ? value : undefined
  return boundValueFrom(type, value)
}

/** Milliseconds since the epoch at the start of a unit; not finite beyond the years of the clock. */
function startOf(transform: string, unit: number): number {
  switch (transform) {
    case 'hour':
      return unit * 3_600_000
    case 'day':
      return unit * MS_PER_DAY
    case 'month':
      return Date.UTC(1970, unit)
    default:
      return Date.UTC(1970, 12 * unit)
  }
}

/** An engine of users sent the filter, so steps may name missing columns or operands. */
function select(
  filter: ScanFilter,
  columns: ReadonlyMap<number, ColumnBounds>,
  files: number,
): number[] | null {
  if (filter.length * files > COMPARISONS_LIMIT) return null
  const stack: Uint8Array[] = []
  for (const step of filter) {
    if ('count' in step) {
      const operands = stack.splice(-step.count)
      const [first, ...others] = operands
      if (first === undefined || operands.length !== step.count) return null
      for (const other of others) combine(step.op, first, other)
      stack.push(first)
    } else stack.push(maskOf(step, columns, files))
  }
  const [mask] = stack
  if (mask === undefined || stack.length !== 1) return null
  const selected: number[] = []
  for (let file = 0; file < files; file += 1) if (mask[file] === 1) selected.push(file)
  return selected.length === files ? null : selected
}

function combine(op: 'and' | 'or', target: Uint8Array, other: Uint8Array): void {
  for (let file = 0; file < target.length; file += 1) {
    const bit = other[file] ?? 1
    if (op === 'and') target[file] = (target[file] ?? 1) & bit
    else target[file] = (target[file] ?? 1) | bit
  }
}

function maskOf(step: Condition, columns: ReadonlyMap<number, ColumnBounds>, files: number): Uint8Array {
  const mask = new Uint8Array(files)
  const test = testOf(step, columns)
  if (test === undefined) return mask.fill(1)
  for (let file = 0; file < files; file += 1) mask[file] = test(file) ? 1 : 0
  return mask
}

function testOf(step: Condition, columns: ReadonlyMap<number, ColumnBounds>): Test | undefined {
  const column = step.op === 'any' ? undefined : columns.get(step.column)
  if (column === undefined) return undefined
  switch (step.op) {
    case 'any':
      return undefined
    case 'isNull':
      return column.hasNull
    case 'isNotNull':
      return column.hasValues
    default: {
      const test = step.op === 'in' ? column.testAny(step.values) : column.test(step.comparison, step.value)
      return test && ((file) => column.hasValues(file) && test(file))
    }
  }
}
