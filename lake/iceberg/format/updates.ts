// Applies the updates of a commit to table metadata, as a REST catalog must do. Source: Iceberg REST catalog OpenAPI,
// TableUpdate; https://iceberg.apache.org/spec/#table-metadata-fields

import { checkDefaults } from './default-values.ts'
import {
  currentSchema,
  defaultSortOrder,
  defaultSpec,
  FORMAT_VERSIONS,
  type PartitionField,
  type PartitionSpec,
  type TableMetadata,
} from './metadata.ts'
import { nextId, samePartitions, schemaIdIn } from './same-shape.ts'
import { fieldsOf, type Schema } from './types.ts'
import {
  limited,
  METADATA_LOG_LIMIT,
  PROPERTIES_LIMIT,
  REFS_LIMIT,
  SNAPSHOT_LOG_LIMIT,
  SNAPSHOTS_LIMIT,
  SPECS_LIMIT,
  UNUSED_SCHEMAS_LIMIT,
} from './update-limits.ts'
import {
  BadUpdate,
  type Snapshot,
  type SnapshotRef,
  type SortOrder,
  type TableUpdate,
  type UnboundSpec,
} from './wire.ts'

const METADATA_LOG_PROPERTY = 'write.metadata.previous-versions-max'

const LAST_ADDED = -1
/** Ids of partition fields start at 1000. */
const LAST_PARTITION_ID_BEFORE_ANY = 999
/**
 * The branch that every engine reads. The catalog serves each of its own branches under this name (see the ADR on the writer).
 */
export const MAIN = 'main'

interface UpdateContext {
  /** The time of the commit in milliseconds since the epoch. */
  readonly at: number
  /** The metadata file that this commit replaces, for the metadata log. */
  readonly previousFile?: string | undefined
}

/** `null` means that the table does not exist yet. @throws BadUpdate with the name of the update */
export function applyUpdates(
  base: TableMetadata | null,
  updates: readonly TableUpdate[],
  { at, previousFile }: UpdateContext,
): TableMetadata {
  const draft = new Draft(base, at)
  for (const update of updates) draft.apply(update)
  const next = draft.finish()
  return base && previousFile !== undefined ? withPreviousFile(next, base, previousFile) : next
}

type Writable<T> = { -readonly [K in keyof T]: T[K] }

const EMPTY: TableMetadata = {
  'format-version': 2,
  'table-uuid': '',
  location: '',
  'last-sequence-number': 0,
  'last-updated-ms': 0,
  'last-column-id': 0,
  schemas: [],
  'current-schema-id': LAST_ADDED,
  'partition-specs': [],
  'default-spec-id': LAST_ADDED,
  'last-partition-id': LAST_PARTITION_ID_BEFORE_ANY,
  'sort-orders': [],
  'default-sort-order-id': LAST_ADDED,
  properties: {},
  snapshots: [],
  'snapshot-log': [],
  'metadata-log': [],
  refs: {},
}

class Draft {
  private readonly table: Writable<TableMetadata>
  private readonly addedSnapshots = new Set<bigint>()
  private lastSchema: number | undefined
  private lastSpec: number | undefined
  private lastOrder: number | undefined

  constructor(
    base: TableMetadata | null,
    private readonly at: number,
  ) {
    this.table = { ...(base ?? EMPTY), 'last-updated-ms': at }
  }

  apply(update: TableUpdate) {
    const { table } = this
    switch (update.action) {
      case 'assign-uuid':
        return this.assignUuid(update.uuid)
      case 'upgrade-format-version':
        return this.upgrade(update['format-version'])
      case 'set-location':
        table.location = update.location.replace(/\/+$/, '')
        return
      case 'add-schema':
        return this.addSchema(update.schema)
      case 'set-current-schema':
        table['current-schema-id'] = this.requireKnownId(
          'set-current-schema',
          update['schema-id'],
          this.lastSchema,
          this.schemaIds(),
        )
        return
      case 'add-spec':
        return this.addSpec(update.spec)
      case 'set-default-spec':
        table['default-spec-id'] = this.requireKnownId(
          'set-default-spec',
          update['spec-id'],
          this.lastSpec,
          this.specIds(),
        )
        return
      case 'add-sort-order':
        return this.addSortOrder(update['sort-order'])
      case 'set-default-sort-order':
        table['default-sort-order-id'] = this.requireKnownId(
          'set-default-sort-order',
          update['sort-order-id'],
          this.lastOrder,
          this.orderIds(),
        )
        return
      case 'add-snapshot':
        return this.addSnapshot(update)
      case 'set-snapshot-ref':
        return this.setRef(update)
      case 'remove-snapshot-ref':
        return this.removeRef(update['ref-name'])
      case 'remove-snapshots':
        return this.removeSnapshots(new Set(update['snapshot-ids']))
      case 'set-properties':
        table.properties = { ...table.properties, ...update.updates }
        return limited('set-properties', Object.keys(table.properties).length, PROPERTIES_LIMIT)
      case 'remove-properties': {
        const removed = new Set(update.removals)
        table.properties = without(table.properties, (name) => removed.has(name))
        return
      }
      default:
        throw new BadUpdate(`update ${String(Reflect.get(update, 'action'))} is not supported`)
    }
  }

