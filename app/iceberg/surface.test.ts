import { beforeAll, describe, expect, test } from 'bun:test'
import { duringTests } from '../../tools/kit/during.ts'
import { type IcebergParts, icebergRoutes } from './routes.ts'
import { openTestCatalog } from './test-catalog.ts'

// Every endpoint of Iceberg REST for users: what `/config` says about it, and the types of its errors.

const lake = duringTests(() => openTestCatalog())
const GOLD = 'namespaces/default%1Fgold'
const schema = { type: 'struct', fields: [{ id: 1, name: 'a', type: 'int', required: false }] }
const identifier = (name: string, layer = 'gold') => ({ namespace: ['default', layer], name })
const change = (name: string, requirements: object[] = [], updates: object[] = []) => ({
  identifier: identifier(name),
  requirements,
  updates,
})
const names = (source: string, destination: string) => ({
  source: identifier(source),
  destination: identifier(destination),
})
const view = (name: string) => ({
  name,
  schema,
  properties: {},
  'view-version': {
    summary: {},
    representations: [{ type: 'sql', sql: 'select 1 as a', dialect: 'duckdb' }],
    'default-namespace': ['default', 'gold'],
  },
})

beforeAll(async () => {
  for (const name of ['orders', 'items']) {
    const attempt = await lake.attempt({ namespace: 'default', layer: 'gold', name })
    const { commit } = await attempt.write('select 1 as a', 'append')
    expect(await lake.merge(attempt, commit)).toBe('merged')
  }
  await lake.sql`
    insert into lake_ref (name, kind, base) select 'dev', 'user', number from lake_ref where name = 'main'`
})

async function call(endpoint: string, body?: object | string, headers: Record<string, string> = {}) {
  const [method = '', path = ''] = endpoint.split(' ')
  const text = typeof body === 'object' ? JSON.stringify(body) : body
  const answer = await lake.fetch(`/iceberg/v1/${path}`, null, { method, headers, body: text })
  const answered = await answer.text()
  const { error, ...rest } = answered.startsWith('{') ? JSON.parse(answered) : {}
  return { status: answer.status, type: error?.type, code: error?.code, body: rest, text: answered }
}

const BAD = [400, 'BadRequestException']
const NO_WAREHOUSE = [404, 'NoSuchWarehouseException']
const NO_NAMESPACE = [404, 'NoSuchNamespaceException']
const NO_TABLE = [404, 'NoSuchTableException']
const NO_VIEW = [404, 'NoSuchViewException']
const EXISTS = [409, 'AlreadyExistsException']
const CONFLICT = [409, 'CommitFailedException']
const STALE = [{ type: 'assert-current-schema-id', 'current-schema-id': 7 }]

