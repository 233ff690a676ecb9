import { expect, test } from 'bun:test'
import { keyIn, keyOf } from '../../lake/iceberg/format/location.ts'
import { currentSnapshot } from '../../lake/iceberg/format/metadata.ts'
import { Conflict, NotFound } from '../../lake/iceberg/read/client.ts'
import { schemaForReplace } from '../../lake/iceberg/write/evolution.ts'
import { duringTests } from '../../tools/kit/during.ts'
import { closeBranches } from '../versions/store/branches.ts'
import { tableAt } from '../versions/store/tables.ts'
import { openTestCatalog, ROOT } from './test-catalog.ts'

const catalog = duringTests(openTestCatalog)

const tableNamed = (name: string) => ({ namespace: 'default', layer: 'gold' as const, name })
const identifierOf = (name: string) => ({ namespace: ['default', 'gold'], name })
const aSchema = schemaForReplace([{ name: 'a', type: 'INTEGER' }]).schema

test('main shows each create, append and overwrite after its merge', async () => {
  const first = await catalog.attempt(tableNamed('journey'))
  const created = await first.write(`select 1 as a, 'x' as b union all select 2, 'y'`, 'append')
  await expect((await catalog.reader()).client.loadTable(identifierOf('journey'))).rejects.toThrow(NotFound)
  expect(await catalog.rows(first.token, created.metadata)).toEqual([
    { a: 1, b: 'x' },
    { a: 2, b: 'y' },
  ])
  expect(await catalog.merge(first, created.commit)).toBe('merged')

  const second = await catalog.attempt(tableNamed('journey'))
  const appended = await second.write(`select 3 as a, 'z' as b, 1.5::decimal(4,2) as c`, 'append')
  expect(await catalog.merge(second, appended.commit)).toBe('merged')
  const afterAppend = await catalog.reader()
  const { metadata } = await afterAppend.client.loadTable(identifierOf('journey'))
  expect(metadata.refs.main?.['snapshot-id']).toBe(currentSnapshot(appended.metadata)?.['snapshot-id'])
  expect(await catalog.rows(afterAppend.token, metadata)).toEqual([
    { a: 1, b: 'x', c: null },
    { a: 2, b: 'y', c: null },
    { a: 3, b: 'z', c: '1.50' },
  ])
  expect(await tableAt(catalog.sql, afterAppend.commit, tableNamed('journey'))).toMatchObject({
    columns: [
      { name: 'a', type: 'INTEGER' },
      { name: 'b', type: 'VARCHAR' },
      { name: 'c', type: 'DECIMAL(4,2)' },
    ],
    rowCount: 3,
  })

  const third = await catalog.attempt(tableNamed('journey'))
  const overwritten = await third.write(`select 9 as a`, 'overwrite')
  expect(await catalog.merge(third, overwritten.commit)).toBe('merged')
  const last = await catalog.reader()
  const now = await last.client.loadTable(identifierOf('journey'))
  expect(await catalog.rows(last.token, now.metadata)).toEqual([{ a: 9 }])
  // A reader of the earlier commit still sees the earlier rows.
  const then = await afterAppend.client.loadTable(identifierOf('journey'))
  expect(await catalog.rows(afterAppend.token, then.metadata)).toHaveLength(3)
})

test('a branch sees its own commits; main and other branches do not', async () => {
  const one = await catalog.attempt(tableNamed('private'))
  const other = await catalog.attempt(tableNamed('private'))
  const { metadata } = await one.write('select 1 as a', 'append')
  const seen = await one.client.loadTable(identifierOf('private'))
  expect(seen.metadata).toEqual(metadata)
  expect(seen.metadataLocation).toStartWith(`${metadata.location}/commits/00000-`)
  await expect(other.client.loadTable(identifierOf('private'))).rejects.toThrow(NotFound)
})

test('the metadata directory of a table holds no metadata file of any branch', async () => {
  const merged = await catalog.attempt(tableNamed('apart'))
  const { commit, metadata } = await merged.write('select 1 as a', 'append')
  expect(await catalog.merge(merged, commit)).toBe('merged')
  const failed = await catalog.attempt(tableNamed('apart'))
  await failed.write('select 2 as a', 'append')
  const found = await catalog.objects.list(`${keyIn(metadata.location)}/`, { limit: 100 })
  const directories = found.objects
    .filter(({ key }) => key.endsWith('.metadata.json'))
    .map(({ key }) => key.split('/').at(-2))
  expect(directories).toEqual(['commits', 'commits'])
})

