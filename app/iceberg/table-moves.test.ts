import { beforeEach, expect, test } from 'bun:test'
import { parseJson } from '../../lake/iceberg/format/json.ts'
import { keyIn } from '../../lake/iceberg/format/location.ts'
import { metadataFrom, parseMetadata } from '../../lake/iceberg/format/metadata.ts'
import { newId } from '../core/ids.ts'
import { lockedHead } from '../versions/store/branches.ts'
import { tableAt } from '../versions/store/tables.ts'
import { lockedBranch } from '../versions/store/user-branches.ts'
import { changesOf, mergeUserBranch } from '../versions/store/user-merges.ts'
import { agingLake } from '../versions/test-aging-lake.ts'

// Renamed and registered tables of users of Iceberg REST.

const { lake, someTable, age, tick } = agingLake()
const GOLD = '/namespaces/default%1Fgold'
const schema = { type: 'struct', fields: [{ id: 1, name: 'a', type: 'int', required: false }] }
let branch = ''
beforeEach(async () => {
  branch = await newBranch()
})

let branches = 0
async function newBranch(): Promise<string> {
  const name = `dev-${branches++}`
  await lake.catalog.sql`
    insert into lake_ref (name, kind, base) select ${name}, 'user', number from lake_ref where name = 'main'`
  return name
}

interface Answer {
  status: number
  body: { error?: { type: string; message: string }; metadata: object; 'metadata-location': string }
}

async function call(method: string, path: string, body?: object, on = `sluice.${branch}`): Promise<Answer> {
  const answer = await lake.catalog.fetch(`/iceberg/v1/${on}${path}`, null, {
    method,
    ...(body && { body: JSON.stringify(body) }),
  })
  const text = await answer.text()
  return { status: answer.status, body: text === '' ? {} : parseJson(text) } as Answer
}

const named = (name: string, namespace = ['default', 'gold']) => ({ namespace, name })
const rename = (from: string, to: string, on?: string) =>
  call('POST', '/tables/rename', { source: named(from), destination: named(to) }, on)
const register = (name: string, location: string, more = {}) =>
  call('POST', `${GOLD}/register`, { name, 'metadata-location': location, ...more })
const load = (name: string, on?: string) => call('GET', `${GOLD}/tables/${name}`, undefined, on)
const typeOf = ({ status, body }: Answer) => [status, body.error?.type]

async function rowsOf(name: string, on?: string) {
  const { token } = await lake.catalog.reader()
  // Engines of users get no former directories, so the rows are read as Sluice reads them.
  const stored = await lake.catalog.objects.text(keyIn((await load(name, on)).body['metadata-location']))
  return lake.catalog.rows(token, parseMetadata(stored?.text ?? ''))
}

async function merge(): Promise<void> {
  await lake.catalog.sql.begin(async (tx) => {
    await lockedHead(tx)
    const open = await lockedBranch(tx, branch)
    if (open === null) throw new Error(`branch ${branch} is not open`)
    const changes = await changesOf(tx, branch)
    await mergeUserBranch(tx, { branch: open, id: newId(), author: null, message: 'merged', changes })
  })
  branch = await newBranch()
}

test('a renamed table keeps its rows and files after the reaper and new writes', async () => {
  const { table, write } = await someTable()
  await write('select 1 as a')
  await write('select 2 as a', 'append')
  branch = await newBranch()
  const before = metadataFrom((await load(table.name)).body.metadata)
  expect((await rename(table.name, 'renamed')).status).toBe(204)
  expect([(await load(table.name)).status, (await load(table.name, 'sluice')).status]).toEqual([404, 200])
  const after = metadataFrom((await load('renamed')).body.metadata)
  expect([after['table-uuid'], after.snapshots]).toEqual([before['table-uuid'], before.snapshots])
  expect(after.location).toContain('/default/gold/renamed-')
  expect(Object.keys(after).filter((key) => key.startsWith('sluice.'))).toEqual([])
  await merge()
  expect((await load(table.name, 'sluice')).status).toBe(404)
  expect(await rowsOf('renamed', 'sluice')).toEqual([{ a: 1 }, { a: 2 }])

  const attempt = await lake.catalog.attempt({ ...table, name: 'renamed' })
  const { commit } = await attempt.write('select 3 as a', 'append')
  expect(await lake.catalog.merge(attempt, commit)).toBe('merged')
  for (const days of [9, 40]) {
    await age(days)
    await tick()
    expect(await rowsOf('renamed', 'sluice')).toEqual([{ a: 1 }, { a: 2 }, { a: 3 }])
  }
  const granted = await lake.catalog.fetch(`/iceberg/v1/sluice${GOLD}/tables/renamed/credentials`, null)
  const prefixes = ((await granted.json()) as { 'storage-credentials': { prefix: string }[] })[
    'storage-credentials'
  ].map(({ prefix }) => prefix)
  expect(prefixes).toEqual(expect.arrayContaining([before.location, after.location]))

  branch = await newBranch()
  expect((await rename('renamed', table.name)).status).toBe(204)
  expect(await rowsOf(table.name)).toHaveLength(3)
  expect((await load(table.name)).body.metadata).toMatchObject({ location: before.location })
})

