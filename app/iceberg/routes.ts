// The routes of the Iceberg REST catalog: for attempts and readers with tokens under `/catalog`, for users under `/iceberg`.
// HEAD calls the handler of GET. Source: https://iceberg.apache.org/rest-catalog-spec/
import { Elysia } from 'elysia'
import { tableKey } from '../../ground/names.ts'
import { BRIEF } from '../../lake/iceberg/read/client.ts'
import type { Log } from '../core/log.ts'
import { clientHasVersion, entityTag } from '../http/conditions.ts'
import { exchangeOf } from '../http/exchange.ts'
import { VALID_HOURS } from '../http/idempotency.ts'
import type { NamespaceService } from '../namespaces/service.ts'
import { badRequest, errorResponse, noSuchTable, noSuchView } from './errors.ts'
import { namePageOf } from './name-pages.ts'
import { twoLevels } from './namespaces.ts'
import { bodyOf, levelsOf, namespaceFrom, tableIn, viewIn } from './requests.ts'
import { type SnapshotsShown, servedMetadata } from './served-metadata.ts'
import type { CatalogService, LoadedTable } from './service.ts'
import type { Sessions } from './session.ts'
import type { UserWrites } from './user-writes.ts'
import { DELEGATION, VENDED, type Vended, type Vending } from './vending.ts'
import { nameIn, prefixOf } from './warehouse.ts'
import {
  type AnswerTable,
  configOf,
  done,
  USER_WRITES,
  userWriteRoutes,
  viewAnswer,
  writeOf,
} from './write-routes.ts'

export interface IcebergParts {
  /** The path before `/v1`. */
  base: '/catalog' | '/iceberg'
  catalog: CatalogService
  sessions: Sessions
  namespaces: Pick<NamespaceService, 'propertiesOf'>
  /** The start of every location. */
  lakeRoot: string
  /** Writes to branches of users; null: the clients are attempts, which write to their own branch. */
  writes: UserWrites | null
  /** Null: the clients reach the files by other means. */
  vending: Vending | null
  log: Log
}

const ENDPOINTS = [
  'GET /v1/{prefix}/namespaces',
  'POST /v1/{prefix}/namespaces',
  'GET /v1/{prefix}/namespaces/{namespace}',
  'HEAD /v1/{prefix}/namespaces/{namespace}',
  'GET /v1/{prefix}/namespaces/{namespace}/tables',
  'POST /v1/{prefix}/namespaces/{namespace}/tables',
  'GET /v1/{prefix}/namespaces/{namespace}/tables/{table}',
  'HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}',
  'POST /v1/{prefix}/namespaces/{namespace}/tables/{table}',
  'POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics',
  'GET /v1/{prefix}/namespaces/{namespace}/views',
  'GET /v1/{prefix}/namespaces/{namespace}/views/{view}',
  'HEAD /v1/{prefix}/namespaces/{namespace}/views/{view}',
]
const STORE_VIEW = 'POST /v1/{prefix}/namespaces/{namespace}/views'
const CREDENTIALS = 'GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials'

export const icebergRoutes = (parts: IcebergParts) =>
  new Elysia({ prefix: `${parts.base}/v1`, detail: { hide: true } })
    .onError(({ error, request, path }) => errorResponse(error, parts.log, isCommit(request.method, path)))
    .use(configRoute(parts))
    .use(namespaceRoutes(parts))
    .use(tableRoutes(parts, answerTable(parts)))
    .use(credentialRoutes(parts))
    .use(viewRoutes(parts))
    .use(userWriteRoutes(parts.writes, answerTable(parts)))

/** A client must not clean up after a commit whose outcome is unknown. */
const isCommit = (method: string, path: string) =>
  method === 'POST' && /\/(transactions\/commit|namespaces\/[^/]+\/(tables|views)\/[^/]+)$/.test(path)

