// Sequences of writes over Iceberg REST, as engines and dbt send them: on a branch, and on main with ICEBERG_MAIN_WRITES=on.
import { DeleteObjectCommand, GetObjectCommand, PutObjectCommand, S3Client } from '@aws-sdk/client-s3'
import { type APIRequestContext, expect, test } from '@playwright/test'
import { type OwnService, startOwnService } from '../kit/own-service.ts'
import { fresh, newNamespace, publish, writeFile } from '../kit/resources.ts'
import { newTable, runToEnd } from '../kit/runs.ts'

async function newBranch(request: APIRequestContext): Promise<string> {
  const name = fresh('dev')
  expect((await request.post('/api/v1/branches', { data: { name } })).status()).toBe(201)
  return name
}

/** The REST catalog as an engine calls it. `warehouse` is a prefix of `GET /config`. */
function catalogOf(request: APIRequestContext, warehouse: string, namespace: string) {
  const gold = `/iceberg/v1/${warehouse}/namespaces/${namespace}%1Fgold`
  const identifier = (name: string) => ({ namespace: [namespace, 'gold'], name })
  const post = (path: string, data: object) => request.post(path, { data })
  return {
    path: (name: string) => `${gold}/tables/${name}`,
    create: (name: string, fields: object[]) =>
      post(`${gold}/tables`, { name, schema: { type: 'struct', fields } }),
    drop: (name: string) => request.delete(`${gold}/tables/${name}?purgeRequested=false`),
    rename: (from: string, to: string) =>
      post(`/iceberg/v1/${warehouse}/tables/rename`, {
        source: identifier(from),
        destination: identifier(to),
      }),
    register: (name: string, location: string) =>
      post(`${gold}/register`, { name, 'metadata-location': location, overwrite: false }),
    async load(name: string) {
      const answer = await request.get(`${gold}/tables/${name}`)
      expect(answer.status()).toBe(200)
      return answer.json()
    },
  }
}

const rowsIn = async (request: APIRequestContext, table: string, version: object = {}) => {
  const answer = await request.post('/api/v1/query', {
    data: { sql: `select * from ${table} order by 1`, ...version },
  })
  return answer.status() === 200 ? (await answer.json()).rows : answer.status()
}

const diffOf = async (request: APIRequestContext, branch: string) =>
  (await (await request.get(`/api/v1/branches/${branch}/diff`)).json()).tables

test('a run names the key column that a new table lacks @iceberg.drop', async ({ request }) => {
  const namespace = await newNamespace(request)
  const pipeline = await newTable(request, { namespace, layer: 'gold' }, 'select 1 as id, 2 as n')
  const branch = await newBranch(request)
  const catalog = catalogOf(request, `sluice.${branch}`, namespace)
  expect((await catalog.drop(pipeline.name)).status()).toBe(204)
  const fields = [{ id: 1, name: 'order_id', type: 'int', required: false }]
  expect((await catalog.create(pipeline.name, fields)).status()).toBe(200)
  // Both tables have a column with the id 1. It was not renamed, because the tables are two.
  expect(await diffOf(request, branch)).toMatchObject([
    {
      name: pipeline.name,
      rows_before: 1,
      rows_after: 0,
      rows_removed: 1,
      schema: { added: [{ name: 'order_id' }], removed: [{ name: 'id' }, { name: 'n' }], changed: [] },
    },
  ])
  expect((await request.post(`/api/v1/branches/${branch}/merge`, { data: {} })).status()).toBe(200)
  const table = `"${namespace}".gold."${pipeline.name}"`
  expect(await rowsIn(request, table)).toEqual([])
  const rows = '-- @merge_strategy: incremental\n-- @unique_key: id\nselect 1 as id, 5 as order_id'
  await writeFile(request, `${pipeline.prefix}pipeline.sql`, rows)
  await publish(request, pipeline)
  const failed = await runToEnd(request, pipeline)
  expect([failed.status, failed.error]).toEqual([
    'failed',
    expect.stringContaining('unique_key: the table has no column "id", it has order_id'),
  ])
  expect(await rowsIn(request, table)).toEqual([])
})

