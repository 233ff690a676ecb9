import { expect, test } from 'bun:test'
import { duringTests } from '../../tools/kit/during.ts'
import type { Resources } from '../access/service.ts'
import { identityOf } from '../access/testing.ts'
import type { Visible } from '../core/access.ts'
import { openTestCatalog, type TestCatalog } from './test-catalog.ts'

// Namespaces of users of Iceberg REST.

const open = duringTests(() => openTestCatalog())
let names = 0
const newName = (kind: string) => `${kind}-${names++}`
const schema = { type: 'struct', fields: [{ id: 1, name: 'a', type: 'int', required: false }] }

interface Answer {
  status: number
  body: { error: { type: string; message: string }; properties?: object; namespaces?: string[][] }
}

async function call(
  method: string,
  path: string,
  body?: object,
  { lake = open, token = null }: { lake?: TestCatalog; token?: string | null } = {},
): Promise<Answer> {
  const init = { method, ...(body && { body: JSON.stringify(body) }) }
  const answer = await lake.fetch(`/iceberg/v1/${path}`, token, init)
  const text = await answer.text()
  return { status: answer.status, body: text === '' ? {} : JSON.parse(text) }
}

async function newBranch(lake = open): Promise<string> {
  const name = newName('dev')
  await lake.sql`
    insert into lake_ref (name, kind, base) select ${name}, 'user', number from lake_ref where name = 'main'`
  return `sluice.${name}/namespaces`
}

test('an engine creates, describes and drops a namespace', async () => {
  const [path, name] = [await newBranch(), newName('shop')]
  const created = await call('POST', path, { namespace: [name], properties: { comment: 'Sales', tier: '1' } })
  expect([created.status, created.body]).toMatchObject([
    200,
    { namespace: [name], properties: { comment: 'Sales', tier: '1' } },
  ])
  expect((await call('POST', path, { namespace: [name] })).body.error.type).toBe('AlreadyExistsException')
  for (const address of [name, `${name}%1Fgold`, `${name}__gold`])
    expect((await call('GET', `${path}/${address}`)).body.properties).toEqual({ comment: 'Sales', tier: '1' })
  expect(await open.sql`select description from namespace where name = ${name}`).toMatchObject([
    { description: 'Sales' },
  ])
  const changed = await call('POST', `${path}/${name}/properties`, {
    removals: ['tier', 'absent'],
    updates: { comment: 'All sales' },
  })
  expect(changed.body).toMatchObject({ updated: ['comment'], removed: ['tier'], missing: ['absent'] })
  expect((await call('GET', `${path}/${name}`)).body.properties).toEqual({ comment: 'All sales' })
  expect((await call('DELETE', `${path}/${name}`)).status).toBe(204)
  expect((await call('HEAD', `${path}/${name}`)).status).toBe(404)
  expect((await call('DELETE', `${path}/${name}`)).body.error.type).toBe('NoSuchNamespaceException')
})

test('a layer stands for its namespace', async () => {
  const [path, one, two] = [await newBranch(), newName('one'), newName('two')]
  expect((await call('POST', path, { namespace: [`${one}__silver`] })).status).toBe(200)
  expect((await call('POST', path, { namespace: [two, 'gold'] })).status).toBe(200)
  expect((await call('GET', `${path}?parent=${two}`)).body.namespaces).toEqual([
    [two, 'bronze'],
    [two, 'silver'],
    [two, 'gold'],
  ])
  expect((await call('POST', path, { namespace: [one, 'gold'] })).status).toBe(409)
  expect((await call('DELETE', `${path}/${one}__gold`)).status).toBe(204)
  expect((await call('HEAD', `${path}/${one}`)).status).toBe(404)
})

test('names that no namespace can have are refused', async () => {
  const path = await newBranch()
  for (const namespace of [['a', 'tin'], ['shop__tin'], ['Shop'], ['x'], ['shop', 'gold', 'x'], [], ['']]) {
    const { status, body } = await call('POST', path, { namespace })
    expect([namespace, status, body.error.type]).toEqual([namespace, 400, 'BadRequestException'])
  }
  for (const body of [{}, { namespace: 'shop' }, { namespace: ['shop'], properties: { a: 1 } }])
    expect((await call('POST', path, body)).status).toBe(400)
})

