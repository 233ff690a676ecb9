// Routes of the Iceberg REST catalog for writes that only users make. Source: https://iceberg.apache.org/rest-catalog-spec/
import { Elysia } from 'elysia'
import type { TableName } from '../../ground/names.ts'
import { bodyOf, levelsOf, tableIn, viewIn } from './requests.ts'
import type { LoadedTable } from './service.ts'
import type { UserWrites } from './user-writes.ts'
import type { WriteRequest } from './user-writing.ts'
import type { LoadedView } from './views.ts'

/** The endpoints of these routes, as `/config` lists them. */
export const USER_WRITES = [
  'DELETE /v1/{prefix}/namespaces/{namespace}',
  'POST /v1/{prefix}/namespaces/{namespace}/properties',
  'DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}',
  'POST /v1/{prefix}/namespaces/{namespace}/views',
  'POST /v1/{prefix}/namespaces/{namespace}/views/{view}',
  'DELETE /v1/{prefix}/namespaces/{namespace}/views/{view}',
  'POST /v1/{prefix}/views/rename',
  'POST /v1/{prefix}/tables/rename',
  'POST /v1/{prefix}/namespaces/{namespace}/register',
  'POST /v1/{prefix}/transactions/commit',
]

/** The answer with a table that a write made, with credentials if the client wants them. */
export type AnswerTable = (
  write: WriteRequest,
  made: { table: TableName; loaded: LoadedTable },
) => Promise<Response>

export const userWriteRoutes = (writes: UserWrites | null, answerTable: AnswerTable) => {
  const routes = new Elysia({ prefix: '/:prefix' })
  if (writes === null) return routes
  return (
    routes
      .delete('/namespaces/:namespace', async ({ request, params }) => {
        await writes.namespaces.drop(await writeOf(request, params), levelsOf(params.namespace))
        return done()
      })
      .post(
        '/namespaces/:namespace/properties',
        async ({ request, params }) =>
          writes.namespaces.changeProperties(await writeOf(request, params), levelsOf(params.namespace)),
        { parse: 'none' },
      )
      .post(
        '/tables/rename',
        async ({ request, params }) => {
          await writes.rename(await writeOf(request, params))
          return done()
        },
        { parse: 'none' },
      )
      .post(
        '/views/rename',
        async ({ request, params }) => {
          await writes.views.rename(await writeOf(request, params))
          return done()
        },
        { parse: 'none' },
      )
      .post(
        '/namespaces/:namespace/views/:view',
        async ({ request, params }) =>
          viewAnswer(await writes.views.replace(await writeOf(request, params), viewIn(params))),
        { parse: 'none' },
      )
      .post(
        '/namespaces/:namespace/register',
        async ({ request, params }) => {
          const write = await writeOf(request, params)
          return answerTable(write, await writes.register(write, levelsOf(params.namespace)))
        },
        { parse: 'none' },
      )
      .post(
        '/transactions/commit',
        async ({ request, params }) => {
          await writes.transact(await writeOf(request, params))
          return done()
        },
        { parse: 'none' },
      )
      .delete('/namespaces/:namespace/views/:view', async ({ request, params }) => {
        await writes.dropView(await writeOf(request, params), viewIn(params))
        return done()
      })
      // `purgeRequested` changes nothing: only Sluice removes files.
      .delete('/namespaces/:namespace/tables/:table', async ({ request, params }) => {
        await writes.drop(await writeOf(request, params), tableIn(params))
        return done()
      })
  )
}

/** A write without a body, such as DELETE, has an empty one. */
export const writeOf = async (request: Request, { prefix }: { prefix: string }) => ({
  request,
  prefix,
  body: await bodyOf(request),
})

export const done = () => new Response(null, { status: 204 })

export const viewAnswer = ({ location, metadata, commit }: LoadedView) => ({
  'metadata-location': location,
  metadata,
  config: configOf(commit),
})

export const configOf = (head: string | null) => (head === null ? {} : { 'x-sluice-commit': head })
