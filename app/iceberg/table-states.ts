/** Computes new states of tables for commits of users, and stores their metadata files. No state is visible yet. */
import { randomUUID } from 'node:crypto'
import { Value } from '@sinclair/typebox/value'
import type { Sql } from '../../drizzle/client.ts'
import { type TableName, tableKey } from '../../ground/names.ts'
import { contentChange } from '../../lake/iceberg/format/content-change.ts'
import { keyIn, LOCATION_PROPERTIES, rootIn, tableLocation } from '../../lake/iceberg/format/location.ts'
import { parseMetadata, type TableMetadata } from '../../lake/iceberg/format/metadata.ts'
import { checkRequirements } from '../../lake/iceberg/format/requirements.ts'
import { applyUpdates } from '../../lake/iceberg/format/updates.ts'
import type { CommitRequest, CreateTableRequest, TableUpdate } from '../../lake/iceberg/format/wire.ts'
import { newTable } from '../../lake/iceberg/write/new-table.ts'
import type { Clock } from '../core/clock.ts'
import type { NewId } from '../core/ids.ts'
import { PipelineName } from '../core/names.ts'
import type { ObjectStore } from '../objects/port.ts'
import { isTableDirectory } from '../versions/lake-keys.ts'
import { MetadataFile, type MetadataFiles } from '../versions/metadata-files.ts'
import { type Content, tableIn, tableOfUuid, type View } from '../versions/store/tables.ts'
import type { UserChange } from '../versions/store/user-commits.ts'
import { badRequest, forbidden, noSuchNamespace, noSuchTable, noSuchView, tableExists } from './errors.ts'
import { checkNewSnapshots } from './foreign-files.ts'
import { tableNamed } from './namespaces.ts'
import { checkNestedNames } from './nested-names.ts'
import { GC_REFUSED, withoutGarbageCollection } from './served-metadata.ts'
import { currentSnapshotId, figuresOf, messageOf } from './service.ts'

export interface TableStateDeps {
  sql: Sql
  objects: ObjectStore
  files: MetadataFiles
  lakeRoot: string
  clock: Clock
  newId: NewId
}

/** A new state of a table, or its end. */
export interface NewState {
  /** The message of a commit with this change alone. */
  message: string
  /** The stored metadata file; empty for a dropped table. */
  location: string
  change: UserChange
  /** Keys of the files that the state names for the first time. */
  files?: readonly string[]
  /** The commit happens only while main has this state of a table, or had it and keeps it. */
  keptState?: { table: TableName; file: string }
}

interface Base {
  contentId: string
  metadataLocation: string
  metadata: TableMetadata
}

