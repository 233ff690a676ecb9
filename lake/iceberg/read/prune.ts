// Finds the files of a table that may hold rows with a key of the batch, before any file is read. Manifest lists describe
// manifests, and manifests describe files. The engine does all comparisons, so only its order of values counts.

import { decimalText, isoTime } from '../../engine/json-values.ts'
import { quoteIdentifier, quoteLiteral } from '../../quote.ts'
import { type BoundValue, compareBounds, decoded } from '../format/bounds.ts'
import type { DataFile, ManifestFile } from '../format/data-file.ts'
import type { PartitionSpec, TableMetadata } from '../format/metadata.ts'
import { type ComputedPartition, computedPartitions, tupleValue } from '../format/partition.ts'
import { decimalOf, type NestedField, type Schema } from '../format/types.ts'
import { sqlType } from '../sql/sql.ts'
import type { LiveFile, TableFile } from './scan.ts'

/** Runs SQL of the service. */
export type Query = (sql: string) => Promise<readonly (readonly (string | null)[])[]>

interface Keys {
  /** A relation with the columns of `fields`. */
  readonly relation: string
  readonly fields: readonly NestedField[]
}

/** Known bounds of one expression's values in some rows. */
interface Range {
  readonly lower?: BoundValue | undefined
  readonly upper?: BoundValue | undefined
  readonly hasNull: boolean
  readonly hasValues: boolean
}

/** A key column or a transform of it, and the range of its values in an item. */
interface Measure<T> {
  /** Index of the key column. */
  readonly key: number
  readonly type: string
  readonly of: (expression: string) => string
  readonly rangeIn: (item: T) => Range
}

const UNKNOWN: Range = { hasNull: true, hasValues: true }
/** The keys of a batch are compared as at most this many ranges. A batch with fewer rows is compared exactly. */
const ZONES_LIMIT = 1_024

/** The manifests whose partitions may hold one of the keys. */
export async function pruneManifests(
  manifests: readonly ManifestFile[],
  metadata: TableMetadata,
  schema: Schema,
  keys: Keys,
  query: Query,
): Promise<ManifestFile[]> {
  if (manifests.length < 2) return [...manifests]
  const measures = metadata['partition-specs'].flatMap((spec) =>
    partitionsOfKeys(spec, schema, keys).map((partition): Measure<ManifestFile> => {
      const index = spec.fields.findIndex((field) => field['field-id'] === partition.id)
      const rangeIn = (manifest: ManifestFile) =>
        manifest.specId === spec['spec-id'] ? summaryRange(manifest, index, partition.type) : UNKNOWN
      return { ...partition, rangeIn }
    }),
  )
  return overlapping(manifests, measures, keys, query)
}

/** The files that may hold one of the keys, by their bounds and partitions. */
export async function pruneFiles(
  files: readonly TableFile[],
  metadata: TableMetadata,
  schema: Schema,
  keys: Keys,
  query: Query,
): Promise<TableFile[]> {
  const measures: Measure<TableFile>[] = []
  for (const [key, { id, type }] of keys.fields.entries())
    if (typeof type === 'string')
      measures.push({
        key,
        type,
        of: (expression) => expression,
        rangeIn: ({ file }) => boundsRange(file, id, type),
      })
  const used = new Set(files.map(({ specId }) => specId))
  for (const spec of metadata['partition-specs'].filter((candidate) => used.has(candidate['spec-id'])))
    for (const partition of partitionsOfKeys(spec, schema, keys))
      measures.push({
        ...partition,
        rangeIn: ({ specId, file }) => (specId === spec['spec-id'] ? tupleRange(file, partition) : UNKNOWN),
      })
  return overlapping(files, measures, keys, query)
}

/**
 * The files that may hold the greatest value of a column. A file is excluded when its values end below the start of another
 * file without deleted rows.
 */
export function filesWithMaximum(files: readonly LiveFile[], { id, type }: NestedField): LiveFile[] {
  if (typeof type !== 'string') return [...files]
  const ranges = files.map((file) => boundsRange(file, id, type))
  const lowers = ranges
    .filter((_, i) => files[i]?.deletes === undefined)
    .flatMap(({ lower }) => (lower === undefined ? [] : [lower]))
  const [first] = lowers
  if (first === undefined) return files.filter((_, i) => ranges[i]?.hasValues)
  const floor = lowers.reduce((a, b) => (compareBounds(b, a) > 0 ? b : a), first)
  return files.filter((_, i) => {
    const { upper, hasValues } = ranges[i] ?? UNKNOWN
    return hasValues && (upper === undefined || compareBounds(upper, floor) >= 0)
  })
}

function partitionsOfKeys(spec: PartitionSpec, schema: Schema, { fields }: Keys) {
  return computedPartitions(spec, schema).flatMap((partition) => {
    const key = fields.findIndex(({ id }) => id === partition.source.id)
    return key < 0 ? [] : [{ ...partition, key }]
  })
}

