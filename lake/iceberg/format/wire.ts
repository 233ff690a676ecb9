// Requests of Iceberg REST clients. One schema is both the check and the type. Source: Iceberg REST catalog OpenAPI. Unknown
// fields are accepted.

import { type Static, type TProperties, type TSchema, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { parseJson } from './json.ts'
import type { IcebergType, ListType, MapType, StructType, Schema as TableSchema } from './types.ts'

/** An update that is malformed or cannot be applied: 400 BadRequestException. */
export class BadUpdate extends Error {
  override readonly name = 'BadUpdate'
}

/** Deeper schemas are refused, so that no request can exhaust the stack. */
const SCHEMA_DEPTH_LIMIT = 64

const MAX_INT = 2 ** 31 - 1
const Int = Type.Integer({ minimum: 0, maximum: MAX_INT })
/** An id, or -1 for the item added last. */
export const IdOrLast = Type.Integer({ minimum: -1, maximum: MAX_INT })
const Long = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })
const SnapshotId = Type.BigInt({ minimum: 0n, maximum: 2n ** 63n - 1n })
export const Name = Type.String({ minLength: 1 })
export const Properties = Type.Record(Type.String(), Type.String())
export const Uuid = Type.String({ pattern: '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$' })

/** `checkStruct` checks the nested fields and types. The catalog numbers schemas, so clients may omit the id. */
export const Schema = Type.Unsafe<Omit<TableSchema, 'schema-id'>>(
  Type.Object({
    type: Type.Literal('struct'),
    'identifier-field-ids': Type.Optional(Type.Array(Int)),
    fields: Type.Array(Type.Unknown()),
  }),
)

const PartitionField = Type.Object({
  'source-id': Int,
  'field-id': Type.Optional(Int),
  name: Name,
  transform: Type.String({
    pattern: '^(identity|year|month|day|hour|void|(bucket|truncate)\\[[1-9][0-9]{0,8}\\])$',
  }),
})
/** A spec as clients send it. The catalog assigns the id of the spec and missing ids of fields. */
const UnboundSpec = Type.Object({ fields: Type.Array(PartitionField) })
export type UnboundSpec = Static<typeof UnboundSpec>

const SortField = Type.Object({
  transform: Type.String(),
  'source-id': Int,
  direction: Type.Union([Type.Literal('asc'), Type.Literal('desc')]),
  'null-order': Type.Union([Type.Literal('nulls-first'), Type.Literal('nulls-last')]),
})
const SortOrder = Type.Object({ 'order-id': Int, fields: Type.Array(SortField) })
export type SortOrder = Static<typeof SortOrder>

const Snapshot = Type.Object({
  'snapshot-id': SnapshotId,
  'parent-snapshot-id': Type.Optional(SnapshotId),
  'sequence-number': Long,
  'timestamp-ms': Long,
  'manifest-list': Name,
  summary: Type.Intersect([
    Type.Object({
      operation: Type.Union([
        Type.Literal('append'),
        Type.Literal('replace'),
        Type.Literal('overwrite'),
        Type.Literal('delete'),
      ]),
    }),
    Properties,
  ]),
  'schema-id': Type.Optional(Int),
  'first-row-id': Type.Optional(Long),
  'added-rows': Type.Optional(Long),
})
export type Snapshot = Static<typeof Snapshot>

const refFields = {
  type: Type.Union([Type.Literal('branch'), Type.Literal('tag')]),
  'snapshot-id': SnapshotId,
  'min-snapshots-to-keep': Type.Optional(Int),
  'max-snapshot-age-ms': Type.Optional(Long),
  'max-ref-age-ms': Type.Optional(Long),
}
const SnapshotRef = Type.Object(refFields)
export type SnapshotRef = Static<typeof SnapshotRef>

const requirement = <Name extends string, Fields extends TProperties>(type: Name, fields: Fields) =>
  Type.Object({ type: Type.Literal(type), ...fields })

const REQUIREMENTS = {
  'assert-create': requirement('assert-create', {}),
  'assert-table-uuid': requirement('assert-table-uuid', { uuid: Uuid }),
  'assert-ref-snapshot-id': requirement('assert-ref-snapshot-id', {
    ref: Name,
    'snapshot-id': Type.Union([SnapshotId, Type.Null()]),
  }),
  'assert-last-assigned-field-id': requirement('assert-last-assigned-field-id', {
    'last-assigned-field-id': Int,
  }),
  'assert-current-schema-id': requirement('assert-current-schema-id', { 'current-schema-id': Int }),
  'assert-last-assigned-partition-id': requirement('assert-last-assigned-partition-id', {
    'last-assigned-partition-id': Int,
  }),
  'assert-default-spec-id': requirement('assert-default-spec-id', { 'default-spec-id': Int }),
  'assert-default-sort-order-id': requirement('assert-default-sort-order-id', {
    'default-sort-order-id': Int,
  }),
}
export type TableRequirement = Static<(typeof REQUIREMENTS)[keyof typeof REQUIREMENTS]>