test('a rename with a taken or missing name changes nothing', async () => {
  const one = await someTable()
  await one.write('select 1 as a')
  branch = await newBranch()
  await call('POST', `${GOLD}/tables`, { name: 'taken', schema })
  const { name } = one.table
  expect(typeOf(await rename(name, 'taken'))).toEqual([409, 'AlreadyExistsException'])
  expect(typeOf(await rename(name, name))).toEqual([409, 'AlreadyExistsException'])
  expect(typeOf(await rename('absent', 'new'))).toEqual([404, 'NoSuchTableException'])
  expect(typeOf(await rename(name, 'No Name'))).toEqual([400, 'BadRequestException'])
  for (const namespace of [['absent', 'gold'], ['default', 'tin'], ['default']]) {
    const body = { source: named(name), destination: named('new', namespace) }
    expect(typeOf(await call('POST', '/tables/rename', body))).toEqual([404, 'NoSuchNamespaceException'])
  }
  expect(typeOf(await rename(name, 'new', 'sluice'))).toEqual([403, 'ForbiddenException'])
  expect(typeOf(await call('POST', '/tables/rename', { source: named(name) }))).toEqual([
    400,
    'BadRequestException',
  ])
  expect((await load(name)).status).toBe(200)
})

test('a dropped table is registered again from its metadata file', async () => {
  const { body } = await call('POST', `${GOLD}/tables`, { name: 'own', schema })
  const file = body['metadata-location']
  expect(typeOf(await register('own', file))).toEqual([409, 'AlreadyExistsException'])
  expect(typeOf(await register('other', file))).toEqual([409, 'AlreadyExistsException'])
  expect((await call('DELETE', `${GOLD}/tables/own`)).status).toBe(204)
  const registered = await register('own', file)
  expect([registered.status, registered.body['metadata-location']]).toEqual([200, file])
  expect((await load('own')).body.metadata).toEqual(body.metadata)
})

test('a state that main keeps is registered under another name', async () => {
  const { table, write } = await someTable()
  await write('select 1 as a')
  const file = (await load(table.name, 'sluice')).body['metadata-location']
  await write('select 2 as a', 'append')
  branch = await newBranch()
  expect((await call('DELETE', `${GOLD}/tables/${table.name}`)).status).toBe(204)
  expect((await register('earlier', file)).status).toBe(200)
  expect(await rowsOf('earlier')).toEqual([{ a: 1 }])
  await merge()
  await age(9)
  await tick()
  await age(40)
  await tick()
  expect(await rowsOf('earlier', 'sluice')).toEqual([{ a: 1 }])
  const content = await tableAt(lake.catalog.sql, (await lake.catalog.reader()).commit, {
    ...table,
    name: 'earlier',
  })
  expect(content).not.toBeNull()
})

test('only metadata files that the catalog wrote are registered', async () => {
  const { body } = await call('POST', `${GOLD}/tables`, { name: 'own', schema })
  const file = body['metadata-location']
  await call('DELETE', `${GOLD}/tables/own`)
  const forged = file.replace('/commits/', '/metadata/')
  await lake.catalog.objects.put(forged.slice('s3://sluice/'.length), new TextEncoder().encode('{}'))
  for (const location of [
    's3://elsewhere/warehouse/own/metadata/00000-x.metadata.json',
    's3://other/_lake/default/gold/own-01234567/commits/00000-x.metadata.json',
    file.replace('.metadata.json', '.json'),
    file.replace('s3://sluice/', 's3://sluice/../sluice/'),
    file.replace('/commits/', '/commits/../commits/'),
    `file:///etc/passwd`,
    forged,
    file.replace('00000-', '00009-'),
  ])
    expect([location, ...typeOf(await register('new', location))]).toEqual([
      location,
      400,
      'BadRequestException',
    ])
  expect(typeOf(await register('own', file, { overwrite: true }))).toEqual([
    406,
    'UnsupportedOperationException',
  ])
  expect(typeOf(await call('POST', `${GOLD}/register`, { name: 'own' }))).toEqual([
    400,
    'BadRequestException',
  ])
})