/** The first route that a client calls: it returns the prefix of the warehouse's routes. */
const configRoute = ({ sessions, lakeRoot, vending, writes }: IcebergParts) =>
  new Elysia().get('/config', async ({ request, query }) => {
    const warehouse = query.warehouse || prefixOf(null)
    await sessions.session(request, warehouse)
    return {
      // Spark asks for credentials only when a header of its catalog says so.
      defaults: { root: lakeRoot, ...(vending !== null && { [`header.${DELEGATION}`]: VENDED }) },
      overrides: { prefix: prefixOf(nameIn(warehouse)) },
      ...(writes !== null && { 'idempotency-key-lifetime': `PT${VALID_HOURS}H` }),
      endpoints: [
        ...ENDPOINTS,
        ...(vending === null ? [] : [CREDENTIALS]),
        ...(writes === null ? [STORE_VIEW] : USER_WRITES),
      ],
    }
  })

const namespaceRoutes = ({ sessions, catalog, namespaces, writes }: IcebergParts) =>
  new Elysia({ prefix: '/:prefix/namespaces' })
    .get('', async ({ request, params, query }) => {
      const session = await sessions.session(request, params.prefix)
      return catalog.namespaces(session, levelsOf(query.parent), namePageOf(query))
    })
    .post(
      '',
      async ({ request, params }) => {
        if (writes !== null) return writes.namespaces.create(await writeOf(request, params))
        const session = await sessions.session(request, params.prefix)
        return catalog.createNamespace(session, namespaceFrom(await bodyOf(request)))
      },
      { parse: 'none' },
    )
    .get('/:namespace', async ({ request, params }) => {
      const session = await sessions.session(request, params.prefix)
      const namespace = levelsOf(params.namespace)
      await catalog.checkNamespace(session, namespace)
      if (exchangeOf(request).isHead) return done()
      return { namespace, properties: await namespaces.propertiesOf(twoLevels(namespace)[0] ?? '') }
    })

const credentialRoutes = ({ sessions, catalog, vending }: IcebergParts) => {
  const routes = new Elysia({ prefix: '/:prefix/namespaces/:namespace/tables' })
  if (vending === null) return routes
  /** Engines that run longer than their credentials ask for new ones here. */
  return routes.get('/:table/credentials', async ({ request, params }) => {
    const session = await sessions.session(request, params.prefix)
    const table = tableIn(params)
    const vended = vending.issue(request, session, table, await catalog.load(session, table))
    return { 'storage-credentials': vended['storage-credentials'] }
  })
}

const answerTable =
  ({ base, sessions, vending }: IcebergParts): AnswerTable =>
  async ({ request, prefix }, { table, loaded }) => {
    if (!vending?.isWanted(request)) return tableResponse(loaded, shownTo(base))
    const session = await sessions.session(request, prefix)
    return tableResponse(loaded, shownTo(base), vending.issue(request, session, table, loaded))
  }

