import { Elysia } from 'elysia'
import type { Sql } from '../../drizzle/client.ts'
import { type CodeVisibility, seesAll } from '../access/code-visibility.ts'
import { makeAccess } from '../attempt-access/access.ts'
import { makeGateway } from '../attempt-access/gateway.ts'
import { objectRoutes } from '../attempt-access/objects-routes.ts'
import { type RefuseArchiving, sluiceRoutes } from '../attempt-access/sluice-routes.ts'
import type { Tokens } from '../attempt-access/tokens.ts'
import { makeWorkEndpoint } from '../attempt-access/work-endpoint.ts'
import type { Clock } from '../core/clock.ts'
import type { NewId } from '../core/ids.ts'
import type { Log } from '../core/log.ts'
import { icebergRoutes } from '../iceberg/routes.ts'
import { makeCatalogService } from '../iceberg/service.ts'
import { makeUserSessions } from '../iceberg/user-sessions.ts'
import { makeUserWrites } from '../iceberg/user-writes.ts'
import type { UserWritingDeps } from '../iceberg/user-writing.ts'
import type { Vending } from '../iceberg/vending.ts'
import type { ViewBindingDeps } from '../iceberg/view-binding.ts'
import type { NamespaceService } from '../namespaces/service.ts'
import type { ObjectStore } from '../objects/port.ts'
import type { MetadataFiles } from '../versions/metadata-files.ts'

type CatalogDeps = {
  sql: Sql
  objects: ObjectStore
  files: MetadataFiles
  tokens: Tokens
  /** The start of every location, see lake-root.ts. */
  lakeRoot: string
  /** Issues credentials for the files of a table to users; null: issues none. */
  vending: Vending | null
  /** Finds the owners of tables; undefined in the community edition. */
  resources?: UserWritingDeps['resources']
  /** Merges writes of users to main after their tests; null: main is read-only for users. */
  mergeToMain: UserWritingDeps['mergeToMain']
  /** Binds the views of engines; null: no query service. */
  columnsOfQuery: ViewBindingDeps['columnsOfQuery']
  namespaces: NamespaceService
  /** The default allows everything. */
  refuseArchiving?: RefuseArchiving
  /** Limits what code may read; the default allows everything. */
  codeVisibility?: CodeVisibility
  clock: Clock
  newId: NewId
  log: Log
}

/**
 * Routes for runners and query services with tokens: `/catalog` and `/lake/objects`. Routes for users with the credentials of the
 * API: `/iceberg`. All are mounted at the root.
 */
export function makeCatalog({
  codeVisibility = seesAll,
  refuseArchiving = async () => undefined,
  resources,
  ...rest
}: CatalogDeps) {
  const deps = { ...rest, codeVisibility, refuseArchiving }
  const { log, lakeRoot, vending, namespaces } = deps
  const access = makeAccess(deps)
  const catalog = makeCatalogService(deps)
  const sessions = makeUserSessions(deps)
  return {
    /** The address that answers a request of an engine with a token. */
    endpointOf: makeWorkEndpoint(deps),
    routes: new Elysia()
      .use(
        icebergRoutes({
          base: '/catalog',
          catalog,
          sessions: access.sessions,
          namespaces,
          writes: null,
          lakeRoot,
          vending: null,
          log,
        }),
      )
      .use(sluiceRoutes(deps, access)),
    objectRoutes: objectRoutes(makeGateway(deps), deps),
    userRoutes: icebergRoutes({
      base: '/iceberg',
      catalog,
      sessions,
      namespaces,
      writes: makeUserWrites({ ...deps, sessions, resources }),
      lakeRoot,
      vending,
      log,
    }),
  }
}
