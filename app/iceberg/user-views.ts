/** Views that engines create, replace and rename through Iceberg REST. Their text is bound first. See ADR 54. */
import { randomUUID } from 'node:crypto'
import { type TableName, tableKey } from '../../ground/names.ts'
import { tableLocation } from '../../lake/iceberg/format/location.ts'
import { columnsOf } from '../../lake/iceberg/format/types.ts'
import { parseRename } from '../../lake/iceberg/format/wire-catalog.ts'
import { parseCreateUserView, parseViewCommit } from '../../lake/iceberg/format/wire-views.ts'
import {
  parseViewMetadata,
  serializeView,
  type ViewMetadata,
  viewSchema,
} from '../../lake/iceberg/views/view.ts'
import { checkViewRequirements, createdView, updatedView } from '../../lake/iceberg/views/view-updates.ts'
import { MetadataFile } from '../versions/metadata-files.ts'
import { type CatalogTable, tableIn } from '../versions/store/tables.ts'
import { badRequest, noSuchView, tableExists } from './errors.ts'
import { makeNamespaces, tableNamed } from './namespaces.ts'
import { makeTableStates, type NewState, newNamed, type TableStateDeps } from './table-states.ts'
import type { UserWriting, WriteRequest } from './user-writing.ts'
import { makeViewBinding, type ViewBindingDeps } from './view-binding.ts'
import type { LoadedView } from './views.ts'

type UserViewDeps = TableStateDeps &
  ViewBindingDeps &
  Pick<UserWriting, 'writing' | 'requireWrite' | 'commitOnce'>

export function makeUserViews(deps: UserViewDeps) {
  const { sql, files, lakeRoot, clock, newId, writing, requireWrite, commitOnce } = deps
  const { checkNamespace } = makeNamespaces(deps)
  const { dropped } = makeTableStates(deps)
  const { bound } = makeViewBinding(deps)

  /** Writes the metadata file of a state. A failure before the commit leaves only an unreferenced file. */
  async function stored(
    view: TableName,
    base: CatalogTable | null,
    metadata: ViewMetadata,
    { operation, renamedFrom }: { operation: string; renamedFrom?: TableName },
  ): Promise<NewState> {
    const location = await files.write(
      metadata.location,
      base?.metadataLocation,
      new MetadataFile(serializeView(metadata)),
    )
    return {
      message: `${operation} view ${tableKey(view)}`,
      location,
      change: {
        table: view,
        base: base?.contentId ?? null,
        ...(renamedFrom && { renamedFrom }),
        state: {
          tableUuid: metadata['view-uuid'],
          snapshotId: null,
          change: { operation, rowsAdded: 0, rowsRemoved: 0 },
          content: {
            contentId: newId(),
            kind: 'view',
            metadataLocation: location,
            columns: columnsOf(viewSchema(metadata)),
            rowCount: 0,
            sizeBytes: 0,
          },
        },
      },
    }
  }

  const answered = async ({
    location,
    head,
  }: {
    location: string
    head: string | null
  }): Promise<LoadedView> => ({
    location,
    metadata: parseViewMetadata((await files.read(location)).text),
    commit: head,
  })

  return {
    async create(write: WriteRequest, levels: readonly string[]): Promise<LoadedView> {
      const wanted = parseCreateUserView(write.body)
      if (wanted.location !== undefined)
        throw badRequest('location: the catalog chooses the location of a view, so leave the field out')
      const view = newNamed(levels, wanted.name)
      const by = await writing(write)
      await checkNamespace(by.session, levels)
      await requireWrite(by, view)
      const done = await commitOnce(by, write.body, async () => {
        if ((await tableIn(sql, by.session.view, view)) !== null) throw tableExists(view)
        const uuid = randomUUID()
        const location = tableLocation(lakeRoot, view, uuid)
        const metadata = createdView(wanted, { uuid, location, at: clock.now().getTime() })
        return [await stored(view, null, await bound(by, view, metadata, null), { operation: 'create' })]
      })
      return answered(done)
    },

    async replace(write: WriteRequest, view: TableName): Promise<LoadedView> {
      const change = parseViewCommit(write.body)
      const named = change.identifier && tableNamed(change.identifier.namespace, change.identifier.name)
      if (change.identifier && (!named || tableKey(named) !== tableKey(view)))
        throw badRequest(`identifier: must name view ${tableKey(view)} as the path does`)
      const by = await writing(write)
      await requireWrite(by, view, noSuchView(tableKey(view)))
      const done = await commitOnce(by, write.body, async () => {
        const current = await tableIn(sql, by.session.view, view)
        if (current?.kind !== 'view') throw noSuchView(tableKey(view))
        const before = parseViewMetadata((await files.read(current.metadataLocation)).text)
        checkViewRequirements(before, change)
        const next = updatedView(before, change.updates, clock.now().getTime())
        return [await stored(view, current, await bound(by, view, next, before), { operation: 'alter' })]
      })
      return answered(done)
    },

    /** A view under another name. Its versions stay. */
    async rename(write: WriteRequest): Promise<void> {
      const { source, destination } = parseRename(write.body)
      const from = tableNamed(source.namespace, source.name)
      if (from === null) throw noSuchView([...source.namespace, source.name].join('.'))
      const to = newNamed(destination.namespace, destination.name)
      const by = await writing(write)
      await requireWrite(by, from, noSuchView(tableKey(from)))
      await checkNamespace(by.session, destination.namespace)
      await requireWrite(by, to)
      const { view: version } = by.session
      await commitOnce(by, write.body, async () => {
        const end = await dropped(version, from, 'view')
        if ((await tableIn(sql, version, to)) !== null) throw tableExists(to)
        const current = await tableIn(sql, version, from)
        if (current === null) throw noSuchView(tableKey(from))
        const metadata = parseViewMetadata((await files.read(current.metadataLocation)).text)
        const location = tableLocation(lakeRoot, to, metadata['view-uuid'])
        const state = await stored(
          to,
          null,
          { ...metadata, location },
          { operation: 'rename', renamedFrom: from },
        )
        return [{ ...state, message: `rename view ${tableKey(from)} to ${tableKey(to)}` }, end]
      })
    },
  }
}