test('the second merge of two runs with the same base conflicts', async () => {
  const [one, two] = [await catalog.attempt(tableNamed('raced')), await catalog.attempt(tableNamed('raced'))]
  const a = await one.write('select 1 as a', 'append')
  const b = await two.write('select 2 as a', 'append')
  expect(await catalog.merge(one, a.commit)).toBe('merged')
  expect(await catalog.merge(two, b.commit)).toBe('conflict')
})

test('a commit from an outdated state of its branch is refused', async () => {
  const attempt = await catalog.attempt(tableNamed('stale'))
  await attempt.write('select 1 as a', 'append')
  const planned = await attempt.plan('select 2 as a', 'append')
  await attempt.write('select 3 as a', 'append')
  await expect(attempt.client.commit(identifierOf('stale'), planned)).rejects.toThrow(Conflict)
  const { metadata } = await attempt.client.loadTable(identifierOf('stale'))
  expect(await catalog.rows(attempt.token, metadata)).toEqual([{ a: 1 }, { a: 3 }])
})

test('one of several identical commits is accepted, and loadTable identifies it', async () => {
  const attempt = await catalog.attempt(tableNamed('twice'))
  const planned = await attempt.plan('select 1 as a', 'append')
  const answers = await Promise.allSettled(
    Array.from({ length: 4 }, () => attempt.client.commit(identifierOf('twice'), planned)),
  )
  const accepted = answers.flatMap((answer) => (answer.status === 'fulfilled' ? [answer.value] : []))
  expect(accepted).toHaveLength(1)
  for (const answer of answers)
    if (answer.status === 'rejected') expect(answer.reason).toBeInstanceOf(Conflict)
  const loaded = await attempt.client.loadTable(identifierOf('twice'))
  expect(currentSnapshot(loaded.metadata)?.['snapshot-id']).toBe(planned.snapshot['snapshot-id'])
  expect(loaded.config['x-sluice-commit']).toBe(accepted[0]?.config['x-sluice-commit'] ?? 'none')
})

test('a closed branch refuses planned commits and new tables', async () => {
  const attempt = await catalog.attempt(tableNamed('closed'))
  const planned = await attempt.plan('select 1 as a', 'append')
  await catalog.sql.begin((tx) => closeBranches(tx, [attempt.branch]))
  await expect(attempt.client.commit(identifierOf('closed'), planned)).rejects.toThrow(Conflict)
  await expect(
    attempt.client.createTable(identifierOf('closed'), { schema: aSchema, isStaged: false }),
  ).rejects.toThrow(Conflict)
})

test('snapshot ids pass through the catalog unchanged', async () => {
  const attempt = await catalog.attempt(tableNamed('ids'))
  const planned = await attempt.plan('select 1 as a', 'append')
  await attempt.client.commit(identifierOf('ids'), planned)
  const { metadata } = await attempt.client.loadTable(identifierOf('ids'))
  expect(metadata['current-snapshot-id']).toBe(planned.snapshot['snapshot-id'])
  const [{ stored } = { stored: '' }] = await catalog.sql<{ stored: string }[]>`
    select snapshot_id as stored from lake_content where table_uuid = ${metadata['table-uuid']}`
  expect(stored).toBe(String(planned.snapshot['snapshot-id']))
})

test('a table created without staging is empty and cannot be created again', async () => {
  const attempt = await catalog.attempt(tableNamed('empty'))
  const created = await attempt.client.createTable(identifierOf('empty'), {
    schema: aSchema,
    isStaged: false,
  })
  expect(created.config['x-sluice-commit']).toBeString()
  const loaded = await attempt.client.loadTable(identifierOf('empty'))
  expect(loaded.metadata['current-snapshot-id']).toBeUndefined()
  await expect(
    attempt.client.createTable(identifierOf('empty'), { schema: aSchema, isStaged: true }),
  ).rejects.toMatchObject({ type: 'AlreadyExistsException' })
})

