import { expect, test } from 'bun:test'
import { fromJson } from '@bufbuild/protobuf'
import { LandingInputSchema } from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { duringTests } from '../../tools/kit/during.ts'
import { newId } from '../core/ids.ts'
import { openTestCatalog, type TestAttempt } from '../iceberg/test-catalog.ts'
import { closeBranches } from '../versions/store/branches.ts'
import { anUpload, aRun, aZone } from '../versions/test-rows.ts'

const catalog = duringTests(openTestCatalog)

const tableNamed = (name: string) => ({ namespace: 'default', layer: 'gold' as const, name })
const commits = (path: string, token: string | null) =>
  catalog.fetch(`/catalog/sluice/v1/commits/${path}`, token)

test('lists the tables of a commit and the changes since another commit', async () => {
  for (const name of ['one', 'two']) {
    const attempt = await catalog.attempt(tableNamed(name))
    await catalog.merge(attempt, (await attempt.write('select 1 as a', 'append')).commit)
  }
  const { token, commit } = await catalog.reader()
  const all = await (await commits(`${commit}/tables`, token)).json()
  expect(all).toMatchObject({
    commit,
    tables: [
      {
        ...tableNamed('one'),
        columns: [{ name: 'a', type: 'INTEGER' }],
        row_count: 1,
        content_id: expect.any(String),
        metadata_location: expect.stringMatching(
          /^s3:\/\/sluice\/_lake\/default\/gold\/one-[0-9a-f]{8}\/commits\//,
        ),
        size_bytes: expect.any(Number),
      },
      tableNamed('two'),
    ],
    dropped: [],
  })
  expect(Object.keys(all.tables[0]).sort()).toEqual(
    [
      'columns',
      'content_id',
      'kind',
      'layer',
      'metadata_location',
      'name',
      'namespace',
      'row_count',
      'size_bytes',
    ].sort(),
  )
  const since = await (await commits(`${commit}/tables?since=${commit - 1}`, token)).json()
  expect(since.tables).toEqual([all.tables[1]])
  expect((await (await commits(`${commit}/tables?since=${commit}`, token)).json()).tables).toEqual([])
})

test('a token reads main only up to its commit', async () => {
  const { token, commit } = await catalog.reader()
  const refused = await commits(`${commit + 1}/tables`, token)
  expect(refused.status).toBe(403)
  expect(await refused.json()).toMatchObject({ error: { type: 'ForbiddenException', code: 403 } })
  const attempt = await catalog.attempt(tableNamed('one'))
  expect((await commits(`${commit}/tables`, attempt.token)).status).toBe(200)
  expect((await commits(`${commit + 1}/tables`, attempt.token)).status).toBe(403)
  expect((await commits(`${commit}/tables`, null)).status).toBe(401)
})

test('an invalid commit number is refused', async () => {
  const { token, commit } = await catalog.reader()
  for (const path of [
    'x/tables',
    '-1/tables',
    '1.5/tables',
    '99999999999999999999/tables',
    '0/tables?since=x',
    `0/tables?since=${commit}`,
  ])
    expect([path, (await commits(path, token)).status]).toEqual([path, 400])
})

const landing = (zone: string, token: string | null) =>
  catalog.fetch(`/catalog/sluice/v1/landing/default/${zone}`, token)
const filesOf = async (zone: string, attempt: TestAttempt) => {
  const answer = await landing(zone, attempt.token)
  return fromJson(LandingInputSchema, await answer.json())
}

test("the first request freezes a zone's unarchived files up to the watermark", async () => {
  const zone = await aZone(catalog.sql, 'frozen')
  const archived = await anUpload(catalog, zone, 'archived.csv', 'x')
  await catalog.sql`update landing_file set archived_by_run = ${newId()} where id = ${archived.id}`
  const first = await anUpload(catalog, zone, 'first.csv', 'abc')
  const second = await anUpload(catalog, zone, 'second.csv', 'x')
  await anUpload(catalog, zone, 'late.csv', 'x')
  const attempt = await catalog.attempt(tableNamed('reads'))
  await aRun(catalog.sql, attempt, { watermark: second.seq })

  const input = await filesOf('frozen', attempt)
  expect([input.namespace, input.zone]).toEqual(['default', 'frozen'])
  expect(input.files.map((file) => file.filename)).toEqual(['first.csv', 'second.csv'])
  expect(input.files[0]).toMatchObject({
    id: first.id,
    object: { path: first.path, versionId: first.versionId, sizeBytes: 3n },
  })
  await catalog.sql`update landing_file set archived_by_run = ${newId()} where id = ${first.id}`
  expect((await filesOf('frozen', attempt)).files).toHaveLength(2)
})