test('a changed scale with equal values changes no row @iceberg.diff', async ({ request }) => {
  const namespace = await newNamespace(request)
  const pipeline = await newTable(
    request,
    { namespace, layer: 'gold' },
    '-- @unique_key: id\nselect 1 as id, 1.50::decimal(9, 2) as amount, 7::integer as n',
  )
  const branch = await newBranch(request)
  for (const [column, from, to, sql] of [
    ['amount', 'DECIMAL(9,2)', 'DECIMAL(12,3)', '1.500::decimal(12, 3) as amount, 7::integer as n'],
    ['n', 'INTEGER', 'DOUBLE', '1.50::decimal(9, 2) as amount, 7::double as n'],
  ]) {
    await writeFile(request, `${pipeline.prefix}pipeline.sql`, `-- @unique_key: id\nselect 1 as id, ${sql}`)
    const run = await runToEnd(request, pipeline, { branch, draft: true })
    expect(run).toMatchObject({ status: 'success', error: null })
    expect(await diffOf(request, branch)).toMatchObject([
      {
        rows_added: 0,
        rows_removed: 0,
        schema: { added: [], removed: [], changed: [{ name: column, from, to, renamed_from: null }] },
      },
    ])
  }
})

/** Two tables with one column each, as a model and its new content. */
async function models(request: APIRequestContext) {
  const namespace = await newNamespace(request)
  const at = { namespace, layer: 'gold' }
  await newTable(request, { ...at, name: 'orders' }, 'select 1 as id')
  await newTable(request, { ...at, name: 'orders__dbt_tmp' }, 'select 2 as id, 3 as n')
  return namespace
}

/** The requests of dbt's `materialized: table` after the temporary table exists. */
async function replaceByRename(catalog: ReturnType<typeof catalogOf>) {
  expect((await catalog.rename('orders', 'orders__dbt_backup')).status()).toBe(204)
  expect((await catalog.rename('orders__dbt_tmp', 'orders')).status()).toBe(204)
  expect((await catalog.drop('orders__dbt_backup')).status()).toBe(204)
}

async function expectReplaced(request: APIRequestContext, namespace: string) {
  expect(await rowsIn(request, `"${namespace}".gold.orders`)).toEqual([{ id: 2, n: 3 }])
  for (const gone of ['orders__dbt_tmp', 'orders__dbt_backup'])
    expect(await rowsIn(request, `"${namespace}".gold.${gone}`)).toBe(400)
}

test('dbt replaces a table by renames on a branch @iceberg.dbt', async ({ request }) => {
  const namespace = await models(request)
  const branch = await newBranch(request)
  await replaceByRename(catalogOf(request, `sluice.${branch}`, namespace))
  expect(await rowsIn(request, `"${namespace}".gold.orders`)).toEqual([{ id: 1 }])
  const changes = await diffOf(request, branch)
  expect(changes.map(({ name, change }: Record<string, string>) => [name, change])).toEqual([
    ['orders', 'changed'],
    ['orders__dbt_tmp', 'removed'],
  ])
  expect(changes[0]).toMatchObject({
    rows_before: 1,
    rows_after: 1,
    schema: { added: [{ name: 'n' }], changed: [] },
  })
  expect((await request.post(`/api/v1/branches/${branch}/merge`, { data: {} })).status()).toBe(200)
  await expectReplaced(request, namespace)
})

test('main refuses names, registrations and namespaces of engines, and names the way @iceberg.main', async ({
  request,
}) => {
  const namespace = await models(request)
  const catalog = catalogOf(request, 'sluice', namespace)
  const { 'metadata-location': location } = await catalog.load('orders')
  const path = '/iceberg/v1/sluice/namespaces'
  for (const refused of [
    await catalog.rename('orders', 'renamed'),
    await catalog.register('again', location),
    await catalog.drop('orders'),
    await request.post(path, { data: { namespace: [fresh('shop')] } }),
    await request.post(`${path}/${namespace}/properties`, { data: { updates: { tier: '1' } } }),
    await request.delete(`${path}/${namespace}`),
  ]) {
    const { error } = await refused.json()
    expect([refused.url(), refused.status(), error]).toEqual([
      refused.url(),
      403,
      expect.objectContaining({ type: 'ForbiddenException', message: expect.stringMatching(/branch/) }),
    ])
  }
})