function boundsRange({ columns, recordCount }: DataFile, id: number, type: string): Range {
  const metrics = columns.get(id)
  if (metrics === undefined) return UNKNOWN
  const { lower, upper, nullCount, nanCount } = metrics
  // The engine sorts NaN as the greatest number, but no bound shows that a file holds NaN.
  const isBounded = (type !== 'float' && type !== 'double') || nanCount === 0
  return {
    lower: lower && decoded(type, lower),
    upper: isBounded && upper ? decoded(type, upper) : undefined,
    hasNull: nullCount !== 0,
    hasValues: nullCount === undefined || nullCount < recordCount,
  }
}

function summaryRange({ partitions }: ManifestFile, index: number, type: string): Range {
  const summary = partitions?.[index]
  if (summary === undefined) return UNKNOWN
  const { containsNull: hasNull, lower, upper } = summary
  return {
    lower: lower && decoded(type, lower),
    upper: upper && decoded(type, upper),
    hasNull,
    hasValues: lower !== undefined || upper !== undefined,
  }
}

function tupleRange({ partition }: DataFile, field: ComputedPartition): Range {
  if (partition[field.id] === undefined) return UNKNOWN
  const value = tupleValue(partition, field)
  if (value === null) return { hasNull: true, hasValues: false }
  return { lower: value, upper: value, hasNull: false, hasValues: true }
}

async function overlapping<T>(
  items: readonly T[],
  measures: readonly Measure<T>[],
  { relation, fields }: Keys,
  query: Query,
): Promise<T[]> {
  if (measures.length === 0 || items.length === 0) return [...items]
  const keys = fields.map(({ name }) => quoteIdentifier(name))
  const rows = items.map((item, i) => {
    const ranges = measures.flatMap(({ type, rangeIn }) => rangeSql(rangeIn(item), type))
    return `(${[i, ...ranges].join(', ')})`
  })
  const names = measures.flatMap((_, m) => [`lower${m}`, `upper${m}`, `null${m}`, `some${m}`])
  const conditions = measures.map(({ key, of }, m) => {
    const isNotBelow = `(r.lower${m} IS NULL OR ${of(`z.upper${key}`)} >= r.lower${m})`
    const isNotAbove = `(r.upper${m} IS NULL OR ${of(`z.lower${key}`)} <= r.upper${m})`
    const isWithin = `r.some${m} AND z.lower${key} IS NOT NULL AND ${isNotBelow} AND ${isNotAbove}`
    return `((r.null${m} AND z.null${key}) OR (${isWithin}))`
  })
  const zones = keys.map(
    (k, i) => `min(${k}) AS lower${i}, max(${k}) AS upper${i}, bool_or(${k} IS NULL) AS null${i}`,
  )
  const matches = await query(
    `WITH zones AS (
       SELECT ${zones.join(', ')}
       FROM (SELECT ${keys.join(', ')}, ntile(${ZONES_LIMIT}) OVER (ORDER BY ${keys.join(', ')}) AS zone FROM ${relation})
       GROUP BY zone),
     ranges(i, ${names.join(', ')}) AS (VALUES ${rows.join(', ')})
     SELECT DISTINCT r.i FROM ranges r JOIN zones z ON ${conditions.join(' AND ')}`,
  )
  const chosen = new Set(matches.map(([i]) => Number(i)))
  return items.filter((_, i) => chosen.has(i))
}

const rangeSql = ({ lower, upper, hasNull, hasValues }: Range, type: string): string[] => [
  valueSql(type, lower),
  valueSql(type, upper),
  String(hasNull),
  String(hasValues),
]

/** Writes a value of an Iceberg type as SQL. An absent value, or a text that SQL cannot hold, becomes NULL. */
export function valueSql(type: string, value: BoundValue | null | undefined): string {
  const duck = sqlType(type)
  const none = `CAST(NULL AS ${duck})`
  if (value === undefined || value === null) return none
  const decimal = decimalOf(type)
  if (decimal) return `CAST('${decimalText(BigInt(String(value)), decimal.scale)}' AS ${duck})`
  switch (type) {
    case 'date':
      return `(DATE '1970-01-01' + CAST(${value} AS INTEGER))`
    case 'time':
      return `CAST('${isoTime(Number(value), 6)}' AS TIME)`
    case 'timestamp':
      return `make_timestamp(${value})`
    case 'timestamptz':
      return `(make_timestamp(${value}) AT TIME ZONE 'UTC')`
    case 'string':
      return String(value).includes('\0') ? none : quoteLiteral(String(value))
    case 'float':
    case 'double':
      return `CAST('${value}' AS ${duck})`
    default:
      return value instanceof Uint8Array
        ? `unhex('${Buffer.from(value).toString('hex')}')`
        : `CAST('${value}' AS ${duck})`
  }
}