  finish(): TableMetadata {
    const { table } = this
    const missing = [
      [table['table-uuid'] === '', 'assign-uuid'],
      [table.location === '', 'set-location'],
      [table['current-schema-id'] === LAST_ADDED, 'set-current-schema'],
      [table['default-spec-id'] === LAST_ADDED, 'set-default-spec'],
      [table['default-sort-order-id'] === LAST_ADDED, 'set-default-sort-order'],
    ].flatMap(([isMissing, action]) => (isMissing ? [action] : []))
    if (missing.length > 0) throw new BadUpdate(`a new table also needs: ${missing.join(', ')}`)
    this.checkSources()
    this.dropUnusedSchemas()
    this.dropIntermediateLogEntries()
    return table
  }

  private upgrade(wanted: number) {
    const { table } = this
    const version = FORMAT_VERSIONS.find((known) => known === wanted)
    if (version === undefined)
      throw new BadUpdate(`upgrade-format-version: ${wanted} is not supported: tables have version 2 or 3`)
    if (version < table['format-version'])
      throw new BadUpdate(`upgrade-format-version: a table of version 3 cannot return to version ${version}`)
    table['format-version'] = version
    if (version === 3) table['next-row-id'] ??= 0
  }

  private assignUuid(uuid: string) {
    const { 'table-uuid': current } = this.table
    if (current !== '' && current !== uuid)
      throw new BadUpdate('assign-uuid: the uuid of a table never changes')
    this.table['table-uuid'] = uuid
  }

  private requireKnownId(
    action: string,
    id: number,
    last: number | undefined,
    ids: readonly number[],
  ): number {
    const chosen = id === LAST_ADDED ? last : id
    if (chosen === undefined)
      throw new BadUpdate(
        `${action}: id -1 means the item added in the same commit, but this commit adds none`,
      )
    if (!ids.includes(chosen)) throw new BadUpdate(`${action}: id ${chosen} does not exist`)
    return chosen
  }

  private schemaIds = () => this.table.schemas.map((schema) => schema['schema-id'])
  private specIds = () => this.table['partition-specs'].map((spec) => spec['spec-id'])
  private orderIds = () => this.table['sort-orders'].map((order) => order['order-id'])

  private addSchema(schema: Omit<Schema, 'schema-id'>) {
    const { table } = this
    checkDefaults(schema, table['format-version'])
    const fields = [...fieldsOf(schema)]
    const ids = new Set(fields.map(({ id }) => id))
    if (ids.size !== fields.length) throw new BadUpdate('add-schema: a field id is used twice')
    const names = new Set(fields.map(({ path }) => JSON.stringify(path)))
    if (names.size !== fields.length) throw new BadUpdate('add-schema: a field name is used twice')
    const missingId = schema['identifier-field-ids']?.find((id) => !ids.has(id))
    if (missingId !== undefined)
      throw new BadUpdate(`add-schema: identifier field ${missingId} does not exist`)
    const id = schemaIdIn(table.schemas, schema)
    if (!this.schemaIds().includes(id)) table.schemas = [...table.schemas, { ...schema, 'schema-id': id }]
    table['last-column-id'] = Math.max(table['last-column-id'], ...ids)
    this.lastSchema = id
  }