test('an attempt writes only its target, and a reader writes nothing', async () => {
  const attempt = await catalog.attempt(tableNamed('mine'))
  const planned = await attempt.plan('select 1 as a', 'append')
  await expect(
    attempt.client.createTable(identifierOf('yours'), { schema: aSchema, isStaged: true }),
  ).rejects.toMatchObject({ type: 'ForbiddenException' })
  const { client } = await catalog.reader()
  await expect(client.commit(identifierOf('mine'), planned)).rejects.toMatchObject({
    type: 'ForbiddenException',
  })
  await expect(
    client.createTable(identifierOf('mine'), { schema: aSchema, isStaged: false }),
  ).rejects.toMatchObject({ type: 'ForbiddenException' })
})

test('a token gives access only to its own warehouse', async () => {
  const attempt = await catalog.attempt(tableNamed('own'))
  const other = await catalog.attempt(tableNamed('own'))
  const config = (warehouse: string, token: string | null) =>
    catalog.fetch(`/catalog/v1/config?warehouse=${encodeURIComponent(warehouse)}`, token)
  expect((await config(`sluice@${attempt.branch}`, attempt.token)).status).toBe(200)
  expect((await config(`sluice@${other.branch}`, attempt.token)).status).toBe(403)
  expect((await config('sluice', attempt.token)).status).toBe(403)
  expect((await config(`sluice@${attempt.branch}`, (await catalog.reader()).token)).status).toBe(403)
  expect((await config('', attempt.token)).status).toBe(403)
  for (const token of [null, 'nonsense', `${attempt.token}x`]) {
    const refused = await config(`sluice@${attempt.branch}`, token)
    expect(refused.status).toBe(401)
    expect(await refused.json()).toEqual({
      error: { message: 'a valid bearer token is needed', type: 'NotAuthorizedException', code: 401 },
    })
  }
})

test('a request without a valid token gets 401 for any table name', async () => {
  const attempt = await catalog.attempt(tableNamed('hidden'))
  const warehouse = encodeURIComponent(`sluice@${attempt.branch}`)
  const under = `/catalog/v1/${warehouse}/namespaces`
  const asked = (method: string, path: string, token: string | null) =>
    catalog.fetch(`${under}${path}`, token, { method, ...(method === 'POST' ? { body: '{}' } : {}) })
  for (const table of ['/default/tables/a', '/default%1Fgold/tables/hidden', '/%20/tables/%20'])
    for (const method of ['GET', 'HEAD', 'POST'])
      for (const token of [null, `${attempt.token}x`])
        expect([method, table, (await asked(method, table, token)).status]).toEqual([method, table, 401])
  expect((await asked('POST', '/default/tables/a', attempt.token)).status).toBe(404)
})

test('a commit may name only locations in the directory of its table', async () => {
  const attempt = await catalog.attempt(tableNamed('placed'))
  const { metadata } = await attempt.write('select 1 as a', 'append')
  const planned = await attempt.plan('select 2 as a', 'append')
  const elsewhere = [
    's3://sluice/_lake/default/gold/other-01234567/metadata/x.avro',
    's3://sluice/default/pipelines/gold/placed/pipeline.sql',
    'file:///etc/passwd',
    `${metadata.location}/../../../x`,
  ]
  for (const location of elsewhere) {
    const updates = planned.updates.map((update) =>
      update.action === 'add-snapshot'
        ? { ...update, snapshot: { ...update.snapshot, 'manifest-list': location } }
        : update,
    )
    const moved = [{ action: 'set-location' as const, location }]
    for (const wrong of [updates, moved])
      await expect(
        attempt.client.commit(identifierOf('placed'), { requirements: [], updates: wrong }),
      ).rejects.toMatchObject({ status: 400 })
  }
})

