// A Pro service whose lake has tables and views of two users, for attacks on the Iceberg REST catalog and on `/s3`.
import { randomBytes } from 'node:crypto'
import { expect } from '@playwright/test'
import { eventually } from '../../kit/eventually.ts'
import type { S3Credentials } from '../../kit/presigned.ts'
import { type Caller, type ProService, startProService } from './pro-service.ts'

/** A text that occurs nowhere else. */
const canary = () => `c${randomBytes(5).toString('hex')}`

/** A table with a view of it, in the layer gold. */
interface Names {
  namespace: string
  table: string
  view: string
  /** A metadata file of the table. */
  file: string
}

export type Lake = Awaited<ReturnType<typeof startLake>>

/** Ada owns two places and a secret table, Carl may read the places, Bob has a place of his own. All have the branch `dev`. */
export async function startLake(env: Record<string, string> = {}) {
  const service = await startProService({ RUNNER_URLS: '', QUERY_URLS: 'none', ...env })
  const [ada, bob, carl] = ['ada', 'bob', 'carl'].map((name) => service.user(name)) as [
    Caller,
    Caller,
    Caller,
  ]
  const space = async (caller: Caller) => {
    const name = canary()
    await service.must(201, caller, 'POST', '/api/v1/namespaces', { name })
    return name
  }
  const [hers, his] = [await space(ada), await space(bob)]
  const own = await plant(service, ada, hers)
  const shared = await plant(service, ada, 'default')
  const bobs = await plant(service, bob, his)
  const secret = canary()
  await build(service, ada, { namespace: hers, name: secret, sql: 'select 1 as id' })
  const grants: string[] = []
  for (const id of [...own.ids, ...shared.ids]) {
    const grant = { grantee_id: 'carl', resource_type: 'pipeline', resource_id: id, permission: 'read' }
    grants.push(String((await service.must(201, ada, 'POST', '/api/v1/sharing', grant)).id))
  }
  await service.must(201, ada, 'POST', '/api/v1/branches', { name: 'dev' })
  return { service, ada, bob, carl, own: own.names, shared: shared.names, bobs: bobs.names, secret, grants }
}

async function plant(service: ProService, caller: Caller, namespace: string) {
  const [table, view] = [canary(), canary()]
  const ids = [
    await build(service, caller, { namespace, name: table, sql: 'select range as id from range(9)' }),
    await build(service, caller, {
      namespace,
      name: view,
      sql: `-- @materialized: view\nselect id from {{ ref('gold.${table}') }}`,
    }),
  ]
  const path = `/iceberg/v1/sluice/namespaces/${namespace}%1Fgold/tables/${table}`
  const file = String((await service.must(200, caller, 'GET', path))['metadata-location'])
  const names: Names = { namespace, table, view, file }
  return { names, ids }
}

/** Creates, publishes and runs a pipeline; resolves with its id. */
async function build(
  { must }: ProService,
  caller: Caller,
  { namespace, name, sql }: { namespace: string; name: string; sql: string },
) {
  const { id } = await must(201, caller, 'POST', '/api/v1/pipelines', { namespace, layer: 'gold', name })
  const source = `/api/v1/files/${namespace}/pipelines/gold/${name}/pipeline.sql`
  await must(200, caller, 'PUT', source, { content: sql })
  await must(200, caller, 'POST', `/api/v1/pipelines/${namespace}/gold/${name}/publish`, {})
  const { run_id } = await must(202, caller, 'POST', '/api/v1/runs', {
    namespace,
    layer: 'gold',
    pipeline: name,
  })
  const run = () => must(200, caller, 'GET', `/api/v1/runs/${run_id}`)
  await eventually(async () => (await run()).finished_at).not.toBeNull()
  expect(await run()).toMatchObject({ status: 'success', error: null })
  return String(id)
}

/** Credentials for the files of a table. */
export interface Vended {
  credentials: S3Credentials
  bucket: string
  /** The key of the table's directory, without a slash at its end. */
  directory: string
}

export async function vend(
  service: ProService,
  caller: Caller,
  { prefix, namespace, table }: { prefix: string; namespace: string; table: string },
): Promise<Vended> {
  const answer = await service.must(
    200,
    caller,
    'GET',
    `/iceberg/v1/${prefix}/namespaces/${namespace}%1Fgold/tables/${table}/credentials`,
  )
  const [{ prefix: location, config }] = answer['storage-credentials'] as [
    { prefix: string; config: Record<string, string> },
  ]
  const [, bucket = '', directory = ''] = /^s3:\/\/([^/]+)\/(.+)$/.exec(location) ?? []
  const credentials = {
    accessKeyId: String(config['s3.access-key-id']),
    secretAccessKey: String(config['s3.secret-access-key']),
    sessionToken: String(config['s3.session-token']),
  }
  return { credentials, bucket, directory }
}