  private addSpec(spec: UnboundSpec) {
    const { table } = this
    const fields = this.numberedPartitions(spec)
    const equal = table['partition-specs'].find((existing) => samePartitions(existing.fields, fields))
    if (equal) {
      this.lastSpec = equal['spec-id']
      return
    }
    const added: PartitionSpec = { 'spec-id': nextId(this.specIds()), fields }
    table['partition-specs'] = [...table['partition-specs'], added]
    table['last-partition-id'] = Math.max(
      table['last-partition-id'],
      ...fields.map((field) => field['field-id']),
    )
    this.lastSpec = added['spec-id']
    limited('add-spec', table['partition-specs'].length, SPECS_LIMIT)
  }

  /** A known partition field (same source and transform) keeps its id. Other fields get the next ids. */
  private numberedPartitions({ fields }: UnboundSpec): PartitionField[] {
    const existingFields = this.table['partition-specs'].flatMap((spec) => spec.fields)
    let last = Math.max(this.table['last-partition-id'], ...fields.map((field) => field['field-id'] ?? 0))
    const numbered = fields.map(({ name, transform, ...field }): PartitionField => {
      const same = existingFields.find(
        (old) => old['source-id'] === field['source-id'] && old.transform === transform,
      )
      const id = field['field-id'] ?? same?.['field-id'] ?? ++last
      return { 'source-id': field['source-id'], 'field-id': id, name, transform }
    })
    const ids = new Set(numbered.map((field) => field['field-id']))
    const names = new Set(numbered.map((field) => field.name))
    if (ids.size !== numbered.length) throw new BadUpdate('add-spec: a partition field id is used twice')
    if (names.size !== numbered.length) throw new BadUpdate('add-spec: a partition field name is used twice')
    return numbered
  }

  private addSortOrder(order: SortOrder) {
    const { table } = this
    const text = JSON.stringify(order.fields)
    const equal = table['sort-orders'].find((existing) => JSON.stringify(existing.fields) === text)
    // Order 0 is always the unsorted order.
    const id = equal?.['order-id'] ?? (order.fields.length === 0 ? 0 : Math.max(1, nextId(this.orderIds())))
    if (!equal) table['sort-orders'] = [...table['sort-orders'], { ...order, 'order-id': id }]
    this.lastOrder = id
    limited('add-sort-order', table['sort-orders'].length, SPECS_LIMIT)
  }

  private addSnapshot({ snapshot }: Extract<TableUpdate, { action: 'add-snapshot' }>) {
    const { table } = this
    const { 'snapshot-id': id, 'sequence-number': sequence, 'schema-id': schema } = snapshot
    if (table.schemas.length === 0) throw new BadUpdate('add-snapshot: the table has no schema yet')
    if (table.snapshots.some((existing) => existing['snapshot-id'] === id)) {
      throw new BadUpdate(`add-snapshot: snapshot ${id} already exists`)
    }
    // A snapshot without a parent replaces the content, and two replacements may have the same number.
    if (snapshot['parent-snapshot-id'] !== undefined && sequence <= table['last-sequence-number']) {
      throw new BadUpdate(
        `add-snapshot: sequence number ${sequence} is not above ${table['last-sequence-number']}`,
      )
    }
    if (schema !== undefined && !this.schemaIds().includes(schema)) {
      throw new BadUpdate(`add-snapshot: schema ${schema} does not exist`)
    }
    this.reserveRowIds(snapshot)
    table.snapshots = [...table.snapshots, snapshot]
    table['last-sequence-number'] = Math.max(table['last-sequence-number'], sequence)
    this.addedSnapshots.add(id)
    limited('add-snapshot', table.snapshots.length, SNAPSHOTS_LIMIT)
  }

  /** Source: https://iceberg.apache.org/spec/#snapshot-row-ids */
  private reserveRowIds({ 'first-row-id': first, 'added-rows': rows }: Snapshot) {
    const { table } = this
    if (table['format-version'] < 3) {
      if (first !== undefined)
        throw new BadUpdate('add-snapshot: first-row-id is set, but the table has format version 2')
      return
    }
    const next = table['next-row-id'] ?? 0
    if (first === undefined || rows === undefined)
      throw new BadUpdate('add-snapshot: format version 3 requires first-row-id and added-rows')
    if (first < next)
      throw new BadUpdate(`add-snapshot: first-row-id ${first} is below the table's next-row-id ${next}`)
    if (!Number.isSafeInteger(first + rows))
      throw new BadUpdate(`add-snapshot: row ids above ${Number.MAX_SAFE_INTEGER} are not supported`)
    table['next-row-id'] = first + rows
  }

