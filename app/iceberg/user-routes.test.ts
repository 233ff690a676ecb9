import { beforeAll, expect, test } from 'bun:test'
import { parseJson } from '../../lake/iceberg/format/json.ts'
import { duringTests } from '../../tools/kit/during.ts'
import { RULES } from '../access/rules.ts'
import type { Resources } from '../access/service.ts'
import { identityOf } from '../access/testing.ts'
import type { Visible } from '../core/access.ts'
import { type S3Parts, s3Routes } from '../s3/routes.ts'
import { type IcebergParts, icebergRoutes } from './routes.ts'
import { openTestCatalog } from './test-catalog.ts'

// Iceberg REST for users, without and with an API key.

const KEY = 'key-of-the-tests'
const open = duringTests(() => openTestCatalog())
const sees = (...namespaces: string[]): Visible => ({ pipelines: [], zones: [], namespaces })
const pro = duringTests(() =>
  openTestCatalog(undefined, {
    config: { edition: 'pro', apiKey: KEY },
    plugins: { auth: { tokens: { verify: identityOf }, authorize: () => true }, describe: async () => ({}) },
    ownership: {
      resources: {} as Resources,
      enforcement: {
        check: async () => false,
        listVisible: async ({ userId }) => sees(...(userId === 'ada' ? ['default'] : [])),
      },
    },
  }),
)
const closed = duringTests(() => openTestCatalog(undefined, { config: { apiKey: KEY } }))

const TABLES = '/iceberg/v1/sluice/namespaces/default%1Fgold/tables'
const get = (path: string, headers?: Record<string, string>) => open.fetch(path, null, { headers })
const json = async (path: string) => (await get(path)).json()

/** Commits of main after each write to the table `orders`. */
const commits: number[] = []
beforeAll(async () => {
  for (const [name, query] of [
    ['orders', 'select 1 as id'],
    ['orders', 'select 2 as id'],
    ['items', 'select 1 as id'],
    ['parts', 'select 1 as id'],
  ] as const) {
    const attempt = await open.attempt({ namespace: 'default', layer: 'gold', name })
    const { commit } = await attempt.write(query, 'append')
    expect(await open.merge(attempt, commit)).toBe('merged')
    commits.push((await open.reader()).commit)
  }
})

test('the prefix of a warehouse needs no encoding', async () => {
  const prefix = async (warehouse: string) =>
    (await json(`/iceberg/v1/config?warehouse=${warehouse}`)).overrides.prefix
  expect(await prefix('')).toBe('sluice')
  expect(await prefix('sluice')).toBe('sluice')
  expect(await prefix('sluice@main')).toBe('sluice')
  expect(await prefix(`sluice@${commits[0]}`)).toBe(`sluice.${commits[0]}`)
  expect((await json('/iceberg/v1/config')).endpoints).toContain('GET /v1/{prefix}/namespaces')
})

test('an unknown warehouse gets 404 with the name of the error', async () => {
  for (const warehouse of ['other', 'sluice@nobody', 'sluice@999999', 'sluice@', 'sluice@A|B']) {
    const answer = await get(`/iceberg/v1/config?warehouse=${encodeURIComponent(warehouse)}`)
    expect([warehouse, answer.status]).toEqual([warehouse, 404])
    expect(await answer.json()).toMatchObject({ error: { type: 'NoSuchWarehouseException', code: 404 } })
  }
})

test('a namespace is addressed by two levels or by one', async () => {
  const names = ['default', 'default%1Fgold', 'default__gold']
  for (const name of names) {
    expect((await open.fetch(`/iceberg/v1/sluice/namespaces/${name}`, null, { method: 'HEAD' })).status).toBe(
      204,
    )
    expect((await json(`/iceberg/v1/sluice/namespaces/${name}`)).namespace).toEqual(
      decodeURIComponent(name).split('\x1f'),
    )
  }
  expect(await json('/iceberg/v1/sluice/namespaces/default__gold/tables')).toEqual({
    identifiers: ['items', 'orders', 'parts'].map((name) => ({ namespace: ['default__gold'], name })),
  })
  expect(
    (await json('/iceberg/v1/sluice/namespaces/default__gold/tables/orders')).metadata.refs.main,
  ).toBeObject()
  expect(await json('/iceberg/v1/sluice/namespaces/default/tables')).toEqual({ identifiers: [] })
  for (const name of ['none', 'default__tin', 'default%1Ftin', 'default%1Fgold%1Forders'])
    expect((await json(`/iceberg/v1/sluice/namespaces/${name}`)).error.type).toBe('NoSuchNamespaceException')
})