test.describe('with ICEBERG_MAIN_WRITES=on', () => {
  let service: OwnService
  let request: APIRequestContext
  test.beforeAll(async ({ playwright }) => {
    service = await startOwnService({ ICEBERG_MAIN_WRITES: 'on' })
    request = await playwright.request.newContext({ baseURL: service.url })
  })
  test.afterAll(async () => {
    await request?.dispose()
    await service?.stop()
  })

  test('dbt replaces a table of main, and an engine registers a table again @iceberg.main', async () => {
    const namespace = await models(request)
    const catalog = catalogOf(request, 'sluice', namespace)
    await replaceByRename(catalog)
    await expectReplaced(request, namespace)
    const { 'metadata-location': location } = await catalog.load('orders')
    expect((await catalog.drop('orders')).status()).toBe(204)
    expect((await catalog.register('again', location)).status()).toBe(200)
    expect(await rowsIn(request, `"${namespace}".gold.again`)).toEqual([{ id: 2, n: 3 }])
    expect((await catalog.rename('absent', 'present')).status()).toBe(404)
  })

  test('an engine creates, describes and drops a namespace of main @iceberg.main', async () => {
    const name = fresh('shop')
    const path = '/iceberg/v1/sluice/namespaces'
    expect((await request.post(path, { data: { namespace: [name] } })).status()).toBe(200)
    const properties = { updates: { comment: 'Sales', tier: '1' }, removals: ['absent'] }
    const changed = await request.post(`${path}/${name}/properties`, { data: properties })
    expect(await changed.json()).toEqual({ updated: ['comment', 'tier'], removed: [], missing: ['absent'] })
    const fields = [{ id: 1, name: 'id', type: 'int', required: false }]
    expect((await catalogOf(request, 'sluice', name).create('orders', fields)).status()).toBe(200)
    expect((await request.delete(`${path}/${name}`)).status()).toBe(409)
    expect((await catalogOf(request, 'sluice', name).drop('orders')).status()).toBe(204)
    expect((await request.delete(`${path}/${name}`)).status()).toBe(204)
    expect((await request.get(`${path}/${name}`)).status()).toBe(404)
  })
})

test('an engine writes and removes files of any partition value @s3.write', async ({ request }) => {
  const namespace = await newNamespace(request)
  const { name } = await newTable(request, { namespace, layer: 'gold' }, 'select 1 as id')
  const branch = await newBranch(request)
  const loaded = await request.get(catalogOf(request, `sluice.${branch}`, namespace).path(name), {
    headers: { 'x-iceberg-access-delegation': 'vended-credentials' },
  })
  const { config, 'storage-credentials': storage } = await loaded.json()
  const [, Bucket = '', directory = ''] = /^s3:\/\/([^/]+)\/(.+?)\/?$/.exec(storage[0].prefix) ?? []
  const client = new S3Client({
    endpoint: String(config['s3.endpoint']),
    region: String(config['s3.region']),
    forcePathStyle: true,
    maxAttempts: 1,
    credentials: {
      accessKeyId: String(config['s3.access-key-id']),
      secretAccessKey: String(config['s3.secret-access-key']),
      sessionToken: String(config['s3.session-token']),
    },
  })
  // PyIceberg and Spark encode a value for the name of its folder, other engines encode less. Each key is signed as it is sent.
  const values = ['~', '%', '%2F', ' ', 'ü 東京 🛶', '\'"`', '+=&', '*()[]{}', '!,;:@$|^<>', '.a-_']
  const encoded = ['?', '#', '\\', 'a/b', '\n'].map(encodeURIComponent)
  for (const value of [...values, ...encoded])
    for (const segment of new Set([value, encodeURIComponent(value), value.replaceAll(' ', '+')])) {
      const Key = `${directory}/data/s=${segment}/${fresh('f')}.parquet`
      await client.send(new PutObjectCommand({ Bucket, Key, Body: segment }))
      const read = await client.send(new GetObjectCommand({ Bucket, Key }))
      expect(await read.Body?.transformToString()).toBe(segment)
      const removed = await client.send(new DeleteObjectCommand({ Bucket, Key }))
      expect([Key, removed.$metadata.httpStatusCode]).toEqual([Key, 204])
      // A rollback is repeated when its answer was lost.
      const again = await client.send(new DeleteObjectCommand({ Bucket, Key }))
      expect(again.$metadata.httpStatusCode).toBe(204)
      await expect(client.send(new GetObjectCommand({ Bucket, Key }))).rejects.toThrow(/NoSuchKey|exist/)
    }
})