export const update = <Name extends string, Fields extends TProperties>(action: Name, fields: Fields) =>
  Type.Object({ action: Type.Literal(action), ...fields })

const UPDATES = {
  'assign-uuid': update('assign-uuid', { uuid: Uuid }),
  'upgrade-format-version': update('upgrade-format-version', { 'format-version': Type.Integer() }),
  'add-schema': update('add-schema', { schema: Schema }),
  'set-current-schema': update('set-current-schema', { 'schema-id': IdOrLast }),
  'add-spec': update('add-spec', { spec: UnboundSpec }),
  'set-default-spec': update('set-default-spec', { 'spec-id': IdOrLast }),
  'add-sort-order': update('add-sort-order', { 'sort-order': SortOrder }),
  'set-default-sort-order': update('set-default-sort-order', { 'sort-order-id': IdOrLast }),
  'add-snapshot': update('add-snapshot', { snapshot: Snapshot }),
  'set-snapshot-ref': update('set-snapshot-ref', { 'ref-name': Name, ...refFields }),
  'remove-snapshots': update('remove-snapshots', { 'snapshot-ids': Type.Array(SnapshotId) }),
  'remove-snapshot-ref': update('remove-snapshot-ref', { 'ref-name': Name }),
  'set-location': update('set-location', { location: Name }),
  'set-properties': update('set-properties', { updates: Properties }),
  'remove-properties': update('remove-properties', { removals: Type.Array(Type.String()) }),
}
export type TableUpdate = Static<(typeof UPDATES)[keyof typeof UPDATES]>

export const TableIdentifier = Type.Object({ namespace: Type.Array(Type.String()), name: Type.String() })

export interface CommitRequest {
  readonly identifier?: Static<typeof TableIdentifier>
  readonly requirements: readonly TableRequirement[]
  readonly updates: readonly TableUpdate[]
}

const CreateTable = Type.Object({
  name: Name,
  location: Type.Optional(Type.String()),
  schema: Schema,
  'partition-spec': Type.Optional(UnboundSpec),
  'write-order': Type.Optional(SortOrder),
  'stage-create': Type.Optional(Type.Boolean()),
  properties: Type.Optional(Properties),
})
export type CreateTableRequest = Static<typeof CreateTable>

export const ViewRepresentation = Type.Object({ type: Type.Literal('sql'), sql: Name, dialect: Name })
/** The body of a request that stores a view. The catalog assigns the ids of the version and of the schema. */
const CreateView = Type.Object({
  name: Name,
  schema: Schema,
  'view-version': Type.Object({
    summary: Properties,
    representations: Type.Array(ViewRepresentation, { minItems: 1, maxItems: 1 }),
    'default-namespace': Type.Array(Type.String()),
  }),
})
export type CreateViewRequest = Static<typeof CreateView>

/** The dialect of every view of a run. */
export const DIALECT = 'duckdb'
/** The longest SQL of a view. Queries have the same limit. */
export const VIEW_SQL_BYTES = 102_400

/** The body of a commit to one table. @throws BadUpdate */
export const parseCommitRequest = (text: string): CommitRequest => commitRequestFrom(parseBody(text), '')

/** A change of a transaction names its table. */
type TableChange = CommitRequest & Required<Pick<CommitRequest, 'identifier'>>

/** The number of tables that one transaction changes. */
const TRANSACTION_TABLES_LIMIT = 100

/** The body of a commit to several tables. @throws BadUpdate */
export function parseTransaction(text: string): TableChange[] {
  const changes = checked(
    Type.Object({
      'table-changes': Type.Array(Type.Unknown(), { minItems: 1, maxItems: TRANSACTION_TABLES_LIMIT }),
    }),
    parseBody(text),
    '',
  )['table-changes']
  return changes.map((change, i) => {
    const path = `/table-changes/${i}`
    const { identifier } = checked(Type.Object({ identifier: TableIdentifier }), change, path)
    return { ...commitRequestFrom(change, path), identifier }
  })
}

function commitRequestFrom(body: unknown, path: string): CommitRequest {
  const { identifier, requirements, updates } = checked(
    Type.Object({
      identifier: Type.Optional(TableIdentifier),
      requirements: Type.Array(Type.Object({ type: Type.String() })),
      updates: Type.Array(Type.Object({ action: Type.String() })),
    }),
    body,
    path,
  )
  return {
    ...(identifier && { identifier }),
    requirements: requirements.map((item, i) =>
      checked(variant(REQUIREMENTS, item.type, 'requirement'), item, `${path}/requirements/${i}`),
    ),
    updates: updates.map((item, i) => checkedUpdate(item, `${path}/updates/${i}`)),
  }
}

/** The body of a request to create a table. @throws BadUpdate */
export function parseCreateTable(text: string): CreateTableRequest {
  const body = checked(CreateTable, parseBody(text), '')
  checkStruct(body.schema, '/schema', 0)
  return body
}