const tableRoutes = ({ base, sessions, catalog, vending, writes }: IcebergParts, answerMade: AnswerTable) =>
  new Elysia({ prefix: '/:prefix/namespaces/:namespace/tables' })
    .get('', async ({ request, params, query }) => {
      const session = await sessions.session(request, params.prefix)
      return catalog.tables(session, levelsOf(params.namespace), namePageOf(query), 'table')
    })
    .post(
      '',
      async ({ request, params }) => {
        const [levels, write] = [levelsOf(params.namespace), await writeOf(request, params)]
        if (writes !== null) return answerMade(write, await writes.create(write, levels))
        const session = await sessions.session(request, params.prefix)
        return tableResponse(await catalog.create(session, levels, write.body), shownTo(base))
      },
      { parse: 'none' },
    )
    .get('/:table', async ({ request, params, query }) => {
      const session = await sessions.session(request, params.prefix)
      const table = tableIn(params)
      if (exchangeOf(request).isHead) {
        if (!(await catalog.exists(session, table))) throw noSuchTable(tableKey(table))
        return done()
      }
      const loaded = await catalog.load(session, table)
      const shown = shownTo(base, query.snapshots)
      // Credentials expire, so an answer that holds them has no entity tag and is never replaced by 304.
      if (vending?.isWanted(request))
        return tableResponse(loaded, shown, vending.issue(request, session, table, loaded))
      const known = request.headers.get('if-none-match')
      if (known !== null && clientHasVersion({ 'if-none-match': known }, versionOf(loaded, shown)))
        return new Response(null, { status: 304, headers: { etag: entityTag(versionOf(loaded, shown)) } })
      return tableResponse(loaded, shown)
    })
    .post(
      '/:table',
      async ({ request, params }) => {
        if (writes !== null) {
          const write = await writeOf(request, params)
          return tableResponse(await writes.commit(write, tableIn(params)), shownTo(base))
        }
        const writer = await sessions.writer(request, params.prefix, () => tableIn(params))
        const committed = await catalog.commit(writer, tableIn(params), await bodyOf(request))
        const isBrief = request.headers.get('prefer') === BRIEF
        return isBrief ? briefResponse(committed) : tableResponse(committed, shownTo(base))
      },
      { parse: 'none' },
    )
    .post(
      '/:table/metrics',
      async ({ request, params }) => {
        const session = await sessions.session(request, params.prefix)
        const table = tableIn(params)
        if (!(await catalog.exists(session, table))) throw noSuchTable(tableKey(table))
        return done()
      },
      { parse: 'none' },
    )

const viewRoutes = ({ sessions, catalog, writes }: IcebergParts) =>
  new Elysia({ prefix: '/:prefix/namespaces/:namespace/views' })
    .get('', async ({ request, params, query }) => {
      const session = await sessions.session(request, params.prefix)
      return catalog.tables(session, levelsOf(params.namespace), namePageOf(query), 'view')
    })
    .post(
      '',
      async ({ request, params }) => {
        const levels = levelsOf(params.namespace)
        if (writes !== null)
          return viewAnswer(await writes.views.create(await writeOf(request, params), levels))
        const session = await sessions.session(request, params.prefix)
        return viewAnswer(await catalog.storeView(session, levels, await bodyOf(request)))
      },
      { parse: 'none' },
    )
    .get('/:view', async ({ request, params }) => {
      const session = await sessions.session(request, params.prefix)
      const view = viewIn(params)
      if (exchangeOf(request).isHead) {
        if (!(await catalog.exists(session, view, 'view'))) throw noSuchView(tableKey(view))
        return done()
      }
      return viewAnswer(await catalog.loadView(session, view))
    })

/** Null: the caller gets the metadata file unchanged. Only engines of users need the form of served-metadata.ts. */
function shownTo(base: IcebergParts['base'], snapshots = 'all'): SnapshotsShown | null {
  if (snapshots !== 'all' && snapshots !== 'refs') throw badRequest('snapshots: must be all or refs')
  return base === '/catalog' ? null : snapshots
}

/** The response for a client that computed the metadata itself. */
function briefResponse({ location, head }: LoadedTable): Response {
  const body = { 'metadata-location': location, config: configOf(head) }
  return Response.json(body, { headers: { 'preference-applied': BRIEF } })
}

/** The version in the entity tag. It names the form of the metadata, because a table is served in several forms. */
const versionOf = ({ location }: LoadedTable, shown: SnapshotsShown | null) =>
  `${location}-${shown ?? 'file'}`

/** Embeds the text of the metadata. A parsed file would lose its int64 ids. */
function tableResponse(loaded: LoadedTable, shown: SnapshotsShown | null, vended?: Vended): Response {
  const { location, metadata, head } = loaded
  const rest = JSON.stringify({ ...vended, config: { ...configOf(head), ...vended?.config } }).slice(1, -1)
  const start = location === undefined ? '' : `"metadata-location":${JSON.stringify(location)},`
  const text = shown === null ? metadata.text : servedMetadata(metadata.table, shown)
  return new Response(`{${start}${rest},"metadata":${text}}`, {
    headers: {
      'content-type': 'application/json',
      ...(location !== undefined && vended === undefined && { etag: entityTag(versionOf(loaded, shown)) }),
    },
  })
}