test('a client that sends a page token reads lists page by page', async () => {
  const names: string[] = []
  let token: string | undefined = ''
  for (let pages = 0; token !== undefined; pages++) {
    const page: { identifiers: { name: string }[]; 'next-page-token'?: string } = await json(
      `${TABLES}?pageSize=2&pageToken=${token}`,
    )
    names.push(...page.identifiers.map(({ name }) => name))
    token = page['next-page-token']
    expect(pages).toBeLessThan(2)
  }
  expect(names).toEqual(['items', 'orders', 'parts'])
  expect((await get(`${TABLES}?pageSize=0`)).status).toBe(400)
})

test('a loaded table has all snapshots or those of its refs', async () => {
  const snapshots = async (query: string) =>
    (parseJson(await (await get(`${TABLES}/orders${query}`)).text()) as { metadata: { snapshots: object[] } })
      .metadata.snapshots.length
  expect([
    await snapshots(''),
    await snapshots('?snapshots=all'),
    await snapshots('?snapshots=refs'),
  ]).toEqual([2, 2, 1])
  expect((await get(`${TABLES}/orders?snapshots=some`)).status).toBe(400)
})

test('a past commit is a warehouse that never changes', async () => {
  const names = async (commit: number | undefined) =>
    (await json(`/iceberg/v1/sluice.${commit}/namespaces/default%1Fgold/tables`)).identifiers.length
  expect([await names(commits[0]), await names(commits[3])]).toEqual([1, 3])
  const past = await json(`/iceberg/v1/sluice@${commits[0]}/namespaces/default%1Fgold/tables/orders`)
  expect(past.metadata.snapshots).toHaveLength(1)
})

test('open branches and tags are warehouses; closed branches are not', async () => {
  const base = commits[0] ?? 0
  for (const [name, kind] of [
    ['dev', 'user'],
    ['v1', 'tag'],
  ] as const)
    await open.sql`insert into lake_ref (name, kind, base) values (${name}, ${kind}, ${base})`
  const tables = (name: string) => get(`/iceberg/v1/sluice.${name}/namespaces/default%1Fgold/tables`)
  for (const name of ['dev', 'v1']) expect((await (await tables(name)).json()).identifiers).toHaveLength(1)
  await open.sql`update lake_ref set state = 'deleted' where name = 'dev'`
  expect((await tables('dev')).status).toBe(404)
})

test('a loaded table gets 304 while the client has its version', async () => {
  const first = await get(`${TABLES}/orders`)
  const etag = first.headers.get('etag') ?? ''
  const again = await get(`${TABLES}/orders`, { 'if-none-match': etag })
  expect([again.status, again.headers.get('etag'), await again.text()]).toEqual([304, etag, ''])
  expect((await get(`${TABLES}/orders?snapshots=refs`, { 'if-none-match': etag })).status).toBe(200)
  expect((await get(`${TABLES}/items`, { 'if-none-match': etag })).status).toBe(200)
})

test('a missing table gets 404, also where engines look for metadata tables', async () => {
  for (const path of [
    `${TABLES}/none`,
    '/iceberg/v1/sluice/namespaces/default%1Fgold%1Forders/tables/snapshots',
  ]) {
    expect((await json(path)).error).toMatchObject({ type: 'NoSuchTableException', code: 404 })
    expect((await open.fetch(path, null, { method: 'HEAD' })).status).toBe(404)
  }
  expect((await open.fetch(`${TABLES}/orders`, null, { method: 'HEAD' })).status).toBe(204)
})

