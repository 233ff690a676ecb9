import { beforeEach, expect, test } from 'bun:test'
import { duringTests } from '../../tools/kit/during.ts'
import { openTestCatalog } from '../iceberg/test-catalog.ts'
import type { Judgement } from '../quality-tests/gate.ts'
import { listCommits } from './service.ts'
import { ADA, mergesOf } from './test-merges.ts'

// Writes of engines to main with ICEBERG_MAIN_WRITES=on: each commit is a merge after the tests of its tables.

let judgement: Judgement = { results: [], reads: [] }
let judged: string[] = []
let afterMerge = async () => {}
const lake = duringTests(() =>
  openTestCatalog(
    undefined,
    {},
    (sql) => {
      const { service } = mergesOf(sql, async (tables) => {
        judged.push(...tables.map(({ name }) => name))
        return judgement
      })
      return async (branch, message, _, within) => {
        const merged = await service.merge(branch, { message }, ADA, within)
        await afterMerge()
        return merged
      }
    },
    // user-views.test.ts binds views with a real query service.
    async () => [{ name: 'a', type: 'INTEGER' }],
  ),
)
beforeEach(() => {
  judgement = { results: [], reads: [] }
  judged = []
  afterMerge = async () => {}
})

const schema = { type: 'struct', fields: [{ id: 1, name: 'a', type: 'int', required: false }] }
const GOLD = 'namespaces/default%1Fgold'
let names = 0
const newName = () => `t-${names++}`

async function call(method: string, path: string, body?: object, headers = {}) {
  const init = { method, headers, ...(body && { body: JSON.stringify(body) }) }
  const answer = await lake.fetch(`/iceberg/v1/sluice/${path}`, null, init)
  const text = await answer.text()
  return { status: answer.status, body: text === '' ? {} : JSON.parse(text) }
}
const create = (name: string, headers = {}) => call('POST', `${GOLD}/tables`, { name, schema }, headers)
const describe = (name: string) => ({
  identifier: { namespace: ['default', 'gold'], name },
  requirements: [{ type: 'assert-current-schema-id', 'current-schema-id': 0 }],
  updates: [{ action: 'set-properties', updates: { owner: 'ada' } }],
})
const commits = async () => [
  ...(await lake.sql`select message, tables from lake_commit where number is not null order by number`),
]
const openBranches = () => lake.sql`select from lake_ref where kind = 'user' and state = 'open'`

test('each write is one tested commit of main', async () => {
  const [one, two] = [newName(), newName()]
  expect((await create(one)).status).toBe(200)
  expect((await create(two)).status).toBe(200)
  const before = (await commits()).length
  const changes = { 'table-changes': [describe(one), describe(two)] }
  expect((await call('POST', 'transactions/commit', changes)).status).toBe(204)
  expect((await commits()).slice(before)).toEqual([
    {
      message: `create default.gold.${one} and 1 more tables`,
      tables: [one, two].map((name) => `default.gold.${name}`),
    },
  ])
  expect((await call('GET', `${GOLD}/tables/${two}`)).body.metadata.properties.owner).toBe('ada')
  const names = {
    source: describe(two).identifier,
    destination: { ...describe(two).identifier, name: 'moved' },
  }
  expect((await call('POST', 'tables/rename', names)).status).toBe(204)
  expect((await call('DELETE', `${GOLD}/tables/${one}`)).status).toBe(204)
  const { identifiers } = (await call('GET', `${GOLD}/tables`)).body
  expect(identifiers).toEqual([{ namespace: ['default', 'gold'], name: 'moved' }])
  expect(judged).toEqual([one, two, one, two, 'moved'])
  expect(await openBranches()).toHaveLength(0)
})

test('failed tests refuse the commit by their names, and nothing changes', async () => {
  const name = newName()
  await create(name)
  const before = await commits()
  const result = { table: `default.gold.${name}`, name: 'no-nulls', status: 'failed', severity: 'error' }
  judgement = { results: [result as Judgement['results'][number]], reads: [] }
  const { requirements, updates } = describe(name)
  const refused = await call('POST', `${GOLD}/tables/${name}`, { requirements, updates })
  expect([refused.status, refused.body.error.type]).toEqual([400, 'BadRequestException'])
  expect(refused.body.error.message).toContain(`default.gold.${name} no-nulls`)
  expect(await commits()).toEqual(before)
  expect((await call('GET', `${GOLD}/tables/${name}`)).body.metadata.properties.owner).toBeUndefined()
  expect(await openBranches()).toHaveLength(0)
})

