// The metadata of a table that does not exist yet, and the updates that create the table.

import { withFreshIds } from '../format/fresh-ids.ts'
import {
  currentSchema,
  defaultSortOrder,
  defaultSpec,
  FORMAT_VERSIONS,
  type FormatVersion,
  type TableMetadata,
} from '../format/metadata.ts'
import type { Schema } from '../format/types.ts'
import { applyUpdates } from '../format/updates.ts'
import { BadUpdate, type SortOrder, type TableUpdate, type UnboundSpec } from '../format/wire.ts'

interface NewTable {
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
 * Makes the metadata of a table that does not exist yet. Its field ids count from 1, whatever ids the client sent: a client uses
 * the schema in the answer.
 * @throws BadUpdate for an invalid schema, partition spec or property
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
  const { 'format-version': wanted = '2', ...tableProperties } = properties ?? {}
  const formatVersion = FORMAT_VERSIONS.find((known) => String(known) === wanted)
  if (formatVersion === undefined)
    throw new BadUpdate(`format-version ${wanted} is not supported: tables have version 2 or 3`)
  const shape = withFreshIds({
    schema,
    partitionSpec: partitionSpec ?? { fields: [] },
    sortOrder: sortOrder ?? { 'order-id': 0, fields: [] },
  })
  return applyUpdates(
    null,
    creation({ uuid, location, formatVersion, properties: tableProperties, ...shape }),
    { at },
  )
}

/** The updates that create a staged table. A client commits them with `assert-create`. */
export function creationUpdates(staged: TableMetadata): TableUpdate[] {
  return creation({
    uuid: staged['table-uuid'],
    formatVersion: staged['format-version'],
    location: staged.location,
    schema: currentSchema(staged),
    partitionSpec: { fields: [...defaultSpec(staged).fields] },
    sortOrder: defaultSortOrder(staged),
    properties: staged.properties,
  })
}

const creation = (
  table: Required<Omit<NewTable, 'at'>> & {
    formatVersion: FormatVersion
    partitionSpec: UnboundSpec
    sortOrder: SortOrder
  },
): TableUpdate[] => [
  { action: 'assign-uuid', uuid: table.uuid },
  { action: 'upgrade-format-version', 'format-version': table.formatVersion },
  { action: 'set-location', location: table.location },
  { action: 'add-schema', schema: table.schema },
  { action: 'set-current-schema', 'schema-id': -1 },
  { action: 'add-spec', spec: table.partitionSpec },
  { action: 'set-default-spec', 'spec-id': -1 },
  { action: 'add-sort-order', 'sort-order': table.sortOrder },
  { action: 'set-default-sort-order', 'sort-order-id': -1 },
  { action: 'set-properties', updates: { ...table.properties } },
]
