// The routes of the Iceberg REST catalog that a run needs. A branch is the warehouse `sluice@<branch>`. Source:
// https://iceberg.apache.org/rest-catalog-spec/
import { Elysia } from 'elysia'
import { parseJson } from '../../lake/iceberg/format/json.ts'
import { BRIEF } from '../../lake/iceberg/read/client.ts'
import type { Log } from '../core/log.ts'
import { chunksOf } from '../objects/body.ts'
import type { Access } from './access.ts'
import { badRequest, errorResponse, noSuchNamespace, noSuchTable } from './errors.ts'
import { LAKE_ROOT } from './metadata-files.ts'
import { tableNamed } from './namespaces.ts'
import type { CatalogService, LoadedTable } from './service.ts'

/** A commit holds a schema and the summary of a snapshot. Its file list is in manifests, not in the body. */
const BODY_BYTES_MAX = 4 * 1_048_576
const LEVEL_SEPARATOR = '\x1f'
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
]

export const icebergRoutes = (catalog: CatalogService, access: Access, log: Log) =>
  new Elysia({ prefix: '/catalog/v1/:prefix/namespaces', detail: { hide: true } })
    .onError(({ error }) => errorResponse(error, log))

    .get('', async ({ request, params, query }) => {
      const session = await access.session(request, params.prefix)
      return { namespaces: await catalog.namespaces(session, levelsOf(query.parent)) }
    })
    .post(
      '',
      async ({ request, params }) => {
        const session = await access.session(request, params.prefix)
        const namespace = namespaceFrom(await bodyOf(request))
        // Namespaces are created in the Sluice API. Creating an existing namespace succeeds without a change.
        await catalog.checkNamespace(session, namespace)
        return { namespace, properties: {} }
      },
      { parse: 'none' },
    )
    .get('/:namespace', async ({ request, params }) => {
      const session = await access.session(request, params.prefix)
      const namespace = levelsOf(params.namespace)
      await catalog.checkNamespace(session, namespace)
      return { namespace, properties: {} }
    })
    .head('/:namespace', async ({ request, params }) => {
      const session = await access.session(request, params.prefix)
      await catalog.checkNamespace(session, levelsOf(params.namespace))
      return new Response(null, { status: 204 })
    })

    .get('/:namespace/tables', async ({ request, params }) => {
      const session = await access.session(request, params.prefix)
      const namespace = levelsOf(params.namespace)
      const tables = await catalog.tables(session, namespace)
      return { identifiers: tables.map(({ name }) => ({ namespace, name })) }
    })
    .post(
      '/:namespace/tables',
      async ({ request, params }) => {
        const session = await access.session(request, params.prefix)
        return tableResponse(await catalog.create(session, levelsOf(params.namespace), await bodyOf(request)))
      },
      { parse: 'none' },
    )
    .get('/:namespace/tables/:table', async ({ request, params }) =>
      tableResponse(await catalog.load(await access.session(request, params.prefix), tableOf(params))),
    )
    .head('/:namespace/tables/:table', async ({ request, params }) => {
      const session = await access.session(request, params.prefix)
      const isThere = await catalog.exists(session, tableOf(params))
      if (!isThere) throw noSuchTable(params.table)
      return new Response(null, { status: 204 })
    })
    .post(
      '/:namespace/tables/:table',
      async ({ request, params }) => {
        const writer = await access.writer(request, params.prefix, () => tableOf(params))
        const committed = await catalog.commit(writer, tableOf(params), await bodyOf(request))
        return request.headers.get('prefer') === BRIEF ? briefResponse(committed) : tableResponse(committed)
      },
      { parse: 'none' },
    )

/** The first route that a client calls: it returns the prefix of the warehouse's routes. */
export const configRoutes = (access: Access, log: Log) =>
  new Elysia({ prefix: '/catalog/v1', detail: { hide: true } })
    .onError(({ error }) => errorResponse(error, log))
    .get('/config', async ({ request, query }) => {
      access.claimsOf(request)
      const { warehouse } = query
      if (!warehouse) throw badRequest('warehouse: is needed')
      await access.session(request, warehouse)
      return {
        defaults: { root: LAKE_ROOT },
        overrides: { prefix: encodeURIComponent(warehouse) },
        endpoints: ENDPOINTS,
      }
    })

/** The response for a client that computed the metadata itself. */
function briefResponse({ location, head }: LoadedTable): Response {
  const body = { 'metadata-location': location, config: configOf(head) }
  return Response.json(body, { headers: { 'preference-applied': BRIEF } })
}

const configOf = (head: string | null) => (head === null ? {} : { 'x-sluice-commit': head })

/** Embeds the text of the metadata file unchanged. */
function tableResponse({ location, metadata, head }: LoadedTable): Response {
  const config = JSON.stringify(configOf(head))
  const start = location === undefined ? '' : `"metadata-location":${JSON.stringify(location)},`
  return new Response(`{${start}"config":${config},"metadata":${metadata}}`, {
    headers: { 'content-type': 'application/json' },
  })
}

const levelsOf = (text: string | undefined) => (text ? text.split(LEVEL_SEPARATOR) : [])

function tableOf({ namespace, table }: { namespace: string; table: string }) {
  const levels = levelsOf(namespace)
  if (levels.length !== 2) throw noSuchNamespace(levels)
  return tableNamed(levels, table)
}

function namespaceFrom(body: string): string[] {
  const namespace: unknown = Reflect.get(parsedObject(body), 'namespace')
  if (!Array.isArray(namespace) || !namespace.every((level) => typeof level === 'string'))
    throw badRequest('namespace: must be a list of names')
  return namespace
}

function parsedObject(text: string): object {
  try {
    const value = parseJson(text)
    if (typeof value === 'object' && value !== null) return value
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
  }
  throw badRequest('the body is not a JSON object')
}

/** Reads the body as text: `JSON.parse` would round its int64 ids. */
async function bodyOf(request: Request): Promise<string> {
  const chunks: Uint8Array[] = []
  if (request.body) for await (const chunk of chunksOf(request.body, BODY_BYTES_MAX)) chunks.push(chunk)
  return Buffer.concat(chunks).toString()
}