// Columns: the endpoint below `/iceberg/v1`, the body, the answer. Rows without a body have none.
test.each([
  // An unknown branch is an unknown warehouse, on every endpoint.
  ['GET config?warehouse=sluice@none', undefined, NO_WAREHOUSE],
  ['GET sluice.none/namespaces', undefined, NO_WAREHOUSE],
  ['POST sluice.none/namespaces', { namespace: ['fresh'] }, NO_WAREHOUSE],
  ['GET sluice.none/namespaces/default', undefined, NO_WAREHOUSE],
  ['DELETE sluice.none/namespaces/default', undefined, NO_WAREHOUSE],
  ['POST sluice.none/namespaces/default/properties', {}, NO_WAREHOUSE],
  [`GET sluice.none/${GOLD}/tables`, undefined, NO_WAREHOUSE],
  [`POST sluice.none/${GOLD}/tables`, { name: 'fresh', schema }, NO_WAREHOUSE],
  [`GET sluice.none/${GOLD}/tables/orders`, undefined, NO_WAREHOUSE],
  [`POST sluice.none/${GOLD}/tables/orders`, change('orders'), NO_WAREHOUSE],
  [`DELETE sluice.none/${GOLD}/tables/orders`, undefined, NO_WAREHOUSE],
  [`GET sluice.none/${GOLD}/tables/orders/credentials`, undefined, NO_WAREHOUSE],
  [`POST sluice.none/${GOLD}/tables/orders/metrics`, {}, NO_WAREHOUSE],
  [`POST sluice.none/${GOLD}/register`, { name: 'fresh', 'metadata-location': 'x' }, NO_WAREHOUSE],
  [
    'POST sluice.none/tables/rename',
    { source: identifier('orders'), destination: identifier('x') },
    NO_WAREHOUSE,
  ],
  ['POST sluice.none/transactions/commit', { 'table-changes': [change('orders')] }, NO_WAREHOUSE],
  [`GET sluice.none/${GOLD}/views`, undefined, NO_WAREHOUSE],
  [`GET sluice.none/${GOLD}/views/v`, undefined, NO_WAREHOUSE],
  [`DELETE sluice.none/${GOLD}/views/v`, undefined, NO_WAREHOUSE],
  [`POST sluice.none/${GOLD}/views`, view('v'), NO_WAREHOUSE],
  [`POST sluice.none/${GOLD}/views/v`, { updates: [] }, NO_WAREHOUSE],
  ['POST sluice.none/views/rename', names('v', 'w'), NO_WAREHOUSE],

  ['GET sluice.dev/namespaces?parent=none', undefined, NO_NAMESPACE],
  ['GET sluice.dev/namespaces/none', undefined, NO_NAMESPACE],
  ['DELETE sluice.dev/namespaces/none', undefined, NO_NAMESPACE],
  ['POST sluice.dev/namespaces/none/properties', {}, NO_NAMESPACE],
  ['GET sluice.dev/namespaces/none%1Fgold/tables', undefined, NO_NAMESPACE],
  ['GET sluice.dev/namespaces/none%1Fgold/views', undefined, NO_NAMESPACE],
  ['POST sluice.dev/namespaces/none%1Fgold/tables', { name: 'fresh', schema }, NO_NAMESPACE],
  ['POST sluice.dev/namespaces/none%1Fgold/register', { name: 'x', 'metadata-location': 'x' }, NO_NAMESPACE],
  [
    'POST sluice.dev/tables/rename',
    { source: identifier('orders'), destination: identifier('x', 'tin') },
    NO_NAMESPACE,
  ],
  ['POST sluice.dev/namespaces/none%1Fgold/views', view('v'), NO_NAMESPACE],
  ['GET sluice.dev/namespaces/none%1Fgold/tables/orders', undefined, NO_TABLE],
  ['GET sluice.dev/namespaces/none%1Fgold/views/orders', undefined, NO_VIEW],

  [`GET sluice.dev/${GOLD}/tables/none`, undefined, NO_TABLE],
  [`POST sluice.dev/${GOLD}/tables/none`, change('none'), NO_TABLE],
  [`DELETE sluice.dev/${GOLD}/tables/none`, undefined, NO_TABLE],
  [`GET sluice.dev/${GOLD}/tables/none/credentials`, undefined, NO_TABLE],
  [`POST sluice.dev/${GOLD}/tables/none/metrics`, {}, NO_TABLE],
  ['POST sluice.dev/tables/rename', { source: identifier('none'), destination: identifier('x') }, NO_TABLE],
  ['POST sluice.dev/transactions/commit', { 'table-changes': [change('none')] }, NO_TABLE],
  [`GET sluice.dev/${GOLD}/views/orders`, undefined, NO_VIEW],
  [`DELETE sluice.dev/${GOLD}/views/orders`, undefined, NO_VIEW],
  [`POST sluice.dev/${GOLD}/views/orders`, { updates: [] }, NO_VIEW],
  ['POST sluice.dev/views/rename', names('orders', 'w'), NO_VIEW],

  ['POST sluice.dev/namespaces', { namespace: ['default'] }, EXISTS],
  [`POST sluice.dev/${GOLD}/views`, view('orders'), EXISTS],
  [`POST sluice.dev/${GOLD}/tables`, { name: 'orders', schema }, EXISTS],
  [`POST sluice.dev/${GOLD}/tables`, { name: 'orders', schema, 'stage-create': true }, EXISTS],
  [`POST sluice.dev/${GOLD}/register`, { name: 'orders', 'metadata-location': 'x' }, EXISTS],
  [
    'POST sluice.dev/tables/rename',
    { source: identifier('orders'), destination: identifier('items') },
    EXISTS,
  ],
  ['DELETE sluice.dev/namespaces/default', undefined, [409, 'NamespaceNotEmptyException']],

  [`POST sluice.dev/${GOLD}/tables/orders`, change('orders', STALE), CONFLICT],
  [`POST sluice.dev/${GOLD}/tables/orders`, change('orders', [{ type: 'assert-create' }]), CONFLICT],
  ['POST sluice.dev/transactions/commit', { 'table-changes': [change('orders', STALE)] }, CONFLICT],

  ...['', '[]', '{', '"text"', '{"namespace":7}'].flatMap((body) =>
    [
      'sluice.dev/namespaces',
      `sluice.dev/${GOLD}/tables`,
      `sluice.dev/${GOLD}/tables/orders`,
      `sluice.dev/${GOLD}/views`,
      `sluice.dev/${GOLD}/views/v`,
      `sluice.dev/${GOLD}/register`,
      'sluice.dev/tables/rename',
      'sluice.dev/views/rename',
      'sluice.dev/transactions/commit',
    ].map((path): [string, string, typeof BAD] => [`POST ${path}`, body, BAD]),
  ),
  [`POST sluice.dev/${GOLD}/tables/orders`, change('items'), BAD],
  [`POST sluice.dev/${GOLD}/tables/orders`, change('orders', [{ type: 'assert-nothing' }]), BAD],
  [`POST sluice.dev/${GOLD}/tables/orders`, change('orders', [], [{ action: 'do-nothing' }]), BAD],
  [`POST sluice.dev/${GOLD}/register`, { name: 'x', 'metadata-location': '/etc/passwd' }, BAD],
  [`GET sluice.dev/${GOLD}/tables/orders?snapshots=some`, undefined, BAD],
  [
    'POST sluice.dev/namespaces/default/properties',
    { removals: ['a'], updates: { a: 'b' } },
    [422, 'UnprocessableEntityException'],
  ],
  [`POST sluice.1/${GOLD}/tables`, { name: 'fresh', schema }, [403, 'ForbiddenException']],
] as [string, object | string | undefined, [number, string]][])(
  '%s with %j is %j',
  async (endpoint, body, expected) => {
    const { status, type, code } = await call(endpoint, body)
    expect([status, type, code]).toEqual([...expected, expected[0]])
  },
)

