// The metadata of one table in format version 2 or 3. The object in memory has the same structure as the file. Source:
// https://iceberg.apache.org/spec/#table-metadata-fields

import { AuthorError } from '../../pipeline/author-error.ts'
import { parseJson, stringifyJson } from './json.ts'
import type { Schema } from './types.ts'
import type { Snapshot, SnapshotRef, SortOrder } from './wire.ts'

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

/** The format versions of tables. Version 3 adds deletion vectors, row ids and default values (docs/adr/0059-format-version-3.md). */
export const FORMAT_VERSIONS = [2, 3] as const
export type FormatVersion = (typeof FORMAT_VERSIONS)[number]

export interface TableMetadata {
  readonly 'format-version': FormatVersion
  /** Above the ids of all rows. Only format version 3 has row ids. */
  readonly 'next-row-id'?: number
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
  /** Keys of the directories that have files of this table from before it was renamed. No update of a client changes them. */
  readonly [FORMER_DIRECTORIES]?: readonly string[]
}

const FORMER_DIRECTORIES = 'sluice.former-directories'

export const formerDirectories = (metadata: TableMetadata): readonly string[] =>
  metadata[FORMER_DIRECTORIES] ?? []

/** Copies of metadata with other former directories; engines of users get none. */
export const withFormerDirectories = (
  { [FORMER_DIRECTORIES]: _, ...metadata }: TableMetadata,
  directories: readonly string[],
): TableMetadata => (directories.length === 0 ? metadata : { ...metadata, [FORMER_DIRECTORIES]: directories })

/** This implementation does not support the table, or the requested use of the table. */
export class UnsupportedTable extends AuthorError {
  override readonly name = 'UnsupportedTable'
}

/**
 * Reads a metadata file.
 * @throws UnsupportedTable for another format version, SyntaxError for text that is not table metadata.
 */
export function parseMetadata(text: string): TableMetadata {
  const value = parseJson(text)
  if (typeof value !== 'object' || value === null)
    throw new SyntaxError('not Iceberg table metadata: the file is not a JSON object')
  return metadataFrom(value)
}

/**
 * Reads table metadata from parsed JSON, such as the answer of a REST catalog.
 * @throws UnsupportedTable, SyntaxError
 */
export function metadataFrom(value: object): TableMetadata {
  const version: unknown = Reflect.get(value, 'format-version')
  if (!FORMAT_VERSIONS.some((known) => known === version))
    throw new UnsupportedTable(
      `Iceberg format version ${String(version)} is not supported: tables need version 2 or 3`,
    )
  const { 'current-snapshot-id': current, ...fields } = value as TableMetadata
  for (const list of [fields.schemas, fields['partition-specs'], fields['sort-orders']]) {
    if (!Array.isArray(list))
      throw new SyntaxError('not Iceberg table metadata: schemas, partition-specs or sort-orders are missing')
  }
  return {
    ...fields,
    // Some writers store -1 or null when the table has no snapshot.
    ...(typeof current === 'bigint' && current >= 0n && { 'current-snapshot-id': current }),
    properties: fields.properties ?? {},
    snapshots: fields.snapshots ?? [],
    'snapshot-log': fields['snapshot-log'] ?? [],
    'metadata-log': fields['metadata-log'] ?? [],
    refs: fields.refs ?? {},
  }
}

/** The text of a metadata file. */
export const serializeMetadata = (metadata: TableMetadata): string => stringifyJson(metadata)

/** The schema that readers see. */
export function currentSchema(metadata: TableMetadata): Schema {
  return schemaById(metadata, metadata['current-schema-id'])
}

/** The partition spec of new files. @throws SyntaxError when the metadata contradicts itself */
export function defaultSpec(metadata: TableMetadata): PartitionSpec {
  const id = metadata['default-spec-id']
  const spec = metadata['partition-specs'].find((candidate) => candidate['spec-id'] === id)
  if (!spec) throw new SyntaxError(`table metadata has no partition spec ${id}`)
  return spec
}

/** How new files are sorted. @throws SyntaxError when the metadata contradicts itself */
export function defaultSortOrder(metadata: TableMetadata): SortOrder {
  const id = metadata['default-sort-order-id']
  const order = metadata['sort-orders'].find((candidate) => candidate['order-id'] === id)
  if (!order) throw new SyntaxError(`table metadata has no sort order ${id}`)
  return order
}

/** @throws SyntaxError when the metadata contradicts itself */
export function schemaById(metadata: TableMetadata, id: number): Schema {
  const schema = metadata.schemas.find((candidate) => candidate['schema-id'] === id)
  if (!schema) throw new SyntaxError(`table metadata has no schema ${id}`)
  return schema
}

/** The snapshot that readers see; undefined while the table has none. */
export function currentSnapshot(metadata: TableMetadata): Snapshot | undefined {
  const id = metadata['current-snapshot-id']
  return id === undefined ? undefined : snapshotById(metadata, id)
}

export const snapshotById = (metadata: TableMetadata, id: bigint): Snapshot | undefined =>
  metadata.snapshots.find((snapshot) => snapshot['snapshot-id'] === id)
