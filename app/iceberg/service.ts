/** The catalog for Iceberg clients: tables of main, and of the one branch that a token names. See ADR 8. */
import { randomUUID } from 'node:crypto'
import { type TableName, tableKey } from '../../ground/names.ts'
import { contentChange } from '../../lake/iceberg/format/content-change.ts'
import { keyIn, rootIn, tableLocation } from '../../lake/iceberg/format/location.ts'
import { currentSchema, currentSnapshot, type TableMetadata } from '../../lake/iceberg/format/metadata.ts'
import { CommitFailed, checkRequirements } from '../../lake/iceberg/format/requirements.ts'
import { rowCountOf } from '../../lake/iceberg/format/row-count.ts'
import { columnsOf } from '../../lake/iceberg/format/types.ts'
import { applyUpdates } from '../../lake/iceberg/format/updates.ts'
import { parseCommitRequest, parseCreateTable, type TableUpdate } from '../../lake/iceberg/format/wire.ts'
import { newTable } from '../../lake/iceberg/write/new-table.ts'
import { isTableDirectory, isTableFile } from '../versions/lake-keys.ts'
import { MetadataFile } from '../versions/metadata-files.ts'
import { commitToBranch, findBranch } from '../versions/store/branches.ts'
import { type Content, tableIn } from '../versions/store/tables.ts'
import { badRequest, noSuchNamespace, noSuchTable, tableExists } from './errors.ts'
import { makeNamespaces, tableNamed } from './namespaces.ts'
import { checkWritable, type Own, ownOf, visibilityFor } from './own-table.ts'
import type { Session, Writer } from './session.ts'
import { type CatalogServiceDeps, makeViews } from './views.ts'

export type LoadedTable = {
  /** Undefined: the table is staged, and its first commit will create it. */
  location: string | undefined
  metadata: MetadataFile
  /** The branch's latest commit. A merge of this state must name this commit as tested. */
  head: string | null
}

export type CatalogService = ReturnType<typeof makeCatalogService>