describe('lists', () => {
  const lists = [
    'sluice/namespaces',
    'sluice/namespaces?parent=default',
    `sluice/${GOLD}/tables`,
    `sluice/${GOLD}/views`,
  ]
  const sized = (list: string, more: string) => call(`GET ${list}${list.includes('?') ? '&' : '?'}${more}`)

  test.each(lists)('%s refuses page tokens and page sizes that it never gave', async (list) => {
    const forged = [
      'x',
      '%00',
      'AA',
      '____',
      'b3JkZXJz=',
      Buffer.from('Ünknown').toString('base64url'),
      'a'.repeat(400),
    ]
    for (const token of forged) {
      const { status, type } = await sized(list, `pageToken=${token}`)
      expect([token, status, type]).toEqual([token, 400, 'BadRequestException'])
    }
    for (const size of ['0', '-1', 'x', '1.5', '99999999999'])
      expect([size, (await sized(list, `pageToken=&pageSize=${size}`)).status]).toEqual([size, 400])
  })

  test('a page has at most as many layers as the client asked for', async () => {
    const names: string[][] = []
    let token = ''
    do {
      const { body } = await sized('sluice/namespaces?parent=default', `pageSize=2&pageToken=${token}`)
      expect(body.namespaces.length).toBeLessThanOrEqual(2)
      names.push(...body.namespaces)
      token = body['next-page-token'] ?? ''
    } while (token !== '')
    expect(names).toEqual(['bronze', 'silver', 'gold'].map((layer) => ['default', layer]))
  })
})

test('HEAD says with 204 that a namespace or table exists, and has no body', async () => {
  for (const path of ['namespaces/default', GOLD, `${GOLD}/tables/orders`])
    expect(await call(`HEAD sluice/${path}`)).toMatchObject({ status: 204, text: '' })
  for (const path of ['namespaces/none', `${GOLD}/tables/none`, `${GOLD}/views/orders`])
    expect(await call(`HEAD sluice/${path}`)).toMatchObject({ status: 404, text: '' })
})

test('the configuration lists exactly the endpoints that are served', async () => {
  const { body } = await call('GET config')
  const { routes } = icebergRoutes({ base: '/iceberg', writes: {}, vending: {} } as IcebergParts)
  const served = routes
    .map(({ method, path }) => `${method} ${path.replace('/iceberg', '').replace(/:(\w+)/g, '{$1}')}`)
    .filter((endpoint) => endpoint !== 'GET /v1/config')
  const listed: string[] = body.endpoints
  expect(listed.filter((endpoint) => !endpoint.startsWith('HEAD')).sort()).toEqual(served.sort())
  // A HEAD of the specification is answered by the route of GET.
  for (const endpoint of listed.filter((each) => each.startsWith('HEAD')))
    expect(served).toContain(endpoint.replace('HEAD', 'GET'))
  expect(new Set(listed).size).toBe(listed.length)
  expect(body['idempotency-key-lifetime']).toBe('PT24H')
})

test('a repeated change of a namespace with the same key gets the first answer', async () => {
  const key = { 'idempotency-key': '017f22e2-79b0-7cc3-98c4-dc0c0c07398f' }
  const create = () => call('POST sluice.dev/namespaces', { namespace: ['repeated'] }, key)
  const describe = () =>
    call('POST sluice.dev/namespaces/repeated/properties', { updates: { a: 'b' }, removals: ['c'] }, key)
  const drop = () => call('DELETE sluice.dev/namespaces/repeated', undefined, key)
  for (const change of [create, describe, drop]) {
    const first = await change()
    expect(first.status).toBeOneOf([200, 204])
    const again = await change()
    expect([again.status, again.body]).toEqual([first.status, first.body])
  }
  expect((await call('DELETE sluice.dev/namespaces/repeated')).status).toBe(404)
})

test('a commit that fails for an unknown reason has an unknown state', async () => {
  const { body } = await call(`GET sluice.dev/${GOLD}/tables/items`)
  const [before] =
    await lake.sql`select metadata_location from lake_content where metadata_location = ${body['metadata-location']}`
  expect(before).toBeDefined()
  await lake.sql`update lake_content set metadata_location = 's3://sluice/_lake/none' where metadata_location = ${body['metadata-location']}`
  for (const [path, sent] of [
    [`${GOLD}/tables/items`, change('items')],
    ['transactions/commit', { 'table-changes': [change('items')] }],
  ] as const)
    expect(await call(`POST sluice.dev/${path}`, sent)).toMatchObject({
      status: 500,
      type: 'CommitStateUnknownException',
    })
  expect(await call(`GET sluice.dev/${GOLD}/tables/items`)).toMatchObject({
    status: 500,
    type: 'InternalServerError',
  })
})