test('invalid bodies get 400 and unknown names 404 with Iceberg errors', async () => {
  const attempt = await catalog.attempt(tableNamed('bad'))
  const tables = `/catalog/v1/sluice%40${attempt.branch}/namespaces/default%1Fgold/tables`
  const post = (path: string, body: string) =>
    catalog.fetch(path, attempt.token, {
      method: 'POST',
      body,
      headers: { 'content-type': 'application/json' },
    })
  for (const body of [
    '',
    '{',
    '[]',
    '{}',
    '{"name":"bad"}',
    '{"name":"bad","schema":{"type":"struct","fields":[{}]}}',
  ]) {
    const refused = await post(tables, body)
    expect([body, refused.status]).toEqual([body, 400])
    expect(await refused.json()).toMatchObject({ error: { type: 'BadRequestException', code: 400 } })
  }
  const missing = await catalog.fetch(`${tables}/missing`, attempt.token)
  expect(missing.status).toBe(404)
  expect(await missing.json()).toMatchObject({ error: { type: 'NoSuchTableException' } })
  expect((await post(`${tables}/bad`, '{"requirements":[],"updates":[]}')).status).toBe(404)
  expect((await post(`${tables}/bad`, `"${'x'.repeat(5_000_000)}"`)).status).toBe(413)
  const odd = `/catalog/v1/sluice%40${attempt.branch}/namespaces`
  for (const path of [
    `${odd}/default%1Fbrass/tables/x`,
    `${odd}/default/tables/x`,
    `${odd}/%1F%1F/tables/x`,
  ]) {
    const answer = await catalog.fetch(path, attempt.token)
    expect([path, answer.status]).toEqual([path, 404])
    expect(await answer.json()).toMatchObject({ error: { type: 'NoSuchTableException' } })
  }
  expect((await catalog.fetch(`${tables}/a%00b`, attempt.token)).status).toBe(400)
})

test('Iceberg lists Sluice namespaces with layers and creates none', async () => {
  const { client, fetch } = { client: (await catalog.attempt(tableNamed('x'))).client, fetch: catalog.fetch }
  expect(await client.namespaceExists(['default', 'gold'])).toBe(true)
  expect(await client.namespaceExists(['default', 'brass'])).toBe(false)
  expect(await client.namespaceExists(['unknown'])).toBe(false)
  await expect(client.createNamespace(['default', 'silver'])).rejects.toMatchObject({
    type: 'AlreadyExistsException',
  })
  await expect(client.createNamespace(['unknown', 'silver'])).rejects.toMatchObject({ status: 403 })
  const { token } = await catalog.reader()
  const list = async (path: string) => (await fetch(`/catalog/v1/sluice/namespaces${path}`, token)).json()
  expect(await list('')).toEqual({ namespaces: [['default']] })
  expect(await list('?parent=default')).toEqual({
    namespaces: [
      ['default', 'bronze'],
      ['default', 'silver'],
      ['default', 'gold'],
    ],
  })
  expect(await list('/default%1Fgold')).toEqual({
    namespace: ['default', 'gold'],
    properties: { comment: 'The namespace that always exists' },
  })
})

test('a list of tables contains the tables that the branch sees', async () => {
  const attempt = await catalog.attempt(tableNamed('listed'))
  await attempt.write('select 1 as a', 'append')
  const list = async (warehouse: string, token: string) => {
    const answer = await catalog.fetch(
      `/catalog/v1/${encodeURIComponent(warehouse)}/namespaces/default%1Fgold/tables`,
      token,
    )
    const { identifiers }: { identifiers: { name: string }[] } = await answer.json()
    return identifiers.map(({ name }) => name)
  }
  expect(await list(`sluice@${attempt.branch}`, attempt.token)).toContain('listed')
  expect(await list('sluice', (await catalog.reader()).token)).not.toContain('listed')
})

test('a missing metadata file is an internal error without details', async () => {
  const attempt = await catalog.attempt(tableNamed('lost'))
  await attempt.write('select 1 as a', 'append')
  // The cache still holds the file, so the row must name another path. This simulates a process with an empty cache.
  const { metadataLocation = '' } = await attempt.client.loadTable(identifierOf('lost'))
  const elsewhere = metadataLocation.replace('/00000-', '/00001-')
  await catalog.sql`update lake_content set metadata_location = ${elsewhere} where metadata_location = ${metadataLocation}`
  const path = `/catalog/v1/sluice%40${attempt.branch}/namespaces/default%1Fgold/tables/lost`
  const answer = await catalog.fetch(path, attempt.token)
  expect(answer.status).toBe(500)
  expect(await answer.json()).toEqual({
    error: { message: 'internal error', type: 'InternalServerError', code: 500 },
  })
  expect(await catalog.objects.head(keyOf(ROOT, metadataLocation))).not.toBeNull()
})