test('a namespace with contents on any open branch is not dropped', async () => {
  const [path, other, name] = [await newBranch(), await newBranch(), newName('full')]
  await call('POST', path, { namespace: [name] })
  expect((await call('POST', `${other}/${name}%1Fgold/tables`, { name: 't', schema })).status).toBe(200)
  const refused = await call('DELETE', `${path}/${name}`)
  expect([refused.status, refused.body.error.type]).toEqual([409, 'NamespaceNotEmptyException'])
  expect((await call('DELETE', `${other}/${name}%1Fgold/tables/t`)).status).toBe(204)
  expect((await call('DELETE', `${path}/${name}`)).status).toBe(204)
  expect((await call('HEAD', `${path}/${name}`)).status).toBe(404)
  expect((await call('DELETE', `${path}/default`)).body.error.type).toBe('ForbiddenException')
})

test('a property in removals and updates is 422', async () => {
  const path = await newBranch()
  const { status, body } = await call('POST', `${path}/default/properties`, {
    removals: ['a'],
    updates: { a: '1' },
  })
  expect([status, body.error.type]).toEqual([422, 'UnprocessableEntityException'])
  expect((await call('POST', `${path}/default/properties`, { updates: { a: 1 } })).status).toBe(400)
  expect((await call('POST', `${path}/absent/properties`, { updates: { a: '1' } })).status).toBe(404)
})

test('namespaces of read-only warehouses do not change', async () => {
  for (const [method, address, body] of [
    ['POST', '', { namespace: ['shop'] }],
    ['POST', '/default/properties', { updates: { a: '1' } }],
    ['DELETE', '/default', undefined],
  ] as const)
    for (const warehouse of ['sluice', 'sluice.0']) {
      const { status, body: answer } = await call(method, `${warehouse}/namespaces${address}`, body)
      expect([warehouse, method, status, answer.error.type]).toEqual([
        warehouse,
        method,
        403,
        'ForbiddenException',
      ])
    }
})

const sees = (...namespaces: string[]): Visible => ({ pipelines: [], zones: [], namespaces })
const pro = duringTests(() =>
  openTestCatalog(undefined, {
    config: { edition: 'pro', apiKey: 'key-of-the-tests' },
    plugins: { auth: { tokens: { verify: identityOf }, authorize: () => true }, describe: async () => ({}) },
    ownership: {
      resources: {
        namespace: async (name: string) =>
          name === 'default'
            ? { type: 'namespace', id: crypto.randomUUID(), namespace: name, owner: 'ada' }
            : null,
        isLeftoverOfNamespace: async (name: string) => name === 'left-over',
      } as unknown as Resources,
      enforcement: {
        check: async ({ userId }, _, permission) => userId === 'eve' && permission === 'read',
        listVisible: async ({ userId }) => sees(...(userId === 'bob' ? [] : ['default'])),
      },
    },
  }),
)

test('rights on namespaces are those of the API', async () => {
  const path = await newBranch(pro)
  const types = async (token: string) => [
    (await call('POST', path, { namespace: ['default'] }, { lake: pro, token })).body.error.type,
    (await call('POST', path, { namespace: ['left-over'] }, { lake: pro, token })).body.error.type,
    (await call('POST', `${path}/default/properties`, {}, { lake: pro, token })).body.error.type,
    (await call('DELETE', `${path}/default`, undefined, { lake: pro, token })).body.error.type,
  ]
  expect(await types('eve')).toEqual([
    'AlreadyExistsException',
    'ForbiddenException',
    'ForbiddenException',
    'ForbiddenException',
  ])
  expect((await types('bob')).slice(2)).toEqual(['NoSuchNamespaceException', 'NoSuchNamespaceException'])
  const name = newName('own')
  expect((await call('POST', path, { namespace: [name] }, { lake: pro, token: 'bob' })).status).toBe(200)
  expect(await pro.sql`select owner from namespace where name = ${name}`).toMatchObject([{ owner: 'bob' }])
})
