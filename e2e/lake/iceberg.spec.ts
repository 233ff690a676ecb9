// Iceberg REST for users: the protocol, as an engine speaks it.
import { expect, test } from '@playwright/test'
import { fresh, newNamespace } from '../kit/resources.ts'
import { newTable } from '../kit/runs.ts'

test('an engine finds a table of main and of a branch @iceberg.read', async ({ request }) => {
  const namespace = await newNamespace(request)
  const { name } = await newTable(request, { namespace, layer: 'gold' }, 'select 1 as id')
  const branch = fresh('dev')
  expect((await request.post('/api/v1/branches', { data: { name: branch } })).status()).toBe(201)
  for (const warehouse of ['sluice', `sluice@${branch}`]) {
    const config = await request.get('/iceberg/v1/config', { params: { warehouse } })
    const { defaults, overrides } = await config.json()
    const { prefix } = overrides
    expect(prefix).toMatch(/^[A-Za-z0-9._-]+$/)
    // Spark asks for credentials only with this setting.
    expect(defaults['header.X-Iceberg-Access-Delegation']).toBe('vended-credentials')
    const tables = `/iceberg/v1/${prefix}/namespaces/${namespace}%1Fgold/tables`
    expect(await (await request.get(tables)).json()).toEqual({
      identifiers: [{ namespace: [namespace, 'gold'], name }],
    })
    const loaded = await request.get(`${tables}/${name}`)
    const { metadata } = await loaded.json()
    expect(metadata.schemas[0].fields).toMatchObject([{ name: 'id', type: 'int' }])
    expect(metadata.properties['gc.enabled']).toBe('false')
    const etag = loaded.headers().etag ?? ''
    expect((await request.get(`${tables}/${name}`, { headers: { 'if-none-match': etag } })).status()).toBe(
      304,
    )
  }
})

test('a table that an engine writes on a branch merges into main @runtime @iceberg.write', async ({
  request,
}) => {
  const namespace = await newNamespace(request)
  const branch = fresh('dev')
  expect((await request.post('/api/v1/branches', { data: { name: branch } })).status()).toBe(201)
  const tables = (warehouse: string) => `/iceberg/v1/${warehouse}/namespaces/${namespace}%1Fgold/tables`
  const schema = { type: 'struct', fields: [{ id: 1, name: 'id', type: 'long', required: false }] }
  const data = { name: 'orders', schema }
  expect((await request.post(tables('sluice'), { data })).status()).toBe(403)
  expect((await request.post(tables(`sluice.${branch}`), { data })).status()).toBe(200)
  const transaction = {
    'table-changes': [
      {
        identifier: { namespace: [namespace, 'gold'], name: 'orders' },
        requirements: [{ type: 'assert-current-schema-id', 'current-schema-id': 0 }],
        updates: [{ action: 'set-properties', updates: { owner: 'ada' } }],
      },
    ],
  }
  const commit = `/iceberg/v1/sluice.${branch}/transactions/commit`
  expect((await request.post(commit, { data: transaction })).status()).toBe(204)
  expect(await (await request.get(`/api/v1/branches/${branch}`)).json()).toMatchObject({
    commits_ahead: 2,
    tables_changed: 1,
  })
  expect((await request.get(`${tables('sluice')}/orders`)).status()).toBe(404)
  expect((await request.post(`/api/v1/branches/${branch}/merge`, { data: {} })).status()).toBe(200)
  const { metadata } = await (await request.get(`${tables('sluice')}/orders`)).json()
  expect(metadata.properties.owner).toBe('ada')
})

test('a merge removes a table that the branch dropped @iceberg.drop', async ({ request }) => {
  const namespace = await newNamespace(request)
  const { name } = await newTable(request, { namespace, layer: 'gold' }, 'select 1 as id')
  const branch = fresh('dev')
  expect((await request.post('/api/v1/branches', { data: { name: branch } })).status()).toBe(201)
  const table = (warehouse: string) =>
    `/iceberg/v1/${warehouse}/namespaces/${namespace}%1Fgold/tables/${name}`
  expect((await request.delete(table('sluice'))).status()).toBe(403)
  expect((await request.delete(table(`sluice.${branch}`))).status()).toBe(204)
  const query = (version: object) =>
    request.post('/api/v1/query', {
      data: { sql: `select * from "${namespace}".gold."${name}"`, ...version },
    })
  expect((await query({ branch })).status()).toBe(400)
  expect((await query({})).status()).toBe(200)
  const diff = await (await request.get(`/api/v1/branches/${branch}/diff`)).json()
  expect(diff.tables).toMatchObject([{ namespace, name, change: 'removed', rows_removed: 1 }])
  expect((await request.post(`/api/v1/branches/${branch}/merge`, { data: {} })).status()).toBe(200)
  expect((await request.get(table('sluice'))).status()).toBe(404)
  expect((await query({})).status()).toBe(400)
})