test('a view on main passes the tests of its name first', async () => {
  const name = newName()
  const view = {
    name,
    schema,
    properties: {},
    'view-version': {
      summary: {},
      representations: [{ type: 'sql', sql: 'select 1 as a', dialect: 'duckdb' }],
      'default-namespace': ['default', 'gold'],
    },
  }
  const create = () => call('POST', `${GOLD}/views`, view)
  const result = { table: `default.gold.${name}`, name: 'no-nulls', status: 'failed', severity: 'error' }
  judgement = { results: [result as Judgement['results'][number]], reads: [] }
  expect((await create()).body.error?.type).toBe('BadRequestException')
  expect((await call('GET', `${GOLD}/views/${name}`)).status).toBe(404)
  judgement = { results: [], reads: [] }
  expect((await create()).status).toBe(200)
  expect((await call('GET', `${GOLD}/views/${name}`)).status).toBe(200)
  expect(judged).toEqual([name, name])
})

test('the second of two commits from one state is a conflict', async () => {
  const name = newName()
  await create(name)
  const add = (property: string) =>
    call('POST', `${GOLD}/tables/${name}`, {
      requirements: [{ type: 'assert-current-schema-id', 'current-schema-id': 0 }],
      updates: [
        {
          action: 'add-schema',
          schema: { ...schema, fields: [...schema.fields, { ...schema.fields[0], id: 2, name: property }] },
        },
        { action: 'set-current-schema', 'schema-id': -1 },
      ],
    })
  const answers = await Promise.all([add('b'), add('c')])
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 409])
  expect(answers.find(({ status }) => status === 409)?.body.error.type).toBe('CommitFailedException')
})

test('a repeated write to main with the same idempotency key gets the first answer', async () => {
  const [name, headers] = [newName(), { 'idempotency-key': newName() }]
  const first = await create(name, headers)
  expect(first.status).toBe(200)
  expect(await create(name, headers)).toEqual(first)
})

test('a repeated key gets the first answer although its process died after the merge', async () => {
  const name = newName()
  const key = { 'idempotency-key': newName() }
  const merged = Promise.withResolvers<void>()
  // The first request never gets further, as if its process had been killed.
  afterMerge = () => {
    merged.resolve()
    return new Promise(() => {})
  }
  const died = new AbortController()
  const first = lake
    .fetch(`/iceberg/v1/sluice/${GOLD}/tables`, null, {
      method: 'POST',
      headers: key,
      body: JSON.stringify({ name, schema }),
      signal: died.signal,
    })
    .catch(() => 'no answer')
  await merged.promise
  died.abort()
  expect(await first).toBe('no answer')
  afterMerge = async () => {}
  const before = await commits()
  const repeated = await create(name, key)
  const loaded = await call('GET', `${GOLD}/tables/${name}`)
  expect([repeated.status, repeated.body['metadata-location']]).toEqual([
    200,
    loaded.body['metadata-location'],
  ])
  expect(await create(name, { 'idempotency-key': newName() })).toMatchObject({ status: 409 })
  expect(await commits()).toEqual(before)
})

test('concurrent writes to main with one key make one commit', async () => {
  const [name, key] = [newName(), { 'idempotency-key': newName() }]
  const before = (await commits()).length
  const answers = await Promise.all(Array.from({ length: 4 }, () => create(name, key)))
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200])
  expect(new Set(answers.map(({ body }) => body['metadata-location'])).size).toBe(1)
  expect((await commits()).length).toBe(before + 1)
})

test('a write to main is shown as a commit of main with its author', async () => {
  const name = newName()
  await create(name)
  const everything = { namespaces: 'all', pipelines: 'all', zones: 'all' } as const
  const { commits } = await listCommits(
    lake.sql,
    { branch: 'main', visible: everything },
    { limit: 1, offset: 0 },
  )
  expect(commits).toMatchObject([
    {
      branch: 'main',
      author: 'ada',
      message: `create default.gold.${name}`,
      tables: [`default.gold.${name}`],
    },
  ])
})

test('credentials of main write to the table; those of the past do not', async () => {
  const name = newName()
  await create(name)
  const { commit } = await lake.reader()
  const grant = async (warehouse: string) => {
    const answer = await lake.fetch(`/iceberg/v1/${warehouse}/${GOLD}/tables/${name}`, null, {
      headers: { 'x-iceberg-access-delegation': 'vended-credentials' },
    })
    const { config } = (await answer.json()) as { config: Record<string, string> }
    const payload = config['s3.session-token']?.split('.')[0] ?? ''
    return JSON.parse(Buffer.from(payload, 'base64url').toString()).write
  }
  expect(await grant('sluice')).toStartWith(`_lake/default/gold/${name}-`)
  expect(await grant(`sluice.${commit}`)).toBeNull()
})

test('a write of an engine to a protected table of main is refused', async () => {
  const name = newName()
  const protect = (review: string) =>
    lake.sql`update namespace set protection = ${lake.sql.json({ review })} where name = 'default'`
  try {
    for (const review of ['any', 'four-eyes']) {
      await protect(review)
      const refused = await create(name)
      expect([refused.status, refused.body.error.type]).toEqual([403, 'ForbiddenException'])
      expect(refused.body.error.message).toContain(`protected by review: ${review}: write to a branch`)
    }
  } finally {
    await protect('none')
  }
  expect(await openBranches()).toHaveLength(0)
  expect((await create(name)).status).toBe(200)
})
