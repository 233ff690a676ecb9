// The metadata of one view in format version 1. The object in memory has the same structure as the file. Source:
// https://iceberg.apache.org/view-spec/
import { type Static, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { sameFields } from '../format/fields.ts'
import { parseJson, stringifyJson } from '../format/json.ts'
import type { Schema } from '../format/types.ts'
import { type CreateViewRequest, DIALECT, Properties, ViewRepresentation } from '../format/wire.ts'

const SchemaObject = Type.Unsafe<Schema>(
  Type.Object({
    type: Type.Literal('struct'),
    'schema-id': Type.Integer({ minimum: 0 }),
    fields: Type.Array(Type.Unknown()),
  }),
)
const Version = Type.Object({
  'version-id': Type.Integer({ minimum: 1 }),
  'schema-id': Type.Integer({ minimum: 0 }),
  'timestamp-ms': Type.Integer({ minimum: 0 }),
  summary: Properties,
  representations: Type.Array(ViewRepresentation, { minItems: 1 }),
  'default-namespace': Type.Array(Type.String()),
})
export type ViewVersion = Static<typeof Version>

const ViewMetadata = Type.Object({
  'view-uuid': Type.String(),
  'format-version': Type.Literal(1),
  location: Type.String(),
  'current-version-id': Type.Integer({ minimum: 1 }),
  versions: Type.Array(Version, { minItems: 1 }),
  'version-log': Type.Array(Type.Object({ 'timestamp-ms': Type.Integer(), 'version-id': Type.Integer() })),
  schemas: Type.Array(SchemaObject, { minItems: 1 }),
  properties: Type.Optional(Properties),
})
export type ViewMetadata = Static<typeof ViewMetadata>

/** Versions and schemas that the metadata of a view lists. */
export const VERSIONS_MAX = 10

/** The name of the run that stored a version, in its summary. */
export const RUN_ID = 'sluice.run-id'
/** The tables and views that a version reads, in its summary: a JSON list of `namespace.layer.name`. */
export const READS = 'sluice.reads'

/** @throws SyntaxError for text that is not view metadata */
export function parseViewMetadata(text: string): ViewMetadata {
  return viewMetadataFrom(parseJson(text))
}

/** Reads view metadata from parsed JSON, such as the answer of a REST catalog. @throws SyntaxError */
export function viewMetadataFrom(value: unknown): ViewMetadata {
  if (Value.Check(ViewMetadata, value)) return value
  const { path = '', message = '' } = Value.Errors(ViewMetadata, value).First() ?? {}
  throw new SyntaxError(`not Iceberg view metadata: ${path} ${message}`)
}

export const serializeView = (metadata: ViewMetadata): string => stringifyJson(metadata)

/** The version that readers see. @throws SyntaxError when the metadata contradicts itself */
export function currentVersion(metadata: ViewMetadata): ViewVersion {
  const id = metadata['current-version-id']
  const version = metadata.versions.find((candidate) => candidate['version-id'] === id)
  if (version === undefined) throw new SyntaxError(`view metadata has no version ${id}`)
  return version
}

/** The columns of the current version. @throws SyntaxError when the metadata contradicts itself */
export function viewSchema(metadata: ViewMetadata): Schema {
  const id = currentVersion(metadata)['schema-id']
  const schema = metadata.schemas.find((candidate) => candidate['schema-id'] === id)
  if (schema === undefined) throw new SyntaxError(`view metadata has no schema ${id}`)
  return schema
}

/** The SQL of the current version. Tables are written as `"namespace"."layer"."name"`. */
export function viewSql(metadata: ViewMetadata): string {
  const found = currentVersion(metadata).representations.find(({ dialect }) => dialect === DIALECT)
  if (found === undefined) throw new SyntaxError(`view metadata has no SQL of the dialect ${DIALECT}`)
  return found.sql
}

/** The keys of the tables and views that the current version reads. */
export function viewReads(metadata: ViewMetadata): string[] {
  const list = parseJson(currentVersion(metadata).summary[READS] ?? '[]')
  return Array.isArray(list) ? list.filter((key): key is string => typeof key === 'string') : []
}

export interface StoredView {
  sql: string
  schema: Schema
  reads: readonly string[]
  runId: string
}

/** The body that stores a view in a catalog. */
export const createViewBody = (
  { namespace, name }: { namespace: readonly string[]; name: string },
  { sql, schema, reads, runId }: StoredView,
): CreateViewRequest => ({
  name,
  schema,
  'view-version': {
    summary: { [RUN_ID]: runId, [READS]: JSON.stringify(reads) },
    representations: [{ type: 'sql', sql, dialect: DIALECT }],
    'default-namespace': [...namespace],
  },
})

/** Whether the current version has the SQL and the columns of the request. */
export function isSameView(metadata: ViewMetadata, { schema, 'view-version': version }: CreateViewRequest) {
  const [representation] = version.representations
  return representation?.sql === viewSql(metadata) && sameFields(viewSchema(metadata).fields, schema.fields)
}

/** The metadata of a view after a request has stored its next version. `before` null: the view is new. */
export function nextView(
  before: ViewMetadata | null,
  { schema, 'view-version': version }: CreateViewRequest,
  { uuid, location, at }: { uuid: string; location: string; at: number },
): ViewMetadata {
  const last = (ids: readonly number[], none: number) => ids.reduce((a, b) => Math.max(a, b), none)
  const versionId = last(before?.versions.map((each) => each['version-id']) ?? [], 0) + 1
  const same = before?.schemas.find((each) => sameFields(each.fields, schema.fields))
  const schemaId = same?.['schema-id'] ?? last(before?.schemas.map((each) => each['schema-id']) ?? [], -1) + 1
  const versions = [
    ...(before?.versions ?? []),
    { ...version, 'version-id': versionId, 'schema-id': schemaId, 'timestamp-ms': at },
  ].slice(-VERSIONS_MAX)
  const listed = new Set(versions.map((each) => each['version-id']))
  const used = new Set(versions.map((each) => each['schema-id']))
  const schemas = [...(before?.schemas ?? []), ...(same ? [] : [{ ...schema, 'schema-id': schemaId }])]
  return {
    'view-uuid': before?.['view-uuid'] ?? uuid,
    'format-version': 1,
    location: before?.location ?? location,
    'current-version-id': versionId,
    versions,
    'version-log': [
      ...(before?.['version-log'] ?? []),
      { 'timestamp-ms': at, 'version-id': versionId },
    ].filter((entry) => listed.has(entry['version-id'])),
    schemas: schemas.filter((each) => used.has(each['schema-id'])),
    properties: before?.properties ?? {},
  }
}
