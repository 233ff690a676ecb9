// Requests of engines that store views. Source: Iceberg REST catalog OpenAPI, CreateViewRequest and CommitViewRequest.
import { type Static, Type } from '@sinclair/typebox'
import {
  BadUpdate,
  checked,
  checkSchema,
  IdOrLast,
  Name,
  Properties,
  parseBody,
  Schema,
  TableIdentifier,
  Uuid,
  update,
  VIEW_SQL_BYTES,
  ViewRepresentation,
  variant,
} from './wire.ts'

/** Texts of one version. Each is in another dialect. */
const REPRESENTATIONS_MAX = 16

/** A version as engines send it. The catalog assigns its id and its time. */
const UnboundVersion = Type.Object({
  'version-id': Type.Optional(IdOrLast),
  'schema-id': Type.Optional(IdOrLast),
  summary: Type.Optional(Properties),
  representations: Type.Array(ViewRepresentation, { minItems: 1, maxItems: REPRESENTATIONS_MAX }),
  'default-catalog': Type.Optional(Type.String()),
  'default-namespace': Type.Array(Type.String()),
})
export type UnboundVersion = Static<typeof UnboundVersion>

const CreateUserView = Type.Object({
  name: Name,
  location: Type.Optional(Type.String()),
  schema: Schema,
  'view-version': UnboundVersion,
  properties: Type.Optional(Properties),
})
export type CreateUserViewRequest = Static<typeof CreateUserView>

/** The body of a request of an engine that creates a view. @throws BadUpdate */
export function parseCreateUserView(text: string): CreateUserViewRequest {
  const body = checked(CreateUserView, parseBody(text), '')
  checkSchema(body.schema, '/schema')
  checkTexts(body['view-version'])
  return body
}

const UPDATES = {
  'assign-uuid': update('assign-uuid', { uuid: Uuid }),
  'upgrade-format-version': update('upgrade-format-version', { 'format-version': Type.Integer() }),
  'add-schema': update('add-schema', { schema: Schema }),
  'set-location': update('set-location', { location: Name }),
  'set-properties': update('set-properties', { updates: Properties }),
  'remove-properties': update('remove-properties', { removals: Type.Array(Type.String()) }),
  'add-view-version': update('add-view-version', { 'view-version': UnboundVersion }),
  'set-current-view-version': update('set-current-view-version', { 'view-version-id': IdOrLast }),
}
export type ViewUpdate = Static<(typeof UPDATES)[keyof typeof UPDATES]>

const REQUIREMENTS = {
  'assert-view-uuid': Type.Object({ type: Type.Literal('assert-view-uuid'), uuid: Uuid }),
}
type ViewRequirement = Static<(typeof REQUIREMENTS)[keyof typeof REQUIREMENTS]>

export interface ViewCommitRequest {
  readonly identifier?: Static<typeof TableIdentifier>
  readonly requirements: readonly ViewRequirement[]
  readonly updates: readonly ViewUpdate[]
}

/** The body of a commit to a view. @throws BadUpdate */
export function parseViewCommit(text: string): ViewCommitRequest {
  const { identifier, requirements, updates } = checked(
    Type.Object({
      identifier: Type.Optional(TableIdentifier),
      requirements: Type.Optional(Type.Array(Type.Object({ type: Type.String() }))),
      updates: Type.Array(Type.Object({ action: Type.String() })),
    }),
    parseBody(text),
    '',
  )
  return {
    ...(identifier && { identifier }),
    requirements: (requirements ?? []).map((item, i) =>
      checked(variant(REQUIREMENTS, item.type, 'requirement'), item, `/requirements/${i}`),
    ),
    updates: updates.map((item, i) => {
      const known = checked(variant(UPDATES, item.action, 'update'), item, `/updates/${i}`)
      if (known.action === 'add-schema') checkSchema(known.schema, `/updates/${i}/schema`)
      if (known.action === 'add-view-version') checkTexts(known['view-version'])
      return known
    }),
  }
}

/** A version has one text of each dialect. @throws BadUpdate */
function checkTexts({ representations }: UnboundVersion): void {
  const dialects = representations.map(({ dialect }) => dialect.toLowerCase())
  if (new Set(dialects).size < dialects.length)
    throw new BadUpdate(`representations: two have the same dialect, among ${dialects.join(', ')}`)
  for (const { sql } of representations)
    if (new TextEncoder().encode(sql).length > VIEW_SQL_BYTES)
      throw new BadUpdate(`the SQL of a view may have at most ${VIEW_SQL_BYTES} bytes`)
}
