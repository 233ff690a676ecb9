/** Views of the catalog. A run stores its view on its branch; everybody reads. See ADR 48. */
import { randomUUID } from 'node:crypto'
import type { Sql } from '../../drizzle/client.ts'
import { type TableName, tableKey } from '../../ground/names.ts'
import { tableLocation } from '../../lake/iceberg/format/location.ts'
import { CommitFailed } from '../../lake/iceberg/format/requirements.ts'
import { columnsOf } from '../../lake/iceberg/format/types.ts'
import { parseCreateView } from '../../lake/iceberg/format/wire.ts'
import {
  currentVersion,
  isSameView,
  nextView,
  parseViewMetadata,
  RUN_ID,
  serializeView,
  type ViewMetadata,
  viewSchema,
} from '../../lake/iceberg/views/view.ts'
import type { Clock } from '../core/clock.ts'
import type { NewId } from '../core/ids.ts'
import { MetadataFile, type MetadataFiles } from '../versions/metadata-files.ts'
import { commitToBranch } from '../versions/store/branches.ts'
import { type Content, tableIn } from '../versions/store/tables.ts'
import { noSuchNamespace, noSuchView } from './errors.ts'
import { tableNamed } from './namespaces.ts'
import { checkWritable, ownOf, visibilityFor } from './own-table.ts'
import type { Session } from './session.ts'

export type CatalogServiceDeps = {
  sql: Sql
  files: MetadataFiles
  lakeRoot: string
  clock: Clock
  newId: NewId
}

export type LoadedView = {
  location: string
  metadata: ViewMetadata
  /** The branch's commit that stored the view; null: the request changed nothing, or stored nothing. */
  commit: string | null
}

export function makeViews({ sql, files, lakeRoot, clock, newId }: CatalogServiceDeps) {
  /** Null: no view has this name. */
  async function found(session: Session, view: TableName): Promise<Content | null> {
    const content = await tableIn(sql, session.view, view, await visibilityFor(session, view))
    return content?.kind === 'view' ? content : null
  }

  const metadataOf = async ({ metadataLocation }: Content) =>
    parseViewMetadata((await files.read(metadataLocation)).text)

  return {
    async loadView(session: Session, view: TableName): Promise<LoadedView> {
      const content = await found(session, view)
      if (content === null) throw noSuchView(tableKey(view))
      return { location: content.metadataLocation, metadata: await metadataOf(content), commit: null }
    },

    /**
     * Stores the view of an attempt, in place of a view or table of the same name. A view that is stored already is not stored
     * again, so that an attempt may repeat the request.
     */
    async storeView(session: Session, namespace: readonly string[], body: string): Promise<LoadedView> {
      const request = parseCreateView(body)
      const view = tableNamed(namespace, request.name)
      if (view === null) throw noSuchNamespace(namespace)
      const own = ownOf(session)
      checkWritable(own, view)
      const content = await found(session, view)
      const before = content === null ? null : await metadataOf(content)
      if (content !== null && before !== null && isSameView(before, request)) {
        const isOwn = currentVersion(before).summary[RUN_ID] === own.claims.runId
        return {
          location: content.metadataLocation,
          metadata: before,
          commit: isOwn ? own.branch.head : null,
        }
      }
      // Like a table's location, the view's location uses the first digits of a random id.
      const uuid = randomUUID()
      const location = tableLocation(lakeRoot, view, uuid)
      const metadata = nextView(before, request, { uuid, location, at: clock.now().getTime() })
      const file = await files.write(
        metadata.location,
        content?.metadataLocation,
        new MetadataFile(serializeView(metadata)),
      )
      const commit = newId()
      const isCommitted = await commitToBranch(sql, {
        id: commit,
        branch: own.branch.name,
        head: own.branch.head,
        table: view,
        tableUuid: metadata['view-uuid'],
        snapshotId: null,
        message: `view ${tableKey(view)}`,
        content: {
          contentId: newId(),
          kind: 'view',
          metadataLocation: file,
          columns: columnsOf(viewSchema(metadata)),
          rowCount: 0,
          sizeBytes: 0,
        },
      })
      if (!isCommitted) throw new CommitFailed(`branch ${own.branch.name} is closed or has a newer commit`)
      return { location: file, metadata, commit }
    },
  }
}