test('a report of metrics is accepted for tables that exist', async () => {
  const report = (name: string) =>
    open.fetch(`${TABLES}/${name}/metrics`, null, { method: 'POST', body: '{"report-type":"scan-report"}' })
  expect([(await report('orders')).status, (await report('none')).status]).toEqual([204, 404])
})

test('served metadata forbids engines to remove files', async () => {
  expect((await json(`${TABLES}/orders`)).metadata.properties['gc.enabled']).toBe('false')
})

test('main refuses every write of users', async () => {
  const post = (path: string, body: object) =>
    open.fetch(path, null, { method: 'POST', body: JSON.stringify(body) })
  const schema = { type: 'struct', fields: [{ id: 1, name: 'a', type: 'int', required: false }] }
  for (const answer of [
    await post(TABLES, { name: 'new', schema }),
    await post(`${TABLES}/orders`, { requirements: [], updates: [] }),
    await post('/iceberg/v1/sluice/namespaces', { namespace: ['new'] }),
  ]) {
    expect(answer.status).toBe(403)
    expect(await answer.json()).toMatchObject({ error: { type: 'ForbiddenException' } })
  }
})

test('the API key is accepted as header, bearer and client secret', async () => {
  const status = async (headers: Record<string, string>) =>
    (await closed.fetch('/iceberg/v1/config', null, { headers })).status
  expect(await status({ 'x-api-key': KEY })).toBe(200)
  expect(await status({ authorization: `Bearer ${KEY}` })).toBe(200)
  expect(await status({ authorization: 'Bearer wrong' })).toBe(401)
  const refused = await closed.fetch('/iceberg/v1/config', null)
  expect([refused.status, await refused.json()]).toMatchObject([
    401,
    { error: { type: 'NotAuthorizedException', code: 401 } },
  ])
  expect(refused.headers.get('www-authenticate')).toContain('ApiKey')
})

test('client credentials are exchanged for a token that works', async () => {
  const ask = (form: Record<string, string>, headers?: Record<string, string>) =>
    closed.fetch('/iceberg/v1/oauth/tokens', null, {
      method: 'POST',
      body: new URLSearchParams(form),
      headers,
    })
  const granted = await ask({ grant_type: 'client_credentials', client_id: 'spark', client_secret: KEY })
  expect(granted.status).toBe(200)
  const wrong = await ask({ grant_type: 'client_credentials', client_id: 'spark', client_secret: 'wrong' })
  expect([wrong.status, await wrong.json()]).toMatchObject([401, { error: 'invalid_client' }])
  expect((await ask({ grant_type: 'password' })).status).toBe(400)
})

test('every route has an access rule, and every access rule has a route', () => {
  const { routes: ofIceberg } = icebergRoutes({ base: '/iceberg' } as IcebergParts)
  const routes = [...ofIceberg, ...s3Routes({} as S3Parts).routes]
  const ruled = Object.keys(RULES).filter((key) => / \/(iceberg|s3)\//.test(key))
  expect(ruled.sort()).toEqual(routes.map(({ method, path }) => `${method} ${path}`).sort())
})

test('an invisible table gets the answer of a missing table', async () => {
  const attempt = await pro.attempt({ namespace: 'default', layer: 'gold', name: 'orders' })
  const { commit } = await attempt.write('select 1 as id', 'append')
  expect(await pro.merge(attempt, commit)).toBe('merged')
  const ask = async (user: string, path: string) => {
    const answer = await pro.fetch(path, user)
    return [answer.status, (await answer.text()).replaceAll('none', 'orders')]
  }
  expect((await ask('ada', `${TABLES}/orders`))[0]).toBe(200)
  expect(await ask('bob', `${TABLES}/orders`)).toEqual(await ask('bob', `${TABLES}/none`))
  expect((await ask('ada', TABLES))[0]).toBe(200)
  expect((await ask('bob', TABLES))[0]).toBe(404)
  expect(await ask('bob', '/iceberg/v1/sluice/namespaces')).toEqual([200, '{"namespaces":[]}'])
  expect((await ask(KEY, `${TABLES}/orders`))[0]).toBe(200)
})
