import { Elysia } from 'elysia'
import type { Sql } from '../../drizzle/client.ts'
import { type CodeVisibility, seesAll } from '../access/code-visibility.ts'
import type { Clock } from '../core/clock.ts'
import type { NewId } from '../core/ids.ts'
import type { Log } from '../core/log.ts'
import type { NamespaceService } from '../namespaces/service.ts'
import type { ObjectStore } from '../objects/port.ts'
import { makeAccess } from './access.ts'
import { makeGateway } from './gateway.ts'
import { icebergRoutes } from './iceberg-routes.ts'
import type { MetadataFiles } from './metadata-files.ts'
import { objectRoutes } from './objects-routes.ts'
import { makeCatalogService } from './service.ts'
import { type RefuseArchiving, sluiceRoutes } from './sluice-routes.ts'
import type { Tokens } from './tokens.ts'
import { makeUserSessions } from './user-sessions.ts'
import { makeUserWrites } from './user-writes.ts'
import type { UserWritingDeps } from './user-writing.ts'
import type { Vending } from './vending.ts'
import type { ViewBindingDeps } from './view-binding.ts'
import { makeWorkEndpoint } from './work-endpoint.ts'

export type CatalogDeps = {
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