export function makeCatalogService({ sql, files, lakeRoot, clock, newId }: CatalogServiceDeps) {
  async function load(session: Session, table: TableName): Promise<LoadedTable> {
    const { view } = session
    const found = await tableIn(sql, view, table, await visibilityFor(session, table))
    if (found?.kind !== 'table') throw noSuchTable(tableKey(table))
    // The head is read after the table. So a client that finds its own snapshot also gets the commit that created it.
    const branch = view.branch === null ? null : await findBranch(sql, view.branch)
    return {
      location: found.metadataLocation,
      metadata: await files.read(found.metadataLocation),
      head: branch?.head ?? null,
    }
  }

  async function create(session: Session, namespace: readonly string[], body: string): Promise<LoadedTable> {
    const request = parseCreateTable(body)
    const table = tableNamed(namespace, request.name)
    if (table === null) throw noSuchNamespace(namespace)
    const own = ownOf(session)
    checkWritable(own, table)
    if ((await tableIn(sql, session.view, table))?.kind === 'table') throw tableExists(table)
    // The table location uses the first digits of the id. Ids from `newId` start with a timestamp, so a random UUID is used.
    const uuid = randomUUID()
    const metadata = newTable({
      uuid,
      location: request.location ?? tableLocation(lakeRoot, table, uuid),
      schema: request.schema,
      partitionSpec: request['partition-spec'],
      sortOrder: request['write-order'],
      properties: request.properties,
      at: clock.now().getTime(),
    })
    checkDirectory(lakeRoot, table, metadata.location)
    if (request['stage-create'])
      return { location: undefined, metadata: MetadataFile.of(metadata), head: null }
    return store(own, table, metadata, null)
  }

  async function commit(writer: Writer, table: TableName, body: string): Promise<LoadedTable> {
    const { identifier, requirements, updates } = parseCommitRequest(body)
    const named = identifier && tableNamed(identifier.namespace, identifier.name)
    if (identifier && (!named || tableKey(named) !== tableKey(table)))
      throw badRequest(`identifier: must name table ${tableKey(table)} as the path does`)
    checkWritable(writer, table)
    const current = writer.metadataLocation
    if (current === null && !requirements.some((requirement) => requirement.type === 'assert-create'))
      throw noSuchTable(tableKey(table))
    const base = current === null ? null : (await files.read(current)).table
    checkRequirements(base, requirements)
    for (const update of updates) checkUpdateLocation(lakeRoot, table, update)
    const next = applyUpdates(base, updates, {
      at: clock.now().getTime(),
      previousFile: current ?? undefined,
    })
    return store(
      writer,
      table,
      next,
      current === null || base === null ? null : { location: current, metadata: base },
    )
  }

  /** Writes the metadata file before the catalog entry. A failure in between leaves only an unreferenced file. */
  async function store(
    { branch }: Own,
    table: TableName,
    metadata: TableMetadata,
    replaced: { location: string; metadata: TableMetadata } | null,
  ): Promise<LoadedTable> {
    const file = MetadataFile.of(metadata)
    const location = await files.write(metadata.location, replaced?.location, file)
    const id = newId()
    const contentId = newId()
    const isCommitted = await commitToBranch(sql, {
      id,
      branch: branch.name,
      head: branch.head,
      table,
      tableUuid: metadata['table-uuid'],
      snapshotId: currentSnapshotId(metadata),
      message: messageOf(table, metadata),
      change: contentChange(replaced?.metadata ?? null, metadata),
      content: { contentId, kind: 'table', metadataLocation: location, ...figuresOf(metadata) },
    })
    if (!isCommitted) throw new CommitFailed(`branch ${branch.name} is closed or has a newer commit`)
    return { location, metadata: file, head: id }
  }

  return {
    ...makeNamespaces({ sql }),
    ...makeViews({ sql, files, lakeRoot, clock, newId }),
    load,
    create,
    commit,

    exists: async (session: Session, table: TableName, kind: Content['kind'] = 'table') =>
      (await tableIn(sql, session.view, table, await visibilityFor(session, table)))?.kind === kind,
  }
}

/** The columns of the current state, and its totals as its writer stored them. */
export function figuresOf(metadata: TableMetadata) {
  const summary = currentSnapshot(metadata)?.summary
  return {
    columns: columnsOf(currentSchema(metadata)),
    rowCount: summary === undefined ? 0 : whole(rowCountOf(summary)),
    sizeBytes: whole(Number(summary?.['total-files-size'])),
  }
}

/** Another engine may have stored any text. */
const whole = (value: number) => (Number.isSafeInteger(value) && value >= 0 ? value : 0)

export function currentSnapshotId(metadata: TableMetadata): string | null {
  const snapshot = currentSnapshot(metadata)
  return snapshot ? String(snapshot['snapshot-id']) : null
}

/** The message of a commit that made this state. */
export const messageOf = (table: TableName, metadata: TableMetadata) =>
  `${currentSnapshot(metadata)?.summary.operation ?? 'create'} ${tableKey(table)}`

/** A commit may only name locations inside its own table's directory, even if its token reads more. */
function checkUpdateLocation(root: string, table: TableName, update: TableUpdate) {
  if (update.action === 'set-location') checkDirectory(root, table, update.location)
  if (update.action !== 'add-snapshot') return
  const list = update.snapshot['manifest-list']
  if (!isTableFile(table, keyIn(list)))
    throw badRequest(`manifest-list: ${JSON.stringify(list)} is not a file of ${tableKey(table)}`)
  checkRoot(root, list)
}

function checkDirectory(root: string, table: TableName, location: string) {
  if (!isTableDirectory(table, keyIn(location)))
    throw badRequest(`location: ${JSON.stringify(location)} is not a directory of ${tableKey(table)}`)
  checkRoot(root, location)
}

/** A commit that was computed before the lake got a new root fails, and is computed again. */
function checkRoot(root: string, location: string) {
  if (rootIn(location) !== root)
    throw new CommitFailed(`${JSON.stringify(location)} is outside the lake, whose root is ${root}`)
}