export function makeTableStates({ sql, objects, files, lakeRoot, clock, newId }: TableStateDeps) {
  /**
   * Writes the metadata file of a state, unless the state has one. A failure before the commit leaves only an unreferenced file.
   */
  async function stored(
    table: TableName,
    base: Base | null,
    metadata: TableMetadata,
    file?: string,
  ): Promise<NewState> {
    const location =
      file ?? (await files.write(metadata.location, base?.metadataLocation, MetadataFile.of(metadata)))
    const state = {
      tableUuid: metadata['table-uuid'],
      snapshotId: currentSnapshotId(metadata),
      change: contentChange(base?.metadata ?? null, metadata),
      content: {
        contentId: newId(),
        kind: 'table' as const,
        metadataLocation: location,
        ...figuresOf(metadata),
      },
    }
    const change = { table, base: base?.contentId ?? null, state }
    return { message: messageOf(table, metadata), location, change }
  }

  function checkNewLocation(table: TableName, { location }: TableMetadata): void {
    checkNewName(table)
    if (rootIn(location) !== lakeRoot || !isTableDirectory(table, keyIn(location)))
      throw badRequest(`location: ${JSON.stringify(location)} is not a directory of ${tableKey(table)}`)
  }

  /**
   * Refuses the directory of another table, whose files the new table's credentials would read. The other table may have a new
   * name and a new owner. A repeated request finds a metadata file of its own first attempt.
   */
  async function checkOwnDirectory(view: View, { location, 'table-uuid': uuid }: TableMetadata) {
    const commits = await objects.list(`${keyIn(location)}/commits/`, { limit: 1 })
    const [first] = commits.objects
    if (first === undefined) return
    const text = (await objects.text(first.key))?.text
    const isOwn =
      text !== undefined &&
      parseMetadata(text)['table-uuid'] === uuid &&
      (await tableOfUuid(sql, view, uuid)) === null
    if (!isOwn) throw badRequest(`location: ${JSON.stringify(location)} is the directory of another table`)
  }

  return {
    stored,
    checkOwnDirectory,

    /** The metadata of a new table. Its directory is not checked yet. */
    created(table: TableName, wanted: CreateTableRequest): TableMetadata {
      const uuid = randomUUID()
      const metadata = newTable({
        uuid,
        location: wanted.location?.replace(/\/$/, '') ?? tableLocation(lakeRoot, table, uuid),
        schema: wanted.schema,
        partitionSpec: wanted['partition-spec'],
        sortOrder: wanted['write-order'],
        properties: withoutGarbageCollection(wanted.properties ?? {}),
        at: clock.now().getTime(),
      })
      checkNewLocation(table, metadata)
      checkPaths(metadata)
      return metadata
    },

    /** The end of a table or view of a branch. Its files stay, because main and other branches may read them. */
    async dropped(view: View, table: TableName, kind: Content['kind'] = 'table'): Promise<NewState> {
      const current = await tableIn(sql, view, table)
      if (current?.kind !== kind) throw noSuch[kind](tableKey(table))
      const change = { table, base: current.contentId, state: null }
      return { message: `drop ${tableKey(table)}`, location: '', change }
    },

    /** Applies a commit to a table of a branch. Throws 404 for a missing table, unless the commit creates the table. */
    async committed(view: View, table: TableName, request: CommitRequest): Promise<NewState> {
      const { requirements, updates } = request
      const current = await tableIn(sql, view, table)
      const isCreation = requirements.some(({ type }) => type === 'assert-create')
      if (current === null && !isCreation) throw noSuchTable(tableKey(table))
      if (current?.kind === 'view') throw isCreation ? tableExists(table) : noSuchTable(tableKey(table))
      const base = current && {
        ...current,
        metadata: (await files.read(current.metadataLocation)).table,
      }
      checkRequirements(base?.metadata ?? null, requirements)
      const next = applyUpdates(base?.metadata ?? null, updates.map(permitted), {
        // Clocks differ; the table's last update time must never go back.
        at: Math.max(clock.now().getTime(), base?.metadata['last-updated-ms'] ?? 0),
        previousFile: base?.metadataLocation,
      })
      if (base === null) {
        checkNewLocation(table, next)
        await checkOwnDirectory(view, next)
      } else if (next.location !== base.metadata.location)
        throw badRequest(`set-location: the location of ${tableKey(table)} cannot change`)
      checkPaths(next)
      if (base !== null) checkNestedNames(base.metadata, next)
      const named = await checkNewSnapshots({ sql, objects }, { base: base?.metadata ?? null, next })
      return { ...(await stored(table, base, next)), files: named }
    },
  }
}

const noSuch = { table: noSuchTable, view: noSuchView }

/** The name of a new table or view. Throws 404 for a namespace that has no tables. */
export function newNamed(levels: readonly string[], name: string): TableName {
  const table = tableNamed(levels, name)
  if (table === null) throw noSuchNamespace(levels)
  checkNewName(table)
  return table
}

/** Throws 400 for a name that no table of Sluice can have. */
function checkNewName({ name }: TableName): void {
  if (!Value.Check(PipelineName, name))
    throw badRequest(`name: ${JSON.stringify(name)} must have ${PipelineName.description}`)
}

/** Refuses updates that only Sluice may make. */
function permitted(update: TableUpdate): TableUpdate {
  switch (update.action) {
    case 'remove-snapshots':
      throw forbidden('remove-snapshots: only Sluice removes snapshots, because branches share their files')
    case 'remove-properties':
      if (update.removals.includes('gc.enabled')) throw forbidden(GC_REFUSED)
      return update
    case 'set-properties':
      return { ...update, updates: withoutGarbageCollection(update.updates) }
    default:
      return update
  }
}

/** Refuses properties with which engines write files outside of the table's directory. */
function checkPaths({ location, properties }: TableMetadata): void {
  for (const name of LOCATION_PROPERTIES) {
    const path = properties[name]
    if (path !== undefined && !`${path}/`.startsWith(`${location}/`))
      throw badRequest(`${name}: ${JSON.stringify(path)} is outside of the directory ${location}`)
  }
}