test('an engine creates, describes and drops a namespace @iceberg.namespaces', async ({ request }) => {
  const [branch, name] = [fresh('dev'), fresh('shop')]
  expect((await request.post('/api/v1/branches', { data: { name: branch } })).status()).toBe(201)
  const path = `/iceberg/v1/sluice.${branch}/namespaces`
  const data = { namespace: [name], properties: { comment: 'Sales' } }
  expect(await (await request.post(path, { data })).json()).toEqual(data)
  expect((await request.post(path, { data })).status()).toBe(409)
  const { namespaces } = await (await request.get('/api/v1/namespaces')).json()
  expect(namespaces).toContainEqual(expect.objectContaining({ name, description: 'Sales' }))
  const changed = await request.post(`${path}/${name}/properties`, { data: { updates: { tier: '1' } } })
  expect(await changed.json()).toEqual({ updated: ['tier'], removed: [], missing: [] })
  const schema = { type: 'struct', fields: [{ id: 1, name: 'id', type: 'long', required: false }] }
  const tables = `${path}/${name}%1Fgold/tables`
  expect((await request.post(tables, { data: { name: 'orders', schema } })).status()).toBe(200)
  expect((await request.delete(`${path}/${name}`)).status()).toBe(409)
  expect((await request.delete(`${tables}/orders`)).status()).toBe(204)
  expect((await request.delete(`${path}/${name}`)).status()).toBe(204)
  expect((await request.get(`${path}/${name}`)).status()).toBe(404)
})

test('an engine renames a table and registers it again @iceberg.names', async ({ request }) => {
  const namespace = await newNamespace(request)
  const { name } = await newTable(request, { namespace, layer: 'gold' }, 'select 1 as id')
  const branch = fresh('dev')
  expect((await request.post('/api/v1/branches', { data: { name: branch } })).status()).toBe(201)
  const gold = `/iceberg/v1/sluice.${branch}/namespaces/${namespace}%1Fgold`
  const identifier = (name: string) => ({ namespace: [namespace, 'gold'], name })
  const data = { source: identifier(name), destination: identifier('renamed') }
  expect((await request.post(`/iceberg/v1/sluice.${branch}/tables/rename`, { data })).status()).toBe(204)
  const rows = async (table: string) => {
    const sql = `select id from "${namespace}".gold."${table}"`
    return (await (await request.post('/api/v1/query', { data: { sql, branch } })).json()).rows
  }
  expect(await rows('renamed')).toEqual([{ id: 1 }])
  const { tables } = await (await request.get(`/api/v1/branches/${branch}/diff`)).json()
  expect(tables.map(({ name, change }: Record<string, string>) => [name, change]).sort()).toEqual(
    [
      [name, 'removed'],
      ['renamed', 'added'],
    ].sort(),
  )
  const loaded = await (await request.get(`${gold}/tables/renamed`)).json()
  expect((await request.delete(`${gold}/tables/renamed`)).status()).toBe(204)
  const again = { name: 'again', 'metadata-location': loaded['metadata-location'] }
  expect((await request.post(`${gold}/register`, { data: again })).status()).toBe(200)
  expect(await rows('again')).toEqual([{ id: 1 }])
  expect((await request.post(`/api/v1/branches/${branch}/merge`, { data: {} })).status()).toBe(200)
})

test('a refusal has the format of Iceberg @iceberg.errors', async ({ request }) => {
  const answer = await request.get('/iceberg/v1/sluice/namespaces/default%1Fgold/tables/absent')
  expect([answer.status(), await answer.json()]).toMatchObject([
    404,
    { error: { type: 'NoSuchTableException', code: 404 } },
  ])
  expect((await request.get('/iceberg/v1/absent')).status()).toBe(404)
  for (const path of ['absent', 'default%1Fgold/tables/absent', 'default%1Fgold/views/absent']) {
    const headers = { 'accept-encoding': 'gzip, x-gzip, deflate' }
    expect((await request.head(`/iceberg/v1/sluice/namespaces/${path}`, { headers })).status()).toBe(404)
  }
})