test('files frozen at the start of the attempt stay the same', async () => {
  const zone = await aZone(catalog.sql, 'started')
  const file = await anUpload(catalog, zone, 'a.csv', 'x')
  await anUpload(catalog, zone, 'b.csv', 'x')
  const attempt = await catalog.attempt(tableNamed('reads'))
  await aRun(catalog.sql, attempt)
  await catalog.sql`
    insert into run_file (run_id, attempt, landing_file_id, zone_id) values (${attempt.runId}, 1, ${file.id}, ${zone.id})`
  expect((await filesOf('started', attempt)).files.map(({ filename }) => filename)).toEqual(['a.csv'])
})

test('concurrent requests freeze a zone once', async () => {
  const zone = await aZone(catalog.sql, 'asked')
  for (const name of ['a.csv', 'b.csv']) await anUpload(catalog, zone, name, 'x')
  const attempt = await catalog.attempt(tableNamed('reads'))
  await aRun(catalog.sql, attempt)
  const answers = await Promise.all(Array.from({ length: 8 }, () => filesOf('asked', attempt)))
  for (const { files } of answers) expect(files.map(({ filename }) => filename)).toEqual(['a.csv', 'b.csv'])
})

test('an empty zone has no files; readers and closed attempts are refused', async () => {
  await aZone(catalog.sql, 'empty')
  const attempt = await catalog.attempt(tableNamed('reads'))
  await aRun(catalog.sql, attempt)
  expect((await filesOf('empty', attempt)).files).toEqual([])
  expect((await landing('unknown', attempt.token)).status).toBe(404)
  expect((await landing('a%00b', attempt.token)).status).toBe(400)
  expect((await landing('empty', (await catalog.reader()).token)).status).toBe(403)
  expect((await landing('empty', null)).status).toBe(401)
  await catalog.sql.begin((tx) => closeBranches(tx, [attempt.branch]))
  expect((await landing('empty', attempt.token)).status).toBe(403)
})

test('a request without a valid token learns nothing about existing zones', async () => {
  await aZone(catalog.sql, 'secret')
  const expired = catalog.tokens.read({ commit: 0, landing: 'default', expiresAt: new Date(0) })
  for (const token of [null, 'nonsense', expired]) {
    const [existing, missing] = [await landing('secret', token), await landing('unknown', token)]
    expect([existing.status, await existing.text()]).toEqual([401, await missing.text()])
    expect(missing.status).toBe(401)
  }
})

test('a preview reads the current landing files, or samples without any', async () => {
  const expiresAt = new Date('2100-01-01')
  const token = catalog.tokens.read({ commit: 0, landing: 'default', expiresAt })
  const stranger = catalog.tokens.read({ commit: 0, landing: 'elsewhere', expiresAt })
  const zone = await aZone(catalog.sql, 'previewed')
  const present = async () =>
    fromJson(LandingInputSchema, await (await landing('previewed', token)).json()).files
  expect(await present()).toEqual([])
  const sample = 'default/landing/previewed/_samples/s.csv'
  const { versionId } = await catalog.objects.put(sample, new TextEncoder().encode('abcd'))
  expect(await present()).toMatchObject([
    { filename: 's.csv', object: { path: sample, versionId, sizeBytes: 4n } },
  ])
  const file = await anUpload(catalog, zone, 'a.csv', 'x')
  expect((await present()).map(({ filename }) => filename)).toEqual(['a.csv'])
  await catalog.sql`update landing_file set archived_by_run = ${newId()} where id = ${file.id}`
  expect((await present()).map(({ filename }) => filename)).toEqual(['s.csv'])

  const read = async (key: string, by: string) => (await catalog.fetch(`/lake/objects/${key}`, by)).status
  expect(await read(sample, token)).toBe(200)
  expect(await read('default/pipelines/gold/x/pipeline.sql', token)).toBe(403)
  expect(await read('default/landing/..%2fpipelines/gold/x/pipeline.sql', token)).not.toBe(200)
  expect(await read(sample, stranger)).toBe(403)
  expect(await read(sample, (await catalog.reader()).token)).toBe(403)
  expect((await landing('previewed', stranger)).status).toBe(403)
  expect((await landing('unknown', token)).status).toBe(404)
})
