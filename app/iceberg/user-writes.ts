/**
 * Writes of users through Iceberg REST, on open branches. A commit changes one or several tables in one transaction. It fails
 * if one of the tables changed since the engine read it. See ADR 49.
 */

import { type TableName, tableKey } from '../../ground/names.ts'
import { parseCommitRequest, parseCreateTable, parseTransaction } from '../../lake/iceberg/format/wire.ts'
import { parseRegister, parseRename } from '../../lake/iceberg/format/wire-catalog.ts'
import { exchangeOf } from '../http/exchange.ts'
import type { NamespaceService } from '../namespaces/service.ts'
import { MetadataFile } from '../versions/metadata-files.ts'
import { tableIn } from '../versions/store/tables.ts'
import { badRequest, noSuchTable, noSuchView, tableExists, unsupported } from './errors.ts'
import { makeNamespaces, tableNamed } from './namespaces.ts'
import type { LoadedTable } from './service.ts'
import { makeTableMoves } from './table-moves.ts'
import { makeTableStates, type NewState, newNamed, type TableStateDeps } from './table-states.ts'
import { makeUserNamespaces } from './user-namespaces.ts'
import { makeUserViews } from './user-views.ts'
import { makeUserWriting, type UserWritingDeps, type WriteRequest } from './user-writing.ts'
import type { ViewBindingDeps } from './view-binding.ts'

interface UserWriteDeps extends TableStateDeps, UserWritingDeps, ViewBindingDeps {
  namespaces: NamespaceService
}

export type UserWrites = ReturnType<typeof makeUserWrites>

export function makeUserWrites(deps: UserWriteDeps) {
  const { sql, files, resources } = deps
  const { checkNamespace } = makeNamespaces(deps)
  const states = makeTableStates(deps)
  const moves = makeTableMoves(deps)
  const { writing, requireWrite, commitOnce, changeOnce } = makeUserWriting(deps)

  return {
    namespaces: makeUserNamespaces({ ...deps, writing, changeOnce }),
    views: makeUserViews({ ...deps, writing, requireWrite, commitOnce }),

    /** Creates a table, or stages one: then nothing is stored, and the first commit creates the table. */
    async create(
      write: WriteRequest,
      levels: readonly string[],
    ): Promise<{ table: TableName; loaded: LoadedTable }> {
      const wanted = parseCreateTable(write.body)
      const table = newNamed(levels, wanted.name)
      const by = await writing(write)
      await checkNamespace(by.session, levels)
      await requireWrite(by, table)
      const metadata = states.created(table, wanted)
      const checkNew = async () => {
        if ((await tableIn(sql, by.session.view, table)) !== null) throw tableExists(table)
        if (wanted.location !== undefined) await states.checkOwnDirectory(by.session.view, metadata)
      }
      if (wanted['stage-create']) {
        await checkNew()
        return { table, loaded: { location: undefined, metadata: MetadataFile.of(metadata), head: null } }
      }
      const done = await commitOnce(by, write.body, async () => {
        await checkNew()
        return [await states.stored(table, null, metadata)]
      })
      return { table, loaded: { ...done, metadata: await files.read(done.location) } }
    },

    async commit(write: WriteRequest, table: TableName): Promise<LoadedTable> {
      const change = parseCommitRequest(write.body)
      const named = change.identifier && tableNamed(change.identifier.namespace, change.identifier.name)
      if (change.identifier && (!named || tableKey(named) !== tableKey(table)))
        throw badRequest(`identifier: must name table ${tableKey(table)} as the path does`)
      const by = await writing(write)
      await requireWrite(by, table, noSuchTable(tableKey(table)))
      const { view } = by.session
      const done = await commitOnce(by, write.body, async () => [await states.committed(view, table, change)])
      return { ...done, metadata: await files.read(done.location) }
    },

    async drop(write: WriteRequest, table: TableName): Promise<void> {
      const by = await writing(write)
      await requireWrite(by, table, noSuchTable(tableKey(table)))
      await commitOnce(by, write.body, async () => [await states.dropped(by.session.view, table)])
    },

    async dropView(write: WriteRequest, view: TableName): Promise<void> {
      const by = await writing(write)
      await requireWrite(by, view, noSuchView(tableKey(view)))
      await commitOnce(by, write.body, async () => [await states.dropped(by.session.view, view, 'view')])
    },

    async rename(write: WriteRequest): Promise<void> {
      const { source, destination } = parseRename(write.body)
      const from = tableNamed(source.namespace, source.name)
      if (from === null) throw noSuchTable([...source.namespace, source.name].join('.'))
      const to = newNamed(destination.namespace, destination.name)
      const by = await writing(write)
      await requireWrite(by, from, noSuchTable(tableKey(from)))
      await checkNamespace(by.session, destination.namespace)
      await requireWrite(by, to)
      await commitOnce(by, write.body, () => moves.renamed(by.session.view, from, to))
    },

    /** Makes a table of a metadata file of a table that was dropped. */
    async register(write: WriteRequest, levels: readonly string[]) {
      const { name, 'metadata-location': file, overwrite } = parseRegister(write.body)
      if (overwrite) throw unsupported('overwrite: a table that exists is changed by commits only')
      const table = newNamed(levels, name)
      const by = await writing(write)
      await checkNamespace(by.session, levels)
      await requireWrite(by, table)
      const { access } = exchangeOf(write.request)
      const mayRead = async (source: TableName) =>
        resources === undefined || access.isAdmin || access.may(await resources.table(source), 'read')
      const done = await commitOnce(by, write.body, async () => [
        await moves.registered(by.session.view, table, file, mayRead),
      ])
      return { table, loaded: { ...done, metadata: await files.read(done.location) } }
    },

    /** Commits to several tables at once. */
    async transact(write: WriteRequest): Promise<void> {
      const changes = parseTransaction(write.body).map((change) => {
        const { namespace, name } = change.identifier
        const table = tableNamed(namespace, name)
        if (table === null) throw noSuchTable([...namespace, name].join('.'))
        return { table, change }
      })
      if (new Set(changes.map(({ table }) => tableKey(table))).size < changes.length)
        throw badRequest('table-changes: a table is named twice')
      const by = await writing(write)
      for (const { table } of changes) await requireWrite(by, table, noSuchTable(tableKey(table)))
      await commitOnce(by, write.body, async () => {
        const next: NewState[] = []
        for (const { table, change } of changes)
          next.push(await states.committed(by.session.view, table, change))
        return next
      })
    },
  }
}