  private setRef({ action, 'ref-name': name, ...ref }: Extract<TableUpdate, { action: 'set-snapshot-ref' }>) {
    const { table } = this
    const id = ref['snapshot-id']
    if (!table.snapshots.some((snapshot) => snapshot['snapshot-id'] === id)) {
      throw new BadUpdate(`${action}: snapshot ${id} does not exist`)
    }
    if (name === MAIN && ref.type !== 'branch')
      throw new BadUpdate(`${action}: main is a branch, never a tag`)
    table.refs = { ...without(table.refs, (refName) => refName === name), [name]: ref }
    limited(action, Object.keys(table.refs).length, REFS_LIMIT)
    if (name !== MAIN || table['current-snapshot-id'] === id) return
    table['current-snapshot-id'] = id
    const entry = { 'timestamp-ms': this.at, 'snapshot-id': id }
    table['snapshot-log'] = [...table['snapshot-log'], entry].slice(-SNAPSHOT_LOG_LIMIT)
  }

  private removeRef(name: string) {
    const { table } = this
    table.refs = without(table.refs, (refName) => refName === name)
    if (name === MAIN) delete table['current-snapshot-id']
  }

  private removeSnapshots(ids: ReadonlySet<bigint>) {
    const { table } = this
    table.snapshots = table.snapshots.filter((snapshot) => !ids.has(snapshot['snapshot-id']))
    for (const [name, ref] of Object.entries<SnapshotRef>(table.refs)) {
      if (ids.has(ref['snapshot-id'])) this.removeRef(name)
    }
    // A removed snapshot would leave a gap in the history, so older entries are removed too (spec: snapshot-log).
    const lastRemoved = table['snapshot-log'].findLastIndex((entry) => ids.has(entry['snapshot-id']))
    table['snapshot-log'] = table['snapshot-log'].slice(lastRemoved + 1)
  }

  private checkSources() {
    const { table } = this
    const ids = new Set([...fieldsOf(currentSchema(table))].map(({ id }) => id))
    const sources = [
      ...defaultSpec(table).fields.filter((field) => field.transform !== 'void'),
      ...defaultSortOrder(table).fields,
    ]
    const missingField = sources.find((field) => !ids.has(field['source-id']))
    if (missingField)
      throw new BadUpdate(
        `the current schema has no field ${missingField['source-id']}, but the partition spec or the sort order uses it`,
      )
  }

  private dropUnusedSchemas() {
    const { table } = this
    const used = new Set(table.snapshots.map((snapshot) => snapshot['schema-id']))
    const isUsed = (schema: Schema) =>
      used.has(schema['schema-id']) || schema['schema-id'] === table['current-schema-id']
    const unused = table.schemas.filter((schema) => !isUsed(schema))
    const dropped = new Set(unused.slice(0, Math.max(0, unused.length - UNUSED_SCHEMAS_LIMIT)))
    if (dropped.size > 0) table.schemas = table.schemas.filter((schema) => !dropped.has(schema))
  }

  /** Removes snapshots that were current only within this commit: no reader has seen them. */
  private dropIntermediateLogEntries() {
    const { table } = this
    const current = table['current-snapshot-id']
    table['snapshot-log'] = table['snapshot-log'].filter(
      (entry) => entry['snapshot-id'] === current || !this.addedSnapshots.has(entry['snapshot-id']),
    )
  }
}

function withPreviousFile(next: TableMetadata, base: TableMetadata, file: string): TableMetadata {
  const entry = { 'timestamp-ms': base['last-updated-ms'], 'metadata-file': file }
  const wanted = Number(next.properties[METADATA_LOG_PROPERTY] ?? METADATA_LOG_LIMIT)
  const limit = wanted >= 1 ? Math.min(Math.floor(wanted), METADATA_LOG_LIMIT) : 1
  return { ...next, 'metadata-log': [...next['metadata-log'], entry].slice(-limit) }
}

function without<V>(
  record: Readonly<Record<string, V>>,
  isRemoved: (name: string) => boolean,
): Record<string, V> {
  return Object.fromEntries(Object.entries(record).filter(([name]) => !isRemoved(name)))
}