/** The body of a request that stores a view. @throws BadUpdate */
export function parseCreateView(text: string): CreateViewRequest {
  const body = checked(CreateView, parseBody(text), '')
  checkStruct(body.schema, '/schema', 0)
  for (const { dialect, sql } of body['view-version'].representations) {
    if (dialect !== DIALECT) throw new BadUpdate(`dialect ${dialect} is not supported: use ${DIALECT}`)
    if (new TextEncoder().encode(sql).length > VIEW_SQL_BYTES)
      throw new BadUpdate(`the SQL of a view may have at most ${VIEW_SQL_BYTES} bytes`)
  }
  return body
}

/** The JSON value of a body. @throws BadUpdate */
export function parseBody(text: string): unknown {
  try {
    return withoutNulls(parseJson(text))
  } catch (cause) {
    // A RangeError means that the JSON is nested too deeply for the stack.
    if (cause instanceof SyntaxError || cause instanceof RangeError) {
      throw new BadUpdate(`the body is not JSON: ${cause.message}`, { cause })
    }
    throw cause
  }
}

/** Some clients send `null` for an unused optional field. Only a null snapshot id has a meaning. */
function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls)
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).filter(([name, member]) => member !== null || name === 'snapshot-id')
  return Object.fromEntries(entries.map(([name, member]) => [name, withoutNulls(member)]))
}

function checkedUpdate(item: { action: string }, path: string): TableUpdate {
  const update = checked(variant(UPDATES, item.action, 'update'), item, path)
  if (update.action === 'add-schema') checkStruct(update.schema, `${path}/schema`, 0)
  return update
}

export function variant<V extends Record<string, TSchema>>(
  variants: V,
  name: string,
  kind: string,
): V[keyof V] {
  const schema = Object.hasOwn(variants, name) ? variants[name as keyof V] : undefined
  if (!schema) throw new BadUpdate(`${kind} ${JSON.stringify(name)} is not supported`)
  return schema
}

/** The value, if the schema accepts it. @throws BadUpdate */
export function checked<S extends TSchema>(schema: S, value: unknown, path: string): Static<S> {
  if (Value.Check(schema, value)) return value
  const error = Value.Errors(schema, value).First()
  const location = `${path}${error?.path ?? ''}` || 'the body'
  throw new BadUpdate(`${location}: ${error?.message ?? 'not valid'}`)
}

/** `default-values.ts` compares the value with the type of the column. */
const DefaultValue = Type.Union([Type.Boolean(), Type.Number(), Type.BigInt(), Type.String()])

const Field = Type.Object({
  id: Int,
  name: Name,
  required: Type.Boolean(),
  type: Type.Unknown(),
  doc: Type.Optional(Type.String()),
  'initial-default': Type.Optional(DefaultValue),
  'write-default': Type.Optional(DefaultValue),
})
const List = Type.Object({
  type: Type.Literal('list'),
  'element-id': Int,
  'element-required': Type.Boolean(),
  element: Type.Unknown(),
})
const MapOf = Type.Object({
  type: Type.Literal('map'),
  'key-id': Int,
  key: Type.Unknown(),
  'value-id': Int,
  'value-required': Type.Boolean(),
  value: Type.Unknown(),
})

const PRIMITIVE =
  /^(boolean|int|long|float|double|date|time|timestamp|timestamptz|string|uuid|binary|fixed\[\d{1,9}\]|decimal\(\s*([1-9]|[12]\d|3[0-8])\s*,\s*(\d|[12]\d|3[0-8])\s*\))$/

/** Checks the fields of a schema. @throws BadUpdate */
export const checkSchema = (schema: StructType, path: string) => checkStruct(schema, path, 0)

function checkStruct(struct: StructType, path: string, depth: number, parent = '') {
  struct.fields.forEach((field, i) => {
    const { name } = checked(Field, field, `${path}/fields/${i}`)
    checkType(field.type, `${path}/fields/${i}/type`, depth + 1, `${parent}${name}`)
  })
}

function checkType(type: IcebergType, path: string, depth: number, column: string) {
  if (depth > SCHEMA_DEPTH_LIMIT)
    throw new BadUpdate(`${path}: nested deeper than ${SCHEMA_DEPTH_LIMIT} levels`)
  if (typeof type === 'string') {
    if (!PRIMITIVE.test(type))
      throw new BadUpdate(
        `${path}: the type ${JSON.stringify(type)} of column ${JSON.stringify(column)} is not supported`,
      )
    return
  }
  const { type: kind } = checked(Type.Object({ type: Type.String() }), type, path)
  if (kind === 'struct') {
    checked(Type.Object({ fields: Type.Array(Type.Unknown()) }), type, path)
    checkStruct(type as StructType, path, depth, `${column}.`)
  } else if (kind === 'list') {
    checked(List, type, path)
    checkType((type as ListType).element, `${path}/element`, depth + 1, `${column}.element`)
  } else if (kind === 'map') {
    checked(MapOf, type, path)
    checkType((type as MapType).key, `${path}/key`, depth + 1, `${column}.key`)
    checkType((type as MapType).value, `${path}/value`, depth + 1, `${column}.value`)
  } else {
    throw new BadUpdate(`${path}/type: ${JSON.stringify(kind)} is not a type`)
  }
}
