// New states of views that engines store. Source: https://iceberg.apache.org/view-spec/

import { sameFields } from '../format/fields.ts'
import { CommitFailed } from '../format/requirements.ts'
import type { Schema } from '../format/types.ts'
import { BadUpdate, DIALECT } from '../format/wire.ts'
import type {
  CreateUserViewRequest,
  UnboundVersion,
  ViewCommitRequest,
  ViewUpdate,
} from '../format/wire-views.ts'
import { READS, VERSIONS_MAX, type ViewMetadata, type ViewVersion } from './view.ts'

/** Properties of a version's summary that only Sluice sets. */
const RESERVED = 'sluice.'

/** The metadata of a new view. Its text is not bound yet. */
export const createdView = (
  { schema, properties = {}, 'view-version': version }: CreateUserViewRequest,
  { uuid, location, at }: { uuid: string; location: string; at: number },
): ViewMetadata => ({
  'view-uuid': uuid,
  'format-version': 1,
  location,
  'current-version-id': 1,
  versions: [versionOf(version, { id: 1, schemaId: 0, at })],
  'version-log': [{ 'timestamp-ms': at, 'version-id': 1 }],
  schemas: [{ ...schema, 'schema-id': 0 }],
  properties,
})

/** @throws CommitFailed */
export function checkViewRequirements(
  metadata: ViewMetadata,
  { requirements }: Pick<ViewCommitRequest, 'requirements'>,
): void {
  for (const { uuid } of requirements)
    if (uuid.toLowerCase() !== metadata['view-uuid'].toLowerCase())
      throw new CommitFailed(`the view has the uuid ${metadata['view-uuid']}, not ${uuid}`)
}

/** The metadata after the updates. Their texts are not bound yet. @throws BadUpdate */
export function updatedView(before: ViewMetadata, updates: readonly ViewUpdate[], at: number): ViewMetadata {
  const change: Change = { next: before, lastSchema: null, lastVersion: null, versionIds: new Map(), at }
  for (const update of updates) apply(change, update)
  return trimmed(change.next)
}

interface Change {
  next: ViewMetadata
  /** Ids that this commit added last. */
  lastSchema: number | null
  lastVersion: number | null
  /** The ids of added versions, by the ids that the client sent. */
  versionIds: Map<number, number>
  at: number
}

function apply(change: Change, update: ViewUpdate): void {
  const { next } = change
  switch (update.action) {
    case 'assign-uuid':
      if (update.uuid.toLowerCase() !== next['view-uuid'].toLowerCase())
        throw new BadUpdate('assign-uuid: the uuid of a view cannot change')
      return
    case 'upgrade-format-version':
      if (update['format-version'] !== next['format-version'])
        throw new BadUpdate(`upgrade-format-version: views have format version ${next['format-version']}`)
      return
    case 'set-location':
      if (update.location.replace(/\/$/, '') !== next.location)
        throw new BadUpdate('set-location: the location of a view cannot change')
      return
    case 'set-properties':
      change.next = { ...next, properties: { ...next.properties, ...update.updates } }
      return
    case 'remove-properties':
      change.next = {
        ...next,
        properties: Object.fromEntries(
          Object.entries(next.properties ?? {}).filter(([name]) => !update.removals.includes(name)),
        ),
      }
      return
    case 'add-schema':
      addSchema(change, update.schema)
      return
    case 'add-view-version':
      addVersion(change, update['view-version'])
      return
    case 'set-current-view-version':
      setCurrent(change, update['view-version-id'])
      return
  }
}

function addSchema(change: Change, schema: Omit<Schema, 'schema-id'>): void {
  const { schemas } = change.next
  const same = schemas.find(({ fields }) => sameFields(fields, schema.fields))
  const id = same?.['schema-id'] ?? Math.max(...schemas.map((each) => each['schema-id'])) + 1
  if (same === undefined)
    change.next = { ...change.next, schemas: [...schemas, { ...schema, 'schema-id': id }] }
  change.lastSchema = id
}

function addVersion(change: Change, version: UnboundVersion): void {
  const { versions, schemas } = change.next
  const sent = version['schema-id'] ?? -1
  const schemaId = sent === -1 ? change.lastSchema : sent
  if (schemaId === null || !schemas.some((schema) => schema['schema-id'] === schemaId))
    throw new BadUpdate(`add-view-version: schema ${sent} does not exist`)
  const id = Math.max(...versions.map((each) => each['version-id'])) + 1
  change.next = {
    ...change.next,
    versions: [...versions, versionOf(version, { id, schemaId, at: change.at })],
  }
  change.lastVersion = id
  if (version['version-id'] !== undefined) change.versionIds.set(version['version-id'], id)
}

function setCurrent(change: Change, sent: number): void {
  const id = sent === -1 ? change.lastVersion : (change.versionIds.get(sent) ?? sent)
  if (id === null || !change.next.versions.some((version) => version['version-id'] === id))
    throw new BadUpdate(`set-current-view-version: version ${sent} does not exist`)
  const entry = { 'timestamp-ms': change.at, 'version-id': id }
  change.next = {
    ...change.next,
    'current-version-id': id,
    'version-log': [...change.next['version-log'], entry],
  }
}

function versionOf(
  {
    summary = {},
    representations,
    'default-catalog': catalog,
    'default-namespace': namespace,
  }: UnboundVersion,
  { id, schemaId, at }: { id: number; schemaId: number; at: number },
): ViewVersion {
  return {
    'version-id': id,
    'schema-id': schemaId,
    'timestamp-ms': at,
    summary: Object.fromEntries(Object.entries(summary).filter(([name]) => !name.startsWith(RESERVED))),
    representations,
    ...(catalog !== undefined && { 'default-catalog': catalog }),
    'default-namespace': namespace,
  }
}

/** The version with a text whose tables are known. Texts of other dialects stay as they are. */
export const boundVersion = (
  version: ViewVersion,
  { sql, reads }: { sql: string; reads: readonly string[] },
): ViewVersion => ({
  ...version,
  summary: { ...version.summary, [READS]: JSON.stringify(reads) },
  representations: version.representations.map((each) =>
    each.dialect.toLowerCase() === DIALECT ? { ...each, dialect: DIALECT, sql } : each,
  ),
})

/** Keeps the newest versions and the current one, and what they name. */
function trimmed(metadata: ViewMetadata): ViewMetadata {
  const current = metadata['current-version-id']
  const others = metadata.versions.filter((version) => version['version-id'] !== current)
  const kept = new Set(others.slice(-(VERSIONS_MAX - 1)).map((version) => version['version-id']))
  const versions = metadata.versions.filter(({ 'version-id': id }) => id === current || kept.has(id))
  const ids = new Set(versions.map((version) => version['version-id']))
  const used = new Set(versions.map((version) => version['schema-id']))
  return {
    ...metadata,
    versions,
    'version-log': metadata['version-log'].filter((entry) => ids.has(entry['version-id'])),
    schemas: metadata.schemas.filter((schema) => used.has(schema['schema-id'])),
  }
}
