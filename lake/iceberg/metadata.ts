// The metadata of one table: format version 2, in memory exactly as it stands in the file.
// Source: https://iceberg.apache.org/spec/#table-metadata-fields

import { withUsableIds } from './fresh-ids.ts'
import { parseJson, stringifyJson } from './json.ts'
import type { Schema } from './types.ts'
import { applyUpdates, BadUpdate } from './updates.ts'
import type { Snapshot, SnapshotRef, SortOrder, TableUpdate, UnboundSpec } from './wire.ts'

export { CommitFailed, checkRequirements } from './requirements.ts'
export { applyUpdates, BadUpdate, MAIN, schemaIdIn } from './updates.ts'
export type { Snapshot, SnapshotRef, SortOrder, TableRequirement, TableUpdate } from './wire.ts'

export interface PartitionField {
  readonly 'source-id': number
  readonly 'field-id': number
  readonly name: string
  readonly transform: string
}

export interface PartitionSpec {
  readonly 'spec-id': number
  readonly fields: readonly PartitionField[]
}

export interface TableMetadata {
  readonly 'format-version': 2
  readonly 'table-uuid': string
  readonly location: string
  readonly 'last-sequence-number': number
  readonly 'last-updated-ms': number
  readonly 'last-column-id': number
  readonly schemas: readonly Schema[]
  readonly 'current-schema-id': number
  readonly 'partition-specs': readonly PartitionSpec[]
  readonly 'default-spec-id': number
  readonly 'last-partition-id': number
  readonly 'sort-orders': readonly SortOrder[]
  readonly 'default-sort-order-id': number
  readonly properties: Readonly<Record<string, string>>
  /** Absent while the table has no snapshot. */
  readonly 'current-snapshot-id'?: bigint
  readonly snapshots: readonly Snapshot[]
  readonly 'snapshot-log': readonly { readonly 'timestamp-ms': number; readonly 'snapshot-id': bigint }[]
  readonly 'metadata-log': readonly { readonly 'timestamp-ms': number; readonly 'metadata-file': string }[]
  readonly refs: Readonly<Record<string, SnapshotRef>>
}

/** A table, or a use of one, that this implementation does not read or write. */
export class UnsupportedTable extends Error {
  override readonly name = 'UnsupportedTable'
}

export interface NewTable {
  readonly uuid: string
  readonly location: string
  readonly schema: Omit<Schema, 'schema-id'>
  readonly partitionSpec?: UnboundSpec | undefined
  readonly sortOrder?: SortOrder | undefined
  readonly properties?: Readonly<Record<string, string>> | undefined
  /** Milliseconds since the epoch. */
  readonly at: number
}

/**
 * The metadata of a table that does not exist yet. Field ids are kept when they are usable (unique and above 0) and
 * otherwise given anew, as the REST specification allows: a client uses the schema it is answered.
 * @throws BadUpdate for a schema, specification or property that cannot be
 */
export function newTable({
  uuid,
  location,
  schema,
  partitionSpec,
  sortOrder,
  properties,
  at,
}: NewTable): TableMetadata {
  const { 'format-version': version = '2', ...kept } = properties ?? {}
  if (version !== '2')
    throw new BadUpdate(`format-version ${version} is not supported: tables have version 2`)
  const usable = withUsableIds({
    schema,
    partitionSpec: partitionSpec ?? { fields: [] },
    sortOrder: sortOrder ?? { 'order-id': 0, fields: [] },
  })
  return applyUpdates(null, creation({ uuid, location, properties: kept, ...usable }), { at })
}

/** The updates that make a staged table: what a client commits with `assert-create`. */
export function creationUpdates(staged: TableMetadata): TableUpdate[] {
  const sortOrder = staged['sort-orders'].find(
    (order) => order['order-id'] === staged['default-sort-order-id'],
  )
  if (!sortOrder) throw new SyntaxError('the staged table has no default sort order')
  return creation({
    uuid: staged['table-uuid'],
    location: staged.location,
    schema: currentSchema(staged),
    partitionSpec: { fields: [...defaultSpec(staged).fields] },
    sortOrder,
    properties: staged.properties,
  })
}

const creation = (
  table: Required<Omit<NewTable, 'at'>> & { partitionSpec: UnboundSpec; sortOrder: SortOrder },
): TableUpdate[] => [
  { action: 'assign-uuid', uuid: table.uuid },
  { action: 'upgrade-format-version', 'format-version': 2 },
  { action: 'set-location', location: table.location },
  { action: 'add-schema', schema: table.schema },
  { action: 'set-current-schema', 'schema-id': -1 },
  { action: 'add-spec', spec: table.partitionSpec },
  { action: 'set-default-spec', 'spec-id': -1 },
  { action: 'add-sort-order', 'sort-order': table.sortOrder },
  { action: 'set-default-sort-order', 'sort-order-id': -1 },
  { action: 'set-properties', updates: { ...table.properties } },
]

/**
 * Reads a metadata file.
 * @throws UnsupportedTable for another format version, SyntaxError for what is not table metadata.
 */
export function parseMetadata(text: string): TableMetadata {
  const value = parseJson(text)
  if (typeof value !== 'object' || value === null) throw new SyntaxError('not table metadata')
  return metadataFrom(value)
}

/** Table metadata out of parsed JSON, as a REST catalog answers it. @throws UnsupportedTable, SyntaxError */
export function metadataFrom(value: object): TableMetadata {
  const version: unknown = Reflect.get(value, 'format-version')
  if (version !== 2) throw new UnsupportedTable(`table format version ${String(version)} is not supported`)
  const { 'current-snapshot-id': current, ...rest } = value as TableMetadata
  for (const list of [rest.schemas, rest['partition-specs'], rest['sort-orders']]) {
    if (!Array.isArray(list)) throw new SyntaxError('not table metadata: a list is missing')
  }
  return {
    ...rest,
    // Some writers say -1 or null for "none".
    ...(typeof current === 'bigint' && current >= 0n && { 'current-snapshot-id': current }),
    properties: rest.properties ?? {},
    snapshots: rest.snapshots ?? [],
    'snapshot-log': rest['snapshot-log'] ?? [],
    'metadata-log': rest['metadata-log'] ?? [],
    refs: rest.refs ?? {},
  }
}

/** The text of a metadata file. */
export const serializeMetadata = (metadata: TableMetadata): string => stringifyJson(metadata)

/** The schema readers see. */
export function currentSchema(metadata: TableMetadata): Schema {
  return schemaById(metadata, metadata['current-schema-id'])
}

/** How new files are partitioned. @throws SyntaxError when the metadata contradicts itself */
export function defaultSpec(metadata: TableMetadata): PartitionSpec {
  const id = metadata['default-spec-id']
  const spec = metadata['partition-specs'].find((candidate) => candidate['spec-id'] === id)
  if (!spec) throw new SyntaxError(`table metadata has no partition spec ${id}`)
  return spec
}

/** @throws SyntaxError when the metadata contradicts itself */
export function schemaById(metadata: TableMetadata, id: number): Schema {
  const schema = metadata.schemas.find((candidate) => candidate['schema-id'] === id)
  if (!schema) throw new SyntaxError(`table metadata has no schema ${id}`)
  return schema
}

/** The snapshot readers see; undefined while the table has none. */
export function currentSnapshot(metadata: TableMetadata): Snapshot | undefined {
  const id = metadata['current-snapshot-id']
  return id === undefined ? undefined : snapshotById(metadata, id)
}

export const snapshotById = (metadata: TableMetadata, id: bigint): Snapshot | undefined =>
  metadata.snapshots.find((snapshot) => snapshot['snapshot-id'] === id)
